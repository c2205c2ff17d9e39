/// A job as its task holds it.
struct Ticket: Sendable {
    let key: JobKey
    /// The job's number, which is its name if it has no other.
    let number: UInt64
    /// What the caller calls it.
    let name: JobID?

    var id: JobID { name ?? JobID(.numbered(number, key)) }
}
