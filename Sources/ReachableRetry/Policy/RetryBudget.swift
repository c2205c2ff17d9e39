internal import Synchronization

/// A limit of the retries of all jobs that share it.
///
/// The limits of single jobs add up: when a server is down, a thousand jobs of ten attempts make ten thousand requests. A budget
/// bounds them together. A job whose retry it denies gives up with ``GiveUp/Reason/budget`` and throws its operation's last
/// error. First attempts are never denied.
///
/// ```swift
/// let budget = RetryBudget.standard()
/// let upload = RetryPolicy.default.budget(budget)
/// let download = RetryPolicy.default.giveUpAfter(maxAttempts: 3).budget(budget)
/// ```
///
/// Only results that depend on a server count. An outage leaves a budget unchanged: network failures, charged or not, neither
/// change nor consult it. Permanent errors, attempts that the job's deadline cut and cancelled jobs do not count either. A job
/// that ends while it waits for a retry gets nothing back for that retry.
///
/// Shared by reference between policies, their copies and buses, whatever their clocks. Thread-safe. Negative numbers and NaN are
/// treated as zero; tokens, costs and retries are clamped to 2^31 − 1.
///
/// ## Topics
/// ### Making a budget
/// - ``throttling(maxTokens:tokenRatio:)``
/// - ``standard()``
/// - ``tokenBucket(capacity:retryCost:timeoutRetryCost:successReward:)``
/// - ``percentage(_:minimumPerSecond:window:clock:)``
public final class RetryBudget: Sendable {
    private let mutex: Mutex<any BudgetState>
    private let now: @Sendable () -> BusTime

    /// Creates a budget with a clock of its own, if it needs one.
    private init(_ state: some BudgetState, now: @escaping @Sendable () -> BusTime = { .start }) {
        mutex = Mutex(state)
        self.now = now
    }

    /// Throttles retries like gRPC (gRFC A6): no retry while half of the tokens or more are gone.
    ///
    /// Each failure takes a token, also that of a job's last attempt. Each success gives `tokenRatio` of a token. With ten tokens
    /// and a ratio of 0.1, the fifth failure in a row has no retry, and an empty budget needs 51 successes before the next one. In
    /// the long run retries continue while no more than `tokenRatio / (1 + tokenRatio)` of the attempts fail.
    ///
    /// - Parameters:
    ///   - maxTokens: The number of tokens at first and at most. With 0 there are no retries.
    ///   - tokenRatio: The tokens that a success gives, with three decimals.
    public static func throttling(maxTokens: Int = 10, tokenRatio: Double = 0.1) -> RetryBudget {
        RetryBudget(RetryThrottle(maxTokens: maxTokens, tokenRatio: tokenRatio))
    }

    /// A token bucket with the numbers of the AWS SDKs' standard retry mode: 500 tokens, 5 per retry, 10 after a timeout.
    ///
    /// See ``tokenBucket(capacity:retryCost:timeoutRetryCost:successReward:)``. If all attempts fail, it allows 100 retries.
    public static func standard() -> RetryBudget { tokenBucket() }

    /// Charges tokens for retries and refunds those that succeed, like the standard retry mode of the AWS SDKs.
    ///
    /// A retry is allowed if there are enough tokens. A job that succeeds gets the cost of its last retry back; without a retry it
    /// adds `successReward`. Tokens do not come back with time.
    ///
    /// - Parameters:
    ///   - capacity: The number of tokens at first and at most.
    ///   - retryCost: The tokens that a retry costs.
    ///   - timeoutRetryCost: The cost after an attempt that ended by ``RetryPolicy/attemptTimeout(_:)``, or with an error for which
    ///     ``RetryPolicy/errno(for:)`` returned ETIMEDOUT.
    ///   - successReward: The tokens that a success without a retry adds.
    public static func tokenBucket(
        capacity: Int = 500, retryCost: Int = 5, timeoutRetryCost: Int = 10, successReward: Int = 1
    ) -> RetryBudget {
        RetryBudget(
            RetryTokenBucket(
                capacity: capacity, retryCost: retryCost, timeoutRetryCost: timeoutRetryCost, successReward: successReward))
    }

    /// Allows a percentage of recent jobs as retries, and a minimum per second, like Finagle's budget.
    ///
    /// The window allows `minimumPerSecond` retries for each of its seconds, and `percentage` of the jobs that reached the server.
    /// Each job counts once, when its first such attempt ends. Jobs and retries expire in tenths of the window, after nine to ten
    /// tenths of it.
    ///
    /// - Parameters:
    ///   - percentage: The number of retries per hundred jobs, with four decimals.
    ///   - minimumPerSecond: The number of retries per second that need no jobs.
    ///   - window: The time that jobs and retries count; at least 1 s.
    ///   - clock: The clock of the window; tests pass the clock of their bus. Buses read `now` under locks, so it must return at
    ///     once and call no bus. The budget never sleeps on it.
    public static func percentage(
        _ percentage: Double = 20, minimumPerSecond: Int = 10, window: Duration = .seconds(10),
        clock: some Clock<Duration> = ContinuousClock()
    ) -> RetryBudget {
        RetryBudget(
            RetryShare(percentage: percentage, minimumPerSecond: minimumPerSecond, window: window), now: BusClock(clock).now)
    }

    /// A snapshot of the state.
    package var state: any BudgetState { mutex.withLock { $0 } }
}

extension RetryBudget {
    /// Records a failed attempt that reached a server.
    func noteFailure(isFirst: Bool) {
        let now = now()
        mutex.withLock { $0.noteFailure(isFirst: isFirst, at: now) }
    }

    /// Takes the cost of a retry; returns the refund for its success, or `nil` if the retry is denied.
    func takeRetry(afterTimeout: Bool) -> Int32? {
        let now = now()
        return mutex.withLock { $0.takeRetry(afterTimeout: afterTimeout, at: now) }
    }

    /// Records a success.
    func noteSuccess(refund: Int32?) {
        let now = now()
        mutex.withLock { $0.noteSuccess(refund: refund, at: now) }
    }
}
