internal import Synchronization

/// What a server that fails may be asked again, by all jobs that share the budget.
///
/// Each job has limits of its own, which add up: when a server is down, a thousand jobs of ten attempts are ten thousand requests.
/// A budget bounds them together. When it denies a retry, the job gives up with ``GiveUp/Reason/budget``, and its caller gets the
/// operation's last error. First attempts are never denied.
///
/// ```swift
/// let budget = RetryBudget.standard()
/// let upload = RetryPolicy.default.budget(budget)
/// let download = RetryPolicy.default.giveUpAfter(maxAttempts: 3).budget(budget)
/// ```
///
/// Only what says something of a server counts. Failures of the network, whether they are charged or not, neither change the budget
/// nor ask it, so an outage leaves it as it was. Permanent errors do not count either, nor do attempts that the job's own deadline
/// cut short, nor jobs that are cancelled. A job that ends for another reason pays for no retry; one that ends while it waits for
/// the retry that it has paid for gets nothing back.
///
/// Shared by reference: by the copies of a policy, by policies, and by buses, whatever their clocks. All members can be used from
/// any thread. No number makes it trap: what is negative or no number counts as zero, and tokens, costs and numbers of retries end
/// at 2^31 − 1.
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

    /// A budget that decides by a clock of its own, if it needs one.
    private init(_ state: some BudgetState, now: @escaping @Sendable () -> BusTime = { .start }) {
        mutex = Mutex(state)
        self.now = now
    }

    /// Throttles retries as gRPC does (gRFC A6): they end when half of the tokens are gone.
    ///
    /// A failure takes a token, also that of a job's last attempt; a success gives `tokenRatio` of one. A retry is allowed while
    /// there are more than half of `maxTokens`. With ten tokens and a tenth, the fifth failure in a row is not followed by a retry;
    /// from no tokens at all it takes 51 successes until there are retries again. In the long run retries last while no more than
    /// `tokenRatio / (1 + tokenRatio)` of the attempts fail.
    ///
    /// - Parameters:
    ///   - maxTokens: how many tokens there are at first and at most. With none, there are no retries.
    ///   - tokenRatio: what a success gives, in tokens; of its decimals three count.
    public static func throttling(maxTokens: Int = 10, tokenRatio: Double = 0.1) -> RetryBudget {
        RetryBudget(RetryThrottle(maxTokens: maxTokens, tokenRatio: tokenRatio))
    }

    /// A new bucket with the numbers of the AWS SDKs' standard retry mode: 500 tokens, 5 a retry, 10 after a timeout.
    ///
    /// See ``tokenBucket(capacity:retryCost:timeoutRetryCost:successReward:)``. If everything fails, it is empty after a hundred
    /// retries.
    public static func standard() -> RetryBudget { tokenBucket() }

    /// Has retries pay, and those that succeed get it back, as the standard retry mode of the AWS SDKs does.
    ///
    /// A retry is allowed if there are as many tokens as it costs. When a job succeeds, it gets back what its last retry cost; one
    /// that needed no retry gives `successReward`. There are never more tokens than `capacity`. Nothing comes back with time.
    ///
    /// - Parameters:
    ///   - capacity: how many tokens there are at first and at most.
    ///   - retryCost: what a retry costs, in tokens.
    ///   - timeoutRetryCost: what it costs if the attempt before ended by ``RetryPolicy/attemptTimeout(_:)``, or with an error for
    ///     which ``RetryPolicy/errno(for:)`` was asked and said ETIMEDOUT.
    ///   - successReward: what a job gives that succeeds without a retry, in tokens.
    public static func tokenBucket(
        capacity: Int = 500, retryCost: Int = 5, timeoutRetryCost: Int = 10, successReward: Int = 1
    ) -> RetryBudget {
        RetryBudget(
            RetryTokenBucket(
                capacity: capacity, retryCost: retryCost, timeoutRetryCost: timeoutRetryCost, successReward: successReward))
    }

    /// Allows so many retries per hundred jobs of late, and some in any case, as Finagle's budget does.
    ///
    /// Within the window there may be `minimumPerSecond` retries for each of its seconds, and `percentage` of the jobs of which an
    /// attempt reached the server, whether it failed or not; each job counts once, when the first such attempt ends. Jobs and
    /// retries are forgotten a tenth of the window at a time, after nine to ten tenths of it.
    ///
    /// - Parameters:
    ///   - percentage: how many retries a hundred jobs allow; of its decimals four count.
    ///   - minimumPerSecond: how many retries a second are allowed without jobs.
    ///   - window: how long jobs and retries count; less than a second counts as one.
    ///   - clock: The clock that the window is measured with; tests pass the one of their bus. Buses read `now` while they hold
    ///     locks, so it must return at once and call no bus. Nothing sleeps on it.
    public static func percentage(
        _ percentage: Double = 20, minimumPerSecond: Int = 10, window: Duration = .seconds(10),
        clock: some Clock<Duration> = ContinuousClock()
    ) -> RetryBudget {
        RetryBudget(
            RetryShare(percentage: percentage, minimumPerSecond: minimumPerSecond, window: window), now: BusClock(clock).now)
    }

    /// What it knows at the moment.
    package var state: any BudgetState { mutex.withLock { $0 } }
}

extension RetryBudget {
    /// An attempt reached a server and failed.
    func noteFailure(isFirst: Bool) {
        let now = now()
        mutex.withLock { $0.noteFailure(isFirst: isFirst, at: now) }
    }

    /// Takes what another attempt costs; returns what comes back if it succeeds, `nil` if there is to be none.
    func takeRetry(afterTimeout: Bool) -> Int32? {
        let now = now()
        return mutex.withLock { $0.takeRetry(afterTimeout: afterTimeout, at: now) }
    }

    /// A job succeeded.
    func noteSuccess(refund: Int32?) {
        let now = now()
        mutex.withLock { $0.noteSuccess(refund: refund, at: now) }
    }
}
