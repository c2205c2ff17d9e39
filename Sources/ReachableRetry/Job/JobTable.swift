internal import Reachability

/// The jobs of a bus with the state that their drivers need.
struct JobTable: Sendable {
    /// The recipient of a job's next wake-up.
    enum Waiter: Sendable {
        /// Its task is busy and reads the table by itself.
        case busy
        /// Its task, which sleeps.
        ///
        /// Unsafe: a checked continuation takes 80 bytes more for each waiting job, and its end 15 % longer (`bench crowd`).
        case task(UnsafeContinuation<Void, Never>)
        /// It has no task; the definition makes one.
        case definition(AnyJobDefinition)
    }

    private struct Flags: OptionSet, Sendable {
        let rawValue: UInt8

        static let mayStart = Flags(rawValue: 1)
        static let wantsWaits = Flags(rawValue: 2)
        static let hasUnreadWait = Flags(rawValue: 4)
        static let hasReader = Flags(rawValue: 8)
        static let isAnnounced = Flags(rawValue: 16)

        mutating func set(_ flag: Flags, _ isSet: Bool) {
            if isSet { insert(flag) } else { remove(flag) }
        }
    }

    /// One job.
    ///
    /// Small, because many jobs may wait. State of jobs that have started or have names is kept apart.
    struct Entry: Sendable {
        /// One record, which jobs share until the first write: an array is copied on write and takes no more than a pointer.
        private var records = noRecords
        private static let noRecords = [JobRecord()]
        var waiter = Waiter.busy
        private var flags: Flags
        /// The reason why the bus cut the attempt.
        var interruption: JobState.Interruption?
        /// The priority of tasks that the bus makes for it.
        let taskPriority: TaskPriority
        fileprivate let generation: UInt32

        fileprivate init(_ handle: JobHandle, _ request: JobRequest) {
            generation = handle.key.generation
            waiter = request.definition.map(Waiter.definition) ?? .busy
            taskPriority = request.taskPriority
            flags = []
            flags.set(.wantsWaits, request.wantsWaits)
            flags.set(.hasReader, request.reader != .none)
            if let name = handle.name { records = [JobRecord(name: name)] }
        }

        /// True if an attempt may start that the driver has not started yet.
        var mayStart: Bool {
            get { flags.contains(.mayStart) }
            set { flags.set(.mayStart, newValue) }
        }

        /// True if the driver reports waits.
        var wantsWaits: Bool { flags.contains(.wantsWaits) }

        /// True if a wait has not been reported yet.
        var hasUnreadWait: Bool {
            get { flags.contains(.hasUnreadWait) }
            set { flags.set(.hasUnreadWait, newValue) }
        }

        /// True if the driver has not reported an announced attempt yet.
        var isAnnounced: Bool {
            get { flags.contains(.isAnnounced) }
            set { flags.set(.isAnnounced, newValue) }
        }

        /// True if there is something to do for its driver.
        var hasStep: Bool { mayStart || hasUnreadWait || isAnnounced }

        /// True if a reader comes for the end; otherwise a driver comes for it by itself.
        var hasReader: Bool { flags.contains(.hasReader) }

        /// True if its task does not sleep.
        var isAwake: Bool { if case .busy = waiter { true } else { false } }

        fileprivate mutating func apply<Value>(_ change: (inout Self) -> Value) -> Value { change(&self) }

        /// The record of its attempts; the first write allocates it.
        var record: JobRecord {
            // Inlined: a coroutine allocates its frame with each access.
            @inline(__always)
            _read { yield records[0] }
            @inline(__always)
            _modify { yield &records[0] }
        }
    }

    private var entries: [Entry?] = []
    private var named: [JobID: JobKey] = [:]
    /// The ends that drivers have not read yet; other jobs may already use the places of these jobs.
    private var ends: [JobKey: JobEnd] = [:]
    private var entryCount = 0
    /// The number of those ends that no reader has to ask for.
    private(set) var unclaimedEnds = 0

    /// The number of jobs, including ended ones whose end was not read.
    var count: Int { entryCount + ends.count }

