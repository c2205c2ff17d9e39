/// One job: where it is in its life, and what it has been through.
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
        case unsatisfied
    }

    let generation: UInt32
    /// Jobs that may start at the same time do so in the order of their numbers.
    let sequence: UInt64
    let rules: RetryPolicy.Rules
    let scope: ConditionIndex
    var conditions: [ConditionIndex]
    let gate: Int32
    let priority: JobPriority
    let submitted: BusTime
    let deadline: BusTime

    var phase = Phase.waiting
    var interruption: Interruption?
    var isCancelled = false
    /// Whether it has been told to wait until it is told to go on.
    var isPaused = false
    var hasToldOfWaiting = false
    var lastWasConnectivity = false
    var lastWasCharged = false
    /// The condition that a waiting job is registered with.
    var waitsFor: ConditionIndex = -1
    /// The job's entry in the timer queue.
    var token: TimerQueue.Token = 0
    /// The job's place among those of its gate, and whether it stands in line there.
    var turn: Turn
    var isInLine = false
    /// How the running attempt was let go, and in which round of the gate.
    var pass = GateState.Pass.free
    var round: UInt32 = 0

    var started: Int32 = 0
    var charged: Int32 = 0
    var connectivityFailures: Int32 = 0
    /// The number of the last charged failure, for its delay; a reconnect may reset it.
    var failureIndex: Int32 = 0
    /// The number of the last failure of the network since the last edge.
    var connectivityIndex: Int32 = 0
    /// What the budget gives back if the attempt succeeds; negative before the first retry that it was asked for.
    var refund: Int32 = -1

    /// Until when the job's own backoff holds it.
    var soft = BusTime.past
    /// Until when somebody's order holds it.
    var hard = BusTime.past
    /// The delay before, for decorrelated jitter.
    var previousDelay: Duration?
    /// When it has taken too long: the wait, or the attempt.
    var limit = BusTime.never
    /// When the attempt is cancelled because something was lost.
    var interruptAt = BusTime.never
    /// When it began to wait: for a job in line, by its scope's ``ConditionRecord/closedTime(at:)``.
    var waitBegan = BusTime.never
    var waited = Duration.zero

    /// What was seen when the last attempt started.
    var armedEpoch: UInt64 = 0
    var armedScopeEpoch: UInt64 = 0
    var armedNudges: UInt64 = 0

    /// Whether the scope has to be satisfied.
    var waitsForScope: Bool { if case .wait = rules.connectivity { true } else { false } }

    /// Whether the scope's edges end delays.
    var heedsScope: Bool { rules.connectivity != .ignore }

    /// When something happens to the job by itself.
    var nextTime: BusTime {
        switch phase {
        case .waiting: min(deadline, limit)
        case .backingOff: min(deadline, max(soft, hard))
        case .running: interruption == nil ? min(deadline, limit, interruptAt) : .never
        case .judged: .never
        }
    }
}

extension Int32 {
    /// One more, or the largest number: nothing traps because a job is stubborn.
    func saturatingIncrement() -> Int32 { self == .max ? .max : self + 1 }
}
