import ReachableRetry

/// Reports by their evidence alone.
extension FailureReport {
    static let unclassified = FailureReport(.unclassified)
    static let unreachable = FailureReport(.unreachable)
    static let unanswered = FailureReport(.unanswered)
    static let timedOut = FailureReport(.timedOut)
    static let nameless = FailureReport(.nameless)
    static let refused = FailureReport(.refused)
    static let addressless = FailureReport(.addressless)
    static let shortage = FailureReport(.shortage)
    /// An error that nobody knows, and that ends the job.
    static let final = FailureReport(.unclassified, mayRetry: false)

    static func classified(_ failure: AttemptFailure) -> FailureReport { FailureReport(failure) }
}
