/// The state of one job.
///
/// Small, because many jobs may wait. State of started jobs is kept apart in ``JobHistory``.
package struct JobState: Sendable {
    package enum Phase: Sendable {
        /// Waits for a condition.
        case waiting
        /// Waits for a time.
        case backingOff
        /// An attempt is running.
        case running
        /// An attempt failed, and its delay is being computed.
        case failed
    }

    /// The reason why an attempt is cancelled.
    package enum Interruption: Sendable {
        case cancelled
        case deadline
        case timeout
        /// A condition or source address was lost for longer than the grace.
        case loss

        /// True if the job may go on with another attempt.
        var isCut: Bool { self == .timeout || self == .loss }
    }

    /// The fault of the last failure, as far as later decisions depend on it.
    enum LastFault: UInt8 {
        case none
        case network
        case local
        case other

        init(_ fault: AttemptFailure.Fault) {
            switch fault {
            case .network: self = .network
            case .local: self = .local
            case .server, .overload, .request, .unknown: self = .other
            }
        }
    }

    /// The parties that pause a job.
    package struct Pausers: OptionSet, Sendable {
        package let rawValue: UInt8
        package init(rawValue: UInt8) { self.rawValue = rawValue }

        /// The job's owner.
        package static let owner = Pausers(rawValue: 1)
        /// The reader of its events, until it asks for the next one.
        package static let reader = Pausers(rawValue: 2)
    }

    let rules: RetryPolicy.Rules
    var conditions: [ConditionIndex]
    /// One history, which all jobs share until the first write: an array is copied on write and takes no more than a pointer.
    private var pasts = noPasts
    private static let noPasts = [JobHistory()]
    /// Its first position, which orders jobs that act at the same time.
    let rank: QueuePosition
    let submitted: BusTime
    /// The start of its wait; for a queued job by its scope's ``ConditionRecord/closedTime(at:)``.
    var waitBegan = BusTime.never
    let scope: ConditionIndex
    let gate: Int32
    /// The condition that a waiting job is registered with.
    var waitsFor: ConditionIndex = -1
    /// The last condition that was reported as waited for since its last attempt started.
    var reportedWait: ConditionIndex = -1

    /// Grows when it enters or leaves a queue, and is odd in between.
    private(set) var queueing: UInt32 = 0
    var phase = Phase.waiting
    /// The parties that pause it.
    var pausers: Pausers = []

    init(
        _ rules: RetryPolicy.Rules, scope: ConditionIndex, conditions: [ConditionIndex], gate: Int32, rank: QueuePosition,
        submitted: BusTime
    ) {
        self.rules = rules
        self.scope = scope
        self.conditions = conditions
        self.gate = gate
        self.rank = rank
        self.submitted = submitted
    }

    /// True if it starts no attempt.
    var isPaused: Bool { !pausers.isEmpty }

    /// True if it has a history of its own.
    var hasHistory: Bool {
        func place(_ pasts: [JobHistory]) -> UnsafePointer<JobHistory>? { pasts.withUnsafeBufferPointer(\.baseAddress) }
        return place(pasts) != place(Self.noPasts)
    }

    /// The history; the first write allocates it.
    package internal(set) var history: JobHistory {
        // Inlined: a coroutine allocates its frame with each access.
        @inline(__always)
        _read { yield pasts[0] }
        @inline(__always)
        _modify { yield &pasts[0] }
    }

    var isQueued: Bool {
        get { queueing & 1 == 1 }
        set { if newValue != isQueued { queueing &+= 1 } }
    }

    /// Its position; none after a failure until it is queued again.
    var position: QueuePosition {
        get { history.position ?? rank }
        set { history.position = newValue }
    }

    /// The job's number; older jobs have smaller ones.
    var number: UInt64 { rank.number }

    var priority: JobPriority { rank.priority }

    /// The time at which the job gives up in every state.
    var deadline: BusTime { rules.elapsed.map { submitted + $0 } ?? .never }

    /// The time limit of the wait or the attempt.
    var limit: BusTime {
        get { history.limit }
        set { if newValue != limit { history.limit = newValue } }
    }

    /// True if it waits for its scope.
    var waitsForScope: Bool { rules.waitsForScope }

    /// True if its scope's edges end delays.
    var heedsScope: Bool { rules.connectivity != .ignore }

    /// True if the last attempt was charged.
    var lastWasCharged: Bool {
        get { history.lastWasCharged }
        set { if newValue != lastWasCharged { history.lastWasCharged = newValue } }
    }

    /// The reason why the running attempt is cancelled.
    var interruption: Interruption? {
        get { history.interruption }
        set { if newValue != interruption { history.interruption = newValue } }
    }

    var lastFault: LastFault { history.lastFault }

    /// True if a failure ends this life; the job goes on in another one.
    var handsBack: Bool { history.handsBack }

    /// The time of the job's next timer.
    var nextTime: BusTime {
        switch phase {
        case .waiting: min(deadline, limit)
        case .backingOff: min(deadline, max(history.soft, history.hard))
        case .running: interruption == nil ? min(deadline, limit, history.interruptAt) : .never
        case .failed: .never
        }
    }
}

