/// What is left for the tasks of the jobs to pick up, and the names of the jobs.
struct JobDesk: Sendable {
    /// Where a job's task finds what it has to do next.
    struct Tray: Sendable {
        /// The job's number, which is its name if it has no other.
        let number: UInt64
        /// The task, while it has nothing to do.
        var continuation: UnsafeContinuation<Void, Never>?
        var start: Start?
        var ending: Ending?
        /// Whether the running attempt is to be cancelled.
        var isInterrupted = false
        /// Whether that is because it took too long.
        var hasTimedOut = false
        /// The running attempt.
        var attempt: Task<Void, Never>?
        var lastError: (any Error)?
    }

    private var trays: [JobKey: Tray] = [:]
    private var names: [JobKey: JobID] = [:]
    private var keys: [JobID: JobKey] = [:]

    /// How many jobs have something here, those that ended but were not told yet included.
    var count: Int { trays.count }

    /// Whether every job's task sleeps or is busy with an attempt: nothing is left to pick up.
    func isQuiet(isRunning: (JobKey) -> Bool) -> Bool {
        trays.allSatisfy { $1.continuation != nil || ($1.start == nil && $1.ending == nil && isRunning($0)) }
    }

    subscript(key: JobKey) -> Tray? {
        get { trays[key] }
        set { trays[key] = newValue }
        _modify { yield &trays[key] }
    }

    /// The job of that name.
    func key(of id: JobID) -> JobKey? {
        if case .numbered(let number) = id.name { return trays.first { $0.value.number == number }?.key }
        return keys[id]
    }

    /// The job's own name, or else its number.
    func id(of key: JobKey) -> JobID { names[key] ?? JobID(.numbered(trays[key]?.number ?? 0)) }

    mutating func add(_ key: JobKey, number: UInt64, _ id: JobID?) {
        trays[key] = Tray(number: number)
        guard let id else { return }
        names[key] = id
        keys[id] = key
    }

    /// Forgets a job that is over.
    mutating func remove(_ key: JobKey) {
        trays[key] = nil
        if let name = names.removeValue(forKey: key) { keys[name] = nil }
    }
}