    /// The job, unless it has ended.
    subscript(key: JobKey) -> Entry? {
        guard Int(key.index) < entries.count, let entry = entries[Int(key.index)], entry.generation == key.generation
        else { return nil }
        return entry
    }

    /// Changes a job in place, unless it has ended; returns what `change` returns.
    // Not a subscript: its coroutine would allocate a frame with each access.
    @discardableResult
    mutating func update<Value>(_ key: JobKey, _ change: (inout Entry) -> Value) -> Value? {
        let index = Int(key.index)
        guard index < entries.count, entries[index]?.generation == key.generation else { return nil }
        return entries[index]?.apply(change)
    }

    /// Returns the job with a name.
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

    /// Removes a job that has ended.
    ///
    /// - Parameters:
    ///   - ending: The ending that its driver reads; `nil` if the driver knows it.
    ///   - handBack: The state of a job that goes on in another life.
    /// - Returns: The removed entry, to be released outside of the lock: it holds errors and closures of its caller.
    mutating func remove(_ key: JobKey, _ ending: Ending?, _ handBack: HandBack? = nil) -> Entry? {
        guard let entry = self[key] else { return nil }
        if let name = entry.record.name { named[name] = nil }
        entries[Int(key.index)] = nil
        entryCount -= 1
        if entryCount == 0 { entries = [] }
        if let ending {
            ends[key] = JobEnd(
                ending: ending, handBack: handBack, lastError: entry.record.lastError,
                hasReader: entry.hasReader)
            if !entry.hasReader { unclaimedEnds += 1 }
        }
        return entry
    }

    /// Removes and returns the end of a job.
    mutating func takeEnd(of key: JobKey) -> JobEnd? {
        guard !ends.isEmpty, let end = ends.removeValue(forKey: key) else { return nil }
        if ends.isEmpty { ends = [:] }
        if !end.hasReader { unclaimedEnds -= 1 }
        return end
    }

    /// Returns true if every job's task sleeps or is busy elsewhere.
    func isQuiet(isBusy: (JobKey) -> Bool) -> Bool {
        entries.indices.allSatisfy { index in
            // Field by field: a copy of the entry would retain what it holds, and there may be many.
            guard entries[index]?.isAwake == true, let generation = entries[index]?.generation else { return true }
            let isTold = entries[index]?.mayStart == true || entries[index]?.isAnnounced == true
            return !isTold && isBusy(JobKey(index: JobIndex(index), generation: generation))
        }
    }
}

/// The end of a job, for its driver.
struct JobEnd: Sendable {
    var ending: Ending
    /// The state of a job that goes on in another life.
    var handBack: HandBack?
    /// The last error that counts.
    var lastError: (any Error)?
    var hasReader: Bool
}

/// The record of a job's attempts, and its name if the caller chose one.
struct JobRecord: Sendable {
    var name: JobID?
    /// The running attempt.
    var attempt: AttemptTask?
    /// The last error.
    var failure: (any Error)?
    /// The last error, except those of attempts that the bus interrupted and repeats.
    var lastError: (any Error)?
    #if Tracing
    var trace: JobTrace?
    #else
    /// Always `nil`, and takes no memory.
    var trace: JobTrace? {
        get { nil }
        set {}
    }
    #endif
}

/// The handle of a job, for its driver.
struct JobHandle: Sendable {
    let key: JobKey
    /// The job's number, which names it if the caller did not.
    let number: UInt64
    /// The caller's name.
    let name: JobID?

    var id: JobID { name ?? JobID(.numbered(number, key)) }
}

/// A submission to the bus.
struct JobRequest {
    var policy: RetryPolicy
    var scope: Scope
    var options: JobOptions
    /// True if the attempts that the submitter runs in wait for the job.
    var isAwaited = true
    /// The start of its life, if later than now.
    var notBefore = BusTime.past
    /// The attempts of earlier lives; given, this life ends with its first failure.
    var past: JobPast?
    /// The definition that makes its task when it may start; `nil` if it has a task.
    var definition: AnyJobDefinition?
    /// True if its driver reports waits.
    var wantsWaits = false
    /// The way in which the job's user follows it.
    var reader = JobDriver.Reader.none
    /// The priority of tasks that the bus makes for it.
    var taskPriority = TaskPriority.medium
}
