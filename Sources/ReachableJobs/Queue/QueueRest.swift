/// The jobs that are left when ``JobQueue/runUntilEmpty()`` returns.
public enum QueueRest: Sendable {
    /// No unfinished job: all have succeeded, failed, or been cancelled.
    case empty
    /// Blocked jobs, which nothing but a change from outside lets run: the first 100 by position with their reasons, and the number
    /// of all.
    case blocked([PendingDurableJob], count: Int)
    /// Any jobs: the run was cancelled or shut down.
    case stopped

    /// The most jobs of ``blocked(_:count:)``.
    static let mostJobs = 100
}

extension PendingDurableJob {
    /// True if time alone does not let this process's worker run the job.
    var isBlocked: Bool {
        let kinds: Set<Reason.Kind> = [.paused, .blocked, .unregistered, .undecodable, .network, .condition]
        return job.state == .running || reasons.contains { kinds.contains($0.kind) }
    }
}
