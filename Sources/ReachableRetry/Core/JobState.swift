/// One job of a bus, from its submission until its end has been read.
///
/// Small, because many jobs may wait: what most of them do not have is in ``history``, which they share.
package struct JobState: Sendable {
    package enum Phase: Sendable {
        /// Waits for nothing: it is paused, or its attempt has just failed.
        case resting
        /// In the queue of its gate: waits for its scope or its turn.
        ///
        /// `closedSince` is the start of the wait by its scope's ``ConditionRecord/closedTime(at:)``; a job that does not wait for
        /// its scope has none. `limit` is the end of the longest wait for the network.
        case queued(closedSince: BusTime, limit: BusTime)
        /// Waits for another condition than its scope.
        case waiting(for: ConditionIndex, since: BusTime)
        /// Waits for a time.
        case backingOff
        /// An attempt is running.
        indirect case running(RunningState)
        /// It has ended, and its driver has not read that yet; `nil` if it knows it.
        indirect case ended(JobEnd?)
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

    // In this order, which leaves no gaps.
    package internal(set) var phase = Phase.resting
    /// The parties that pause it.
    var pausers: Pausers = []
    let scope: ConditionIndex
    let gate: Int32
    /// The last condition that was reported as waited for since its last attempt started.
    var reportedWait: ConditionIndex = -1
    let rules: RetryPolicy.Rules
    var conditions: [ConditionIndex]
    private var sharedHistory = Self.noHistory
    private static let noHistory = Shared(JobHistory())
    /// The part of its driver, which the core does not use.
    var driver = DriverState()
    /// The number of times that it has been queued.
    private(set) var queueings: UInt32 = 0
    /// Its first position, which orders jobs that act at the same time.
    let rank: QueuePosition
    let submitted: BusTime

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

    mutating func apply<Value>(_ change: (inout DriverState) -> Value) -> Value { change(&driver) }

    /// The history; the first write allocates it.
    package internal(set) var history: JobHistory {
        // Inlined: a coroutine allocates its frame with each access.
        @inline(__always)
        _read { yield sharedHistory.value }
        @inline(__always)
        _modify { yield &sharedHistory.value }
    }

    /// True if it has a history of its own.
    var hasHistory: Bool { !sharedHistory.isSame(as: Self.noHistory) }

    /// The running attempt; changes apply only while one runs.
    package internal(set) var attempt: RunningState? {
        get { if case .running(let attempt) = phase { attempt } else { nil } }
        set { if let newValue, isRunning { phase = .running(newValue) } }
    }

    package var isRunning: Bool { if case .running = phase { true } else { false } }

    package var isBackingOff: Bool { if case .backingOff = phase { true } else { false } }

    var isQueued: Bool { if case .queued = phase { true } else { false } }

    var hasEnded: Bool { if case .ended = phase { true } else { false } }

    /// Records that it enters its queue; returns the number of its entry.
    mutating func noteQueueing() -> UInt32 {
        queueings &+= 1
        return queueings
    }

    /// Returns true if the job is queued with this entry.
    func isQueued(as entry: GateQueue.Entry) -> Bool { isQueued && queueings == entry.queueing && position == entry.position }

    /// The condition that it waits for.
    var waitsFor: ConditionIndex? {
        switch phase {
        case .queued: scope
        case .waiting(let condition, _): condition
        case .resting, .backingOff, .running, .ended: nil
        }
    }

    /// True if it starts no attempt.
    var isPaused: Bool { !pausers.isEmpty }

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

    /// True if it waits for its scope.
    var waitsForScope: Bool { rules.waitsForScope }

    /// True if its scope's edges end delays.
    var heedsScope: Bool { rules.connectivity != .ignore }

    /// The longest wait for the network.
    var longestWait: Duration {
        if case .wait(let most?) = rules.connectivity { max(.zero, most) } else { Duration(attoseconds: .max) }
    }

    /// True if a reconnect resets its backoff.
    var resetsOnReconnect: Bool {
        switch rules.reconnect {
        case .automatic: history.lastFault == .network
        case .resetBackoff: true
        case .keepBackoff: false
        }
    }

    /// The time of the job's next timer.
    var nextTime: BusTime {
        switch phase {
        case .resting, .waiting: deadline
        case .queued(_, let limit): min(deadline, limit)
        case .backingOff: min(deadline, max(history.soft, history.hard))
        case .running(let attempt):
            attempt.interruption == nil ? min(deadline, attempt.limit, attempt.interruptAt) : .never
        case .ended: .never
        }
    }
}

extension Int32 {
    /// Returns the number plus one, saturating.
    func saturatingIncrement() -> Int32 { self == .max ? .max : self + 1 }
}

/// A value that its copies share until one of them changes it; takes no more than a pointer.
struct Shared<Value: Sendable>: Sendable {
    /// One element: an array is copied on write.
    private var values: [Value]

    init(_ value: Value) { values = [value] }

    var value: Value {
        // Inlined: a coroutine allocates its frame with each access.
        @inline(__always)
        _read { yield values[0] }
        @inline(__always)
        _modify { yield &values[0] }
    }

    func isSame(as other: Self) -> Bool {
        func place(_ values: [Value]) -> UnsafePointer<Value>? { values.withUnsafeBufferPointer(\.baseAddress) }
        return place(values) == place(other.values)
    }
}

/// The running attempt of a job.
package struct RunningState: Sendable {
    /// The way in which it passed its gate, and the gate's round.
    var pass = GateState.Pass.free
    var round: UInt32 = 0
    /// Its place in the limits.
    var place = Place.none
    package internal(set) var interruption: JobState.Interruption?
    /// True if the job is cancelled with it.
    var isCancelled = false
    /// The end of its time.
    var limit = BusTime.never
    /// The time at which it is cancelled because of a loss.
    var interruptAt = BusTime.never
    /// The source addresses of its connections, as conditions.
    var sources: [ConditionIndex] = []
    /// The epoch of the scope at its start.
    var scopeEpoch: UInt64 = 0
    /// The most bytes of a transfer that were kept before it; negative if none were reported.
    var keptBefore: Int64 = -1
}

/// The attempts, failures and delays of a job so far.
///
/// Most waiting jobs have none.
package struct JobHistory: Sendable {
    /// Its position since its last failure; `nil` if it still has its first one.
    var position: QueuePosition?
    /// The attempts that wait for the job, and lend it their places while they run.
    var lenders: [AttemptKey] = []
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
    /// The most bytes of a transfer that were kept; negative before the first report.
    var kept: Int64 = -1
    /// The total time that it has waited for conditions.
    var waited = Duration.zero

    /// The epochs and counters at the start of the last attempt.
    var armedEpoch: UInt64 = 0
    var armedRetryNows: UInt64 = 0
    /// The scope's epoch of the last error that reported no network.
    var unreachableEpoch: UInt64?
    /// The number of the scope's answers when no name server answered this job.
    var answersAtNameFailure: UInt64?
    /// True if the last attempt was charged.
    var lastWasCharged = false
    /// The fault of the last failure; only for jobs that go on in another life.
    var lastFailure = AttemptFailure.Fault.unknown
    /// True if an edge came during the attempt that failed last; the job did not wait for it.
    var sawEdge = false
    /// True if a reconnect came between the attempt of an earlier life and this one.
    var hasReconnected = false

    /// Returns true if an attempt has kept so much more than all before that its end is no failure.
    func hasProgress(_ attempt: RunningState) -> Bool { kept >= 0 && kept - attempt.keptBefore >= 65_536 }
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
