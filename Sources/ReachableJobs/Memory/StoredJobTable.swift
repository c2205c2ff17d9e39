/// The jobs of a ``MemoryStoreState`` by position.
///
/// An array in the order of positions. Deleted rows stay as vacant ones until they are the majority. While no row was removed a
/// position gives its index; afterwards a binary search finds it.
struct StoredJobTable: Sendable {
    /// The most vacant rows that are kept among few jobs.
    private static let mostVacant = 64

    private var rows: ContiguousArray<StoredJob> = []
    private var vacant = 0
    /// The largest position that was assigned.
    private(set) var lastPosition: Int64 = 0

    /// The number of jobs.
    var count: Int { rows.count - vacant }

    /// Adds a job, whose position must be larger than all others.
    mutating func append(_ job: StoredJob) {
        precondition(job.position > lastPosition, "positions grow")
        lastPosition = job.position
        rows.append(job)
    }

    /// Returns a job; `nil` if it was deleted.
    func job(at position: Int64) -> StoredJob? {
        guard let index = index(of: position), rows[index].place != .vacant else { return nil }
        return rows[index]
    }

    /// A job that exists.
    subscript(position: Int64) -> StoredJob {
        get { rows[existing(position)] }
        _modify { yield &rows[existing(position)] }
    }

    /// Deletes a job.
    mutating func remove(_ position: Int64) {
        rows[existing(position)].vacate()
        vacant += 1
        guard vacant > Self.mostVacant, vacant > rows.count / 2 else { return }
        rows = ContiguousArray(rows.lazy.filter { $0.place != .vacant })
        vacant = 0
    }

    /// True if a heap's entry is the newest one of its job.
    func isCurrent(_ entry: LazyHeap.Entry) -> Bool {
        index(of: entry.position).map { rows[$0].stamp == entry.stamp && rows[$0].place != .vacant } ?? false
    }

    /// Calls a body with each job behind a position, in order, until it returns false.
    func forEach(after position: Int64, _ body: (StoredJob) -> Bool) {
        for row in rows[firstIndex(after: position)...] where row.place != .vacant {
            guard body(row) else { return }
        }
    }

    private func existing(_ position: Int64) -> Int {
        guard let index = index(of: position) else { preconditionFailure("the store has no job at position \(position)") }
        return index
    }

    private func index(of position: Int64) -> Int? {
        guard let first = rows.first, position >= first.position else { return nil }
        let guess = Int(position - first.position)
        if guess < rows.count, rows[guess].position == position { return guess }
        let index = firstIndex(after: position - 1)
        return index < rows.count && rows[index].position == position ? index : nil
    }

    private func firstIndex(after position: Int64) -> Int {
        var (low, high) = (0, rows.count)
        while low < high {
            let middle = (low + high) / 2
            if rows[middle].position > position { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
