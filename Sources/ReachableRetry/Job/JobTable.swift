internal import Reachability

/// What the bus keeps of the jobs that have not ended: what their tasks wait with, and what they have to know.
struct JobTable: Sendable {
    /// Who is told when something happens to a job.
    enum Waiter: Sendable {
        /// Its task is busy, and asks by itself.
        case nobody
        /// Its task, which has nothing to do.
        case task(UnsafeContinuation<Void, Never>)
        /// It has no task yet.
        case definition(AnyJobDefinition)
    }

    private struct Flags: OptionSet, Sendable {
        let rawValue: UInt8

        static let mayStart = Flags(rawValue: 1)
        static let wantsWaits = Flags(rawValue: 2)
        static let hasUnreadWait = Flags(rawValue: 4)
        static let hasReader = Flags(rawValue: 8)

        mutating func set(_ flag: Flags, _ isSet: Bool) {
            if isSet { insert(flag) } else { remove(flag) }
        }
    }

    /// One job.
    ///
    /// Small, for there may be many that wait: what only those have that were started or have names is kept apart.
    struct Entry: Sendable {
        /// None, or one: an array takes no more than a pointer.
        private var records: [JobRecord] = []
        var waiter = Waiter.nobody
        private var flags: Flags
        /// Why the attempt is to be cancelled, if it is.
        var interruption: JobState.Interruption?
        /// The priority of the tasks that the bus makes for it.
        let taskPriority: TaskPriority
        fileprivate let generation: UInt32

        fileprivate init(_ handle: JobHandle, _ request: JobRequest) {
            generation = handle.key.generation
            waiter = request.definition.map(Waiter.definition) ?? .nobody
            taskPriority = request.taskPriority
            flags = []
            flags.set(.wantsWaits, request.wantsWaits)
            flags.set(.hasReader, request.reader != .none)
            if let name = handle.name { records = [JobRecord(name: name)] }
        }

        /// Whether an attempt may start that the task has not started yet.
        var mayStart: Bool {
            get { flags.contains(.mayStart) }
            set { flags.set(.mayStart, newValue) }
        }

        /// Whether it is to be told that the job waits for the network.
        var wantsWaits: Bool { flags.contains(.wantsWaits) }

        /// Whether that has happened and was not seen yet.
        var hasUnreadWait: Bool {
            get { flags.contains(.hasUnreadWait) }
            set { flags.set(.hasUnreadWait, newValue) }
        }

        /// True if a reader comes for the end; otherwise a driver comes for it by itself.
        var hasReader: Bool { flags.contains(.hasReader) }

        /// Whether it has a task that may have something to do.
        var isAwake: Bool { if case .nobody = waiter { true } else { false } }

        /// What is known of its attempts; to change anything of it makes room for it.
        var record: JobRecord {
            _read {
                if records.isEmpty { yield.none } else { yield records[0] }
            }
            _modify {
                if records.isEmpty { records.append(.none) }
                yield &records[0]
            }
        }
    }

    private var entries: [Entry?] = []
    private var named: [JobID: JobKey] = [:]
    /// How jobs ended whose tasks have not seen it: their places may have been taken by others.
    private var ends: [JobKey: JobEnd] = [:]
    private var entryCount = 0
    /// How many of those ends a driver will come for by itself.
    private(set) var unclaimedEnds = 0

    /// How many there are, those included of which only the end is left to be seen.
    var count: Int { entryCount + ends.count }

    /// The job, unless it has ended.
    subscript(key: JobKey) -> Entry? {
        get {
            guard Int(key.index) < entries.count, let entry = entries[Int(key.index)], entry.generation == key.generation
            else { return nil }
            return entry
        }
        _modify {
            var none: Entry?
            // In its place: a copy would make the record one of two.
            if Int(key.index) < entries.count, entries[Int(key.index)]?.generation == key.generation {
                yield &entries[Int(key.index)]
            } else {
                yield &none
            }
        }
    }

    /// The job of that name.
    func key(of id: JobID) -> JobKey? {
        guard case .numbered(_, let key) = id.name else { return named[id] }
        // Another bus may have given the same place to another job.
        return self[key] == nil ? nil : key
    }

    mutating func add(_ handle: JobHandle, _ request: JobRequest) {
        let index = Int(handle.key.index)
        while entries.count <= index { entries.append(nil) }
        entries[index] = Entry(handle, request)
        if let name = handle.name { named[name] = handle.key }
        entryCount += 1
    }

    /// The job has ended, and its place may be taken by another.
    ///
    /// - Parameter ending: what its task has to see; `nil` if it has.
    /// - Returns: What was kept of it, to be released outside of the lock: errors and closures of its caller.
    mutating func remove(_ key: JobKey, _ ending: Ending?) -> Entry? {
        guard let entry = self[key] else { return nil }
        if let name = entry.record.name { named[name] = nil }
        entries[Int(key.index)] = nil
        entryCount -= 1
        if entryCount == 0 { entries = [] }
        if let ending {
            ends[key] = JobEnd(ending: ending, lastError: entry.record.lastError, hasReader: entry.hasReader)
            if !entry.hasReader { unclaimedEnds += 1 }
        }
        return entry
    }

    /// How a job ended, for its task.
    mutating func takeEnd(of key: JobKey) -> JobEnd? {
        guard !ends.isEmpty, let end = ends.removeValue(forKey: key) else { return nil }
        if ends.isEmpty { ends = [:] }
        if !end.hasReader { unclaimedEnds -= 1 }
        return end
    }

    /// Whether every job's task sleeps or is busy elsewhere: nothing is left to pick up.
    func isQuiet(isBusy: (JobKey) -> Bool) -> Bool {
        entries.indices.allSatisfy { index in
            guard let entry = entries[index] else { return true }
            let key = JobKey(index: JobIndex(index), generation: entry.generation)
            return !entry.isAwake || (!entry.mayStart && isBusy(key))
        }
    }
}

/// How a job ended, for its driver.
struct JobEnd: Sendable {
    var ending: Ending
    /// What its last attempt threw that counts.
    var lastError: (any Error)?
    var hasReader: Bool
}

/// What is known of a job's attempts, and its name if the caller chose one.
struct JobRecord: Sendable {
    var name: JobID?
    /// The running attempt.
    var attempt: AttemptTask?
    /// What the attempt threw that failed last.
    var failure: (any Error)?
    /// The same, but for attempts that a loss interrupted: those count for nothing.
    var lastError: (any Error)?
    #if Tracing
    var trace: JobTrace?
    #else
    /// Nothing, and it takes no room.
    var trace: JobTrace? {
        get { nil }
        set {}
    }
    #endif

    static let none = JobRecord()
}

/// A job as its task holds it.
struct JobHandle: Sendable {
    let key: JobKey
    /// The job's number, which is its name if it has no other.
    let number: UInt64
    /// What the caller calls it.
    let name: JobID?

    var id: JobID { name ?? JobID(.numbered(number, key)) }
}

/// What a caller asks for.
struct JobRequest {
    var policy: RetryPolicy
    var scope: Scope
    var options: JobOptions
    /// When its life begins, if that is later than now.
    var notBefore = BusTime.past
    /// What makes its task when it may start; `nil` if it has one.
    var definition: AnyJobDefinition?
    /// Whether its driver wants to hear that it waits.
    var wantsWaits = false
    /// The way in which the job's user follows it.
    var reader = JobDriver.Reader.none
    /// The priority of the tasks that the bus makes for it.
    var taskPriority = TaskPriority.medium
}