extension Int32 {
    /// Returns the number plus one, saturating.
    func saturatingIncrement() -> Int32 { self == .max ? .max : self + 1 }
}

/// The state of a job that has started or waited before.
///
/// Most waiting jobs have none of their own.
package struct JobHistory: Sendable {
    /// Its position since its last failure; `nil` if it still has its first one.
    var position: QueuePosition?
    /// The pass of the running attempt, and the gate's round.
    var pass = GateState.Pass.free
    var round: UInt32 = 0

    /// The place of the running attempt.
    var place = Place.none
    /// The attempts that wait for the job, and lend it their places while they run.
    var lenders: [AttemptKey] = []
    var interruption: JobState.Interruption?
    /// True if its running attempt is cancelled, and the job with it.
    var isCancelled = false
    var lastFault = JobState.LastFault.none
    /// True if a failure ends this life; the job goes on in another one.
    var handsBack = false
    /// True if a reader follows its events: each attempt is announced and starts when the reader asks for the next event.
    var hasEventReader = false
    /// True if the next attempt has been announced.
    var isAnnounced = false

    package internal(set) var started: Int32 = 0
    var charged: Int32 = 0
    var networkFailures: Int32 = 0
    /// The number of the last charged failure, for its delay; a reconnect may reset it.
    var failureIndex: Int32 = 0
    /// The number of the last failure of the network since the last edge.
    var connectivityIndex: Int32 = 0
    /// The budget's refund if the attempt succeeds; negative before the first retry.
    var refund: Int32 = -1

    /// The end of its soft delay.
    var soft = BusTime.past
    /// The end of a soft delay that an edge or a call to retry now voided.
    var voided = BusTime.past
    /// The end of its hard delay.
    var hard = BusTime.past
    /// The previous delay, for decorrelated jitter.
    var previousDelay: Duration?
    /// The most bytes of a transfer that were kept, and those before the running attempt; negative before the first report.
    var kept: Int64 = -1
    var keptBefore: Int64 = -1
    /// The time limit of the wait or the attempt.
    var limit = BusTime.never
    /// The source addresses of the running attempt's connections, as conditions.
    var sources: [ConditionIndex] = []
    /// The time at which the attempt is cancelled because of a loss.
    var interruptAt = BusTime.never
    /// The total time that it has waited for conditions.
    var waited = Duration.zero

    /// The epochs and counters at the start of the last attempt.
    var armedEpoch: UInt64 = 0
    var armedScopeEpoch: UInt64 = 0
    var armedRetryNows: UInt64 = 0
    /// The scope's epoch of the last error that reported no network.
    var unreachableEpoch: UInt64?
    /// The number of the scope's answers when no name server answered this job.
    var answersAtNameFailure: UInt64?
    var lastWasCharged = false

    /// True if the running attempt has kept so much more than all before that its end is no failure.
    var hasProgress: Bool { kept >= 0 && kept - keptBefore >= 65_536 }
    /// The fault of the last failure; only for jobs that go on in another life.
    var lastFailure = AttemptFailure.Fault.unknown
    /// True if an edge came during the attempt that failed last; the job did not wait for it.
    var sawEdge = false
    /// True if a reconnect came between the attempt of an earlier life and this one.
    var hasReconnected = false
}

/// The place of a running attempt in the limits of the bus and its destination.
enum Place: Hashable, Sendable {
    /// It does not count.
    case none
    case own
    /// It uses the place of an attempt that waits for it.
    case borrowed(from: JobIndex)
}

/// One attempt of a job.
package struct AttemptKey: Hashable, Sendable {
    package let job: JobKey
    package let number: Int32

    package init(_ job: JobKey, _ number: Int) { (self.job, self.number) = (job, Int32(clamping: number)) }
}

/// The key of a job: its place, and the number of earlier uses of the place.
package struct JobKey: Hashable, Sendable {
    package let index: JobIndex
    package let generation: UInt32
}
