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
        case judged
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
    let rank: Turn
    let submitted: BusTime
    /// When it began to wait: for a job in line, by its scope's ``ConditionRecord/closedTime(at:)``.
    var waitBegan = BusTime.never
    let scope: ConditionIndex
    let gate: Int32
    /// The condition that a waiting job is registered with.
    var waitsFor: ConditionIndex = -1
    /// The condition that listeners were last told it waits for, since its last attempt started.
    var toldOf: ConditionIndex = -1

    var phase = Phase.waiting
    var interruption: Interruption?
    var isCancelled = false
    /// Who has told it to wait until they tell it to go on.
    var pausers: Pausers = []
    var isInLine = false
    var lastFault = LastFault.none
    var lastWasCharged = false

    init(
        _ rules: RetryPolicy.Rules, scope: ConditionIndex, conditions: [ConditionIndex], gate: Int32, rank: Turn, submitted: BusTime
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
    var turn: Turn {
        get { history.turn ?? rank }
        set { history.turn = newValue }
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
        case .judged: .never
        }
    }
}

extension Int32 {
    /// One more, or the largest number: nothing traps because a job is stubborn.
    func saturatingIncrement() -> Int32 { self == .max ? .max : self + 1 }
}
