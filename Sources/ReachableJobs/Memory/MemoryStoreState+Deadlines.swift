internal import HeapModule

/// The deadlines of a queue's waiting jobs; entries of jobs that have ended stay until they come first or are the majority.
struct DeadlineQueue: Sendable {
    private struct Entry: Comparable, Hashable, Sendable {
        var deadline: StoreInstant
        var position: Int64

        static func < (left: Entry, right: Entry) -> Bool {
            (left.deadline, left.position) < (right.deadline, right.position)
        }
    }

    /// The number of entries from which stale ones are removed.
    private static let smallest = 64

    private var heap = Heap<Entry>()
    private var sweepsAt = smallest

    mutating func insert(_ deadline: StoreInstant, _ position: Int64, _ jobs: StoredJobTable) {
        if heap.count >= sweepsAt {
            heap = Heap(Set(heap.unordered.lazy.filter { Self.isCurrent($0, jobs) }))
            sweepsAt = max(Self.smallest, heap.count * 2)
        }
        heap.insert(Entry(deadline: deadline, position: position))
    }

    /// The first deadline of an unfinished job; removes stale entries before it.
    mutating func first(_ jobs: StoredJobTable) -> (deadline: StoreInstant, position: Int64)? {
        while let entry = heap.min {
            if Self.isCurrent(entry, jobs) { return (entry.deadline, entry.position) }
            heap.removeMin()
        }
        return nil
    }

    mutating func removeFirst() { _ = heap.popMin() }

    private static func isCurrent(_ entry: Entry, _ jobs: StoredJobTable) -> Bool {
        jobs.job(at: entry.position).map { !$0.state.isFinal && $0.deadline == entry.deadline } ?? false
    }
}

extension MemoryStoreState {
    /// Fails waiting jobs whose deadline has passed.
    mutating func expire(queue name: String, limit: Int) -> ExpiredJobs {
        var expired = ExpiredJobs(jobs: [], next: nil, hasMore: false)
        guard let queue = existingNumber(ofQueue: name) else { return expired }
        while let first = queues[Int(queue)].deadlines.first(jobs) {
            guard first.deadline <= now else {
                expired.next = first.deadline
                break
            }
            guard expired.jobs.count < limit else {
                expired.hasMore = true
                break
            }
            queues[Int(queue)].deadlines.removeFirst()
            // A running job's deadline is its worker's; it comes back with its claim's end.
            guard jobs[first.position].state == .available else { continue }
            jobs[first.position].history.failureReason = "deadline"
            setState(first.position, .failed)
            expired.jobs.append(durable(jobs[first.position]))
        }
        if !expired.jobs.isEmpty { hint = true }
        return expired
    }

    /// Takes note of the deadline of a job that is available.
    mutating func noteDeadline(of position: Int64) {
        guard let deadline = jobs[position].deadline else { return }
        queues[Int(lanes[Int(jobs[position].lane)].queue)].deadlines.insert(deadline, position, jobs)
    }
}
