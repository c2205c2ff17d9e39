/// A job as its task holds it: where the bus leaves what the task has to know.
///
/// Sendable although it changes: what varies is read and written under the lock of the job's bus only, by the task as well.
final class Ticket: @unchecked Sendable {
    let key: JobKey
    /// The job's number, which is its name if it has no other.
    private let number: UInt64
    private let name: String?

    /// The task, while it has nothing to do.
    var continuation: UnsafeContinuation<Void, Never>?
    /// How the job ended, until its task has seen it.
    var ending: Ending?
    /// The running attempt.
    var attempt: Task<Void, Never>?
    /// What the attempt threw that failed last.
    var failure: (any Error)?
    /// The same, but for attempts that a loss interrupted: those count for nothing.
    var lastError: (any Error)?
    /// Whether an attempt may start that the task has not started yet.
    var mayStart = false
    /// Why the attempt is to be cancelled, if it is.
    var interruption: JobState.Interruption?

    init(_ key: JobKey, number: UInt64, _ id: JobID?) {
        self.key = key
        self.number = number
        if case .chosen(let name)? = id?.name { self.name = name } else { name = nil }
    }

    var id: JobID { JobID(name.map(JobID.Name.chosen) ?? .numbered(number, key)) }

    var hasName: Bool { name != nil }
}
