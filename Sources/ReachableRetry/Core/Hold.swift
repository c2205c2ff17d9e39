/// What keeps a job in line that could start.
package enum Hold: Hashable, Sendable {
    /// Another job tries the way first.
    case canary
    /// So many run already, as many as have proved possible.
    case full(Int)
    /// The network or the server failed those who tried.
    case failed
    /// The server wants to be left alone: it told this job.
    case throttled(by: JobID?)
    /// The network has come and gone too often.
    case unsteady
    /// The job's part of the time over which many machines come back.
    case spread
    /// So many a second, and not more.
    case pace
    /// So many run already, of all jobs of the bus.
    case crowded(Int)
    /// So many run already to the same destination.
    case destinationFull(Int)
}
