/// The consequences of attempts whose process ended while the machine stayed up.
///
/// A job that ends its process each time must not do so for ever, nor take other jobs with it.
enum Crashes {
    /// The number of crashes that are not charged.
    private static let free = 2
    /// The crashes after which a job without a limit of attempts fails.
    private static let most = 20

    static func charged(_ counters: DurableJob.Counters) -> Int { max(0, counters.crashes - free) }

    /// True if no other job runs beside it in its worker.
    static func runsAlone(_ counters: DurableJob.Counters) -> Bool { counters.crashes > free }

    /// The reason why a job failed that must not be repeated, and may have been carried out.
    static let unknownOutcome = "outcomeUnknown"

    /// Returns the reason to start no attempt of a job; `nil` if it may run.
    static func reasonToStop(_ job: DurableJob, maxAttempts: Int?) -> String? {
        if !job.isRepeatable, job.hasUnknownOutcome { return unknownOutcome }
        guard job.counters.crashes > 0 else { return nil }
        guard let maxAttempts else { return job.counters.crashes >= most ? "crashes" : nil }
        return job.counters.charged + charged(job.counters) >= maxAttempts ? "attempts" : nil
    }
}
