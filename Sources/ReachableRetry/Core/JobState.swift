/// One job: where it is in its life.
///
/// Small, for there may be many that wait: what only those have that were started is kept apart.
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

    /// Why an attempt is being cancelled.
    package enum Interruption: Sendable {
        case cancelled
        case deadline
        case timeout
        /// Something that it needs was lost for too long.
        case loss
    }

    /// The fault of the last failure, as far as it matters to what follows.
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

    /// Those who may have a job wait.
    package struct Pausers: OptionSet, Sendable {
        package let rawValue: UInt8
        package init(rawValue: UInt8) { self.rawValue = rawValue }

        /// Whoever owns it.
        package static let owner = Pausers(rawValue: 1)
        /// Whoever reads its events, and has not asked for the next one.
        package static let reader = Pausers(rawValue: 2)
    }

    let rules: RetryPolicy.Rules
    var conditions: [ConditionIndex]
    /// None, or one: an array is copied when it is changed, and takes no more than a pointer.
    private var pasts: [JobHistory] = []
    /// Its first place in line: jobs that may do something at the same time do so in this order.
    let rank: QueuePosition
    let submitted: BusTime
    /// When it began to wait: for a job in line, by its scope's ``ConditionRecord/closedTime(at:)``.
    var waitBegan = BusTime.never
    let scope: ConditionIndex
    let gate: Int32
    /// The condition that a waiting job is registered with.
    var waitsFor: ConditionIndex = -1
    /// The condition that listeners were last told it waits for, since its last attempt started.
    var reportedWait: ConditionIndex = -1

    var phase = Phase.waiting
    var interruption: Interruption?
    var isCancelled = false
    /// Who has told it to wait until they tell it to go on.
    var pausers: Pausers = []
    var isQueued = false
    var lastFault = LastFault.none
    var lastWasCharged = false

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

    /// Whether it starts no attempt.
    var isPaused: Bool { !pausers.isEmpty }

    /// Whether anything has happened to it that is kept apart.
    var hasHistory: Bool { !pasts.isEmpty }

    /// What it has been through; to change anything of it makes room for it.
    package internal(set) var history: JobHistory {
        _read {
            if pasts.isEmpty { yield.none } else { yield pasts[0] }
        }
        _modify {
            if pasts.isEmpty { pasts.append(.none) }
            yield &pasts[0]
        }
    }

    /// Its place in line; none after a failure, until it stands in line again.
    var position: QueuePosition {
        get { history.position ?? rank }
        set { history.position = newValue }
    }

    /// Of two jobs the older one has the smaller.
    var number: UInt64 { rank.number }

    var priority: JobPriority { rank.priority }

    /// When the job gives up, whatever it does then.
    var deadline: BusTime { rules.elapsed.map { submitted + $0 } ?? .never }

    /// When it has taken too long: the wait, or the attempt.
    var limit: BusTime {
        get { history.limit }
        set { if newValue != limit { history.limit = newValue } }
    }

    /// Whether the scope has to be satisfied.
    var waitsForScope: Bool { if case .wait = rules.connectivity { true } else { false } }

    /// Whether the scope's edges end delays.
    var heedsScope: Bool { rules.connectivity != .ignore }

    /// When something happens to the job by itself.
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
    /// One more, or the largest number: nothing traps because a job is stubborn.
    func saturatingIncrement() -> Int32 { self == .max ? .max : self + 1 }
}

/// What a job has been through since something first happened to it: most that wait have no history yet.
package struct JobHistory: Sendable {
    /// Its place in line since its last failure; `nil` if its first still holds.
    var position: QueuePosition?
    /// How the running attempt was let go, and in which round of the gate.
    var pass = GateState.Pass.free
    var round: UInt32 = 0

    /// If true, its attempt counts for the limits of the bus and of its destination.
    var hasPlace = false
    /// The running attempt that submitted it, and whose place it uses.
    var parent: ParentAttempt?

    package internal(set) var started: Int32 = 0
    var charged: Int32 = 0
    var networkFailures: Int32 = 0
    /// The number of the last charged failure, for its delay; a reconnect may reset it.
    var failureIndex: Int32 = 0
    /// The number of the last failure of the network since the last edge.
    var connectivityIndex: Int32 = 0
    /// What the budget gives back if the attempt succeeds; negative before the first retry that it was asked for.
    var refund: Int32 = -1

    /// Until when the job's own backoff holds it.
    var soft = BusTime.past
    /// The same of a delay that an edge or a nudge has ended.
    var voided = BusTime.past
    /// Until when somebody's order holds it.
    var hard = BusTime.past
    /// The delay before, for decorrelated jitter.
    var previousDelay: Duration?
    /// When it has taken too long: the wait, or the attempt.
    var limit = BusTime.never
    /// The addresses that the running attempt's connections come from, as conditions.
    var sources: [ConditionIndex] = []
    /// When the attempt is cancelled because something was lost.
    var interruptAt = BusTime.never
    /// For how long it has waited for conditions.
    var waited = Duration.zero

    /// What was seen when the last attempt started.
    var armedEpoch: UInt64 = 0
    var armedScopeEpoch: UInt64 = 0
    var armedRetryNows: UInt64 = 0
    /// The scope's epoch in which the system last said that there is no network.
    var unreachableEpoch: UInt64?
    /// The number of answers that the scope's jobs had got when no name server answered this job.
    var answersAtNameless: UInt64?
    /// Whether an edge came while the attempt ran that failed last: the job did not wait for that one.
    var sawEdge = false

    /// That of a job to which nothing has happened.
    static let none = JobHistory()
}

/// The attempt that submitted a job.
package struct ParentAttempt: Hashable, Sendable {
    package let job: JobKey
    package let number: Int32

    package init(_ job: JobKey, _ number: Int) { (self.job, self.number) = (job, Int32(clamping: number)) }
}

/// Names a job for as long as it lives: its place, and how often the place was used before.
package struct JobKey: Hashable, Sendable {
    package let index: JobIndex
    package let generation: UInt32
}
