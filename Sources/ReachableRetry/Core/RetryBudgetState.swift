/// The state of a retry budget.
///
/// Pure: time is an argument. Tokens are integers, so that repeated changes do not drift.
package protocol BudgetState: Sendable {
    /// Records a failed attempt that reached a server; `isFirst` is true for the first one of a job.
    mutating func noteFailure(isFirst: Bool, at now: BusTime)

    /// Takes the cost of a retry.
    ///
    /// - Parameter afterTimeout: True if the previous attempt timed out.
    /// - Returns: The refund for ``noteSuccess(refund:at:)``, zero or more; `nil` if the retry is denied, which costs nothing.
    mutating func takeRetry(afterTimeout: Bool, at now: BusTime) -> Int32?

    /// Records a success.
    ///
    /// - Parameter refund: The last result of ``takeRetry(afterTimeout:at:)`` for the job; `nil` if there was none.
    mutating func noteSuccess(refund: Int32?, at now: BusTime)
}

extension Double {
    /// Returns the number in parts of 1/`unit`, rounded down.
    ///
    /// Negative numbers and NaN give zero. Numbers above the largest `Int32` are clamped to it.
    func parts(_ unit: Int32) -> Int64 {
        guard self > 0 else { return 0 }
        // The binary form of 1.001 is slightly less, which must not cost a whole part.
        return Int64(min(self, Double(Int32.max)) * Double(unit) * (1 + 0x1p-50))
    }
}

extension Int {
    /// The number clamped to 0…`Int32.max`, so that sums and products do not overflow.
    var count: Int32 { Int32(clamping: Swift.max(0, self)) }
}

/// The throttling of gRPC (gRFC A6): failures take tokens, successes give some, and retries end while half of them are gone.
package struct RetryThrottle: BudgetState, Hashable {
    /// The parts of a token: A6 has ratios of three decimals.
    static let token: Int32 = 1000

    /// The parts that a success gives.
    private let reward: Int64
    private let most: Int64
    /// In parts of a token.
    package private(set) var balance: Int64

    package init(maxTokens: Int, tokenRatio: Double) {
        most = Int64(maxTokens.count) * Int64(Self.token)
        reward = tokenRatio.parts(Self.token)
        balance = most
    }

    package mutating func noteFailure(isFirst: Bool, at now: BusTime) { balance = max(0, balance - Int64(Self.token)) }

    /// Costs nothing, because the failure before has paid.
    package mutating func takeRetry(afterTimeout: Bool, at now: BusTime) -> Int32? { balance > most / 2 ? 0 : nil }

    package mutating func noteSuccess(refund: Int32?, at now: BusTime) { balance = min(most, balance + reward) }
}

/// The retry quota of the AWS SDKs' standard mode: retries take tokens, and successful ones return them.
package struct RetryTokenBucket: BudgetState, Hashable {
    private let capacity: Int64
    private let cost: Int32
    private let timeoutCost: Int32
    /// The tokens that a success without a retry gives.
    private let reward: Int32
    package private(set) var balance: Int64

    package init(capacity: Int, retryCost: Int, timeoutRetryCost: Int, successReward: Int) {
        self.capacity = Int64(capacity.count)
        (cost, timeoutCost, reward) = (retryCost.count, timeoutRetryCost.count, successReward.count)
        balance = self.capacity
    }

    package mutating func noteFailure(isFirst: Bool, at now: BusTime) {}

    package mutating func takeRetry(afterTimeout: Bool, at now: BusTime) -> Int32? {
        let cost = afterTimeout ? timeoutCost : cost
        guard balance >= cost else { return nil }
        balance -= Int64(cost)
        return cost
    }

    package mutating func noteSuccess(refund: Int32?, at now: BusTime) {
        balance = min(capacity, balance + Int64(refund ?? reward))
    }
}

/// Finagle's retry budget: a percentage of recent jobs, and a minimum per second.
///
/// Deposits and retries expire after the window, in tenths of it, so the minimum renews itself.
package struct RetryShare: BudgetState, Hashable {
    /// The parts of a retry.
    static let retry: Int32 = 1_000_000
    private static let slices: Int64 = 10

    /// The parts that a job gives.
    private let deposit: Int64
    /// The parts without any jobs.
    private let reserve: Int64
    /// In nanoseconds.
    private let slice: Int64
    /// The deposits less the retries of each slice of the window.
    private var sums = [Int64](repeating: 0, count: Int(slices))
    /// The number of the latest slice since the clock began.
    private var latest: Int64 = 0

    package init(percentage: Double, minimumPerSecond: Int, window: Duration) {
        deposit = percentage.parts(Self.retry / 100)
        let window = BusTime(max(.seconds(1), window)).nanoseconds
        reserve = Int64(clamping: Int128(minimumPerSecond.count) * Int128(window) * Int128(Self.retry) / 1_000_000_000)
        slice = window / Self.slices
    }

    /// In parts of a retry.
    package var balance: Int64 { Int64(clamping: sums.reduce(Int128(reserve)) { $0 + Int128($1) }) }

    package mutating func noteFailure(isFirst: Bool, at now: BusTime) { if isFirst { add(deposit, at: now) } }

    package mutating func takeRetry(afterTimeout: Bool, at now: BusTime) -> Int32? {
        forget(at: now)
        guard balance >= Int64(Self.retry) else { return nil }
        add(-Int64(Self.retry), at: now)
        // A successful retry has no refund.
        return 0
    }

    package mutating func noteSuccess(refund: Int32?, at now: BusTime) { if refund == nil { add(deposit, at: now) } }

    private mutating func add(_ amount: Int64, at now: BusTime) {
        forget(at: now)
        let place = Int(latest % Self.slices)
        let (sum, overflow) = sums[place].addingReportingOverflow(amount)
        sums[place] = overflow ? (amount > 0 ? .max : .min) : sum
    }

    /// Empties the slices that have left the window.
    ///
    /// Late entries count in the latest slice.
    private mutating func forget(at now: BusTime) {
        let number = now.nanoseconds / slice
        guard number > latest else { return }
        for gone in max(latest, number - Self.slices) + 1...number { sums[Int(gone % Self.slices)] = 0 }
        latest = number
    }
}
