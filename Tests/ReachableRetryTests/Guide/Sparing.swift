import ReachableRetry

extension RetryPolicy {
    static func sparing(_ budget: RetryBudget) -> RetryPolicy {
        upload.budget(budget)
    }
}
