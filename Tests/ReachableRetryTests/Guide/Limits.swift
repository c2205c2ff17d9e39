import ReachableRetry

extension RetryPolicy {
    static func hurried(log: @escaping @Sendable (String) -> Void) -> RetryPolicy {
        upload
            .giveUpAfter(maxAttempts: 5)
            .giveUpAfter(elapsed: .seconds(3600))
            .attemptTimeout(.seconds(60))
            .connectivity(.wait(upTo: .seconds(600)))
            .onGiveUp { report in
                log("\(report.job) gave up (\(report.reason.rawValue)): \(report.attempts) attempts, \(report.waited) of waiting")
            }
    }
}
