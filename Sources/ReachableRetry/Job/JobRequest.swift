internal import Reachability

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

/// The handle of a job, for its driver.
struct JobHandle: Sendable {
    let key: JobKey
    /// The job's number, which names it if the caller did not.
    let number: UInt64
    /// The caller's name.
    let name: JobID?

    var id: JobID { name ?? JobID(.numbered(number, key)) }
}

extension JobHandle {
    init(_ key: JobKey, _ job: JobState) { self.init(key: key, number: job.number, name: job.driver.record.name) }
}

/// The state of a job that its driver needs.
struct DriverState: Sendable {
    /// The recipient of a job's next wake-up.
    enum Waiter: Sendable {
        /// Its task is busy and looks by itself.
        case busy
        /// Its task, which sleeps.
        ///
        /// Unsafe: a checked continuation takes 80 bytes more for each waiting job, and its end 15 % longer (`bench crowd`).
        case task(UnsafeContinuation<Void, Never>)
        /// It has no task; the definition makes one.
        case definition(AnyJobDefinition)
    }

    /// The steps that a job's driver has not taken yet, and how its user follows it.
    struct Flags: OptionSet, Sendable {
        let rawValue: UInt8

        /// An attempt may start that the driver has not started yet.
        static let mayStart = Flags(rawValue: 1)
        /// The driver reports waits.
        static let wantsWaits = Flags(rawValue: 2)
        /// A wait has not been reported yet.
        static let hasUnreadWait = Flags(rawValue: 4)
        /// A reader comes for the end; otherwise a driver comes for it by itself.
        static let hasReader = Flags(rawValue: 8)
        /// The driver has not reported an announced attempt yet.
        static let isAnnounced = Flags(rawValue: 16)

        /// Something to do for the driver.
        static let steps: Flags = [.mayStart, .hasUnreadWait, .isAnnounced]
    }

    private var sharedRecord = Self.noRecord
    private static let noRecord = Shared(JobRecord())
    var waiter = Waiter.busy
    var flags: Flags = []
    /// The priority of tasks that the bus makes for it.
    let taskPriority: TaskPriority

    init() { taskPriority = .medium }

    init(_ request: JobRequest, name: JobID?, _ trace: JobTrace?) {
        waiter = request.definition.map(Waiter.definition) ?? .busy
        taskPriority = request.taskPriority
        if request.wantsWaits { flags.insert(.wantsWaits) }
        if request.reader != .none { flags.insert(.hasReader) }
        if name != nil { record.name = name }
        if trace != nil { record.trace = trace }
    }

    /// The record of its attempts; the first write allocates it.
    var record: JobRecord {
        // Inlined: a coroutine allocates its frame with each access.
        @inline(__always)
        _read { yield sharedRecord.value }
        @inline(__always)
        _modify { yield &sharedRecord.value }
    }

    /// True if there is something to do for its driver.
    var hasStep: Bool { !flags.isDisjoint(with: .steps) }

    /// True if its task does not sleep.
    var isAwake: Bool { if case .busy = waiter { true } else { false } }
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

/// The end of a job, for its driver.
package struct JobEnd: Sendable {
    package var ending: Ending
    /// The state of a job that goes on in another life.
    package var handBack: HandBack?
    /// The last error that counts, and if a reader comes for the end; known once a driver has taken it.
    var lastError: (any Error)?
    var hasReader = false
}
