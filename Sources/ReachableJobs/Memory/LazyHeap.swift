internal import HeapModule

/// Jobs by a key, then by position; entries of jobs that have moved on stay until they come first or are the majority.
struct LazyHeap: Sendable {
    struct Entry: Comparable, Sendable {
        var key: Int64
        var position: Int64
        /// The job's stamp when the entry was made.
        var stamp: UInt32

        static func < (left: Entry, right: Entry) -> Bool {
            (left.key, left.position) < (right.key, right.position)
        }
    }

    /// The number of entries from which stale ones are removed.
    private static let smallest = 64

    private var heap = Heap<Entry>()
    private var sweepsAt = smallest

    /// The number of entries, stale ones included.
    var count: Int { heap.count }

    /// Adds an entry of a job, which is current until the job's stamp changes.
    mutating func insert(_ key: Int64, _ position: Int64, stamp: UInt32, _ jobs: StoredJobTable) {
        if heap.count >= sweepsAt {
            heap = Heap(heap.unordered.filter { jobs.isCurrent($0) })
            sweepsAt = max(Self.smallest, heap.count * 2)
        }
        heap.insert(Entry(key: key, position: position, stamp: stamp))
    }

    /// The first current entry; removes stale ones before it.
    mutating func first(_ jobs: StoredJobTable) -> Entry? {
        while let entry = heap.min {
            if jobs.isCurrent(entry) { return entry }
            heap.removeMin()
        }
        return nil
    }

    /// Removes and returns the first current entry if its key is at most a bound.
    mutating func popFirst(through bound: Int64, _ jobs: StoredJobTable) -> Entry? {
        guard let entry = first(jobs), entry.key <= bound else { return nil }
        return heap.removeMin()
    }
}
