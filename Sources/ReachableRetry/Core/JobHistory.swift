/// What a job has been through since something first happened to it: most that wait have no history yet.
package struct JobHistory: Sendable {
    /// Its place in line since its last failure; `nil` if its first still holds.
    var turn: Turn?
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
    var armedNudges: UInt64 = 0
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
