/// What a retry budget knows, and how it decides.
///
/// Pure: it is told the time, and holds no lock. Numbers of tokens are integers, so that nothing drifts however often it is asked.
package protocol BudgetState: Sendable {
    /// An attempt reached a server and failed; `isFirst` if it is the first of its job that did.
    mutating func noteFailure(isFirst: Bool, at now: BusTime)

    /// Takes what another attempt costs.
    ///
    /// - Parameter afterTimeout: whether the attempt before took too long.
    /// - Returns: What ``noteSuccess(refund:at:)`` gives back if that attempt succeeds, zero or more; `nil` if there is to be none,
    ///   and then nothing was taken.
    mutating func takeRetry(afterTimeout: Bool, at now: BusTime) -> Int32?

    /// A job succeeded.
    ///
    /// - Parameter refund: what ``takeRetry(afterTimeout:at:)`` returned for the job last; `nil` if it took nothing.
    mutating func noteSuccess(refund: Int32?, at now: BusTime)
}

extension Double {
    /// The number in parts of which `unit` make one, rounded down.
    ///
    /// What is negative or no number counts as nothing, and what is greater than the greatest `Int32` as that.
    func parts(_ unit: Int32) -> Int64 {
        guard self > 0 else { return 0 }
        // 1.001 is a little less than that: what its binary form lacks must not cost it a whole part.
        return Int64(min(self, Double(Int32.max)) * Double(unit) * (1 + 0x1p-50))
    }
}

extension Int {
    /// The number, held between zero and the greatest `Int32`: sums and products of such numbers fit.
    var count: Int32 { Int32(clamping: Swift.max(0, self)) }
}

/// The throttling of gRPC (gRFC A6): failures take tokens, successes give some, and retries end while half of them are gone.
package struct RetryThrottle: BudgetState, Hashable {
    /// The parts of a token: A6 has ratios of three decimals.
    static let token: Int32 = 1000

    /// What a success gives.
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

    /// A retry costs nothing: the failure before it has paid.
    package mutating func takeRetry(afterTimeout: Bool, at now: BusTime) -> Int32? { balance > most / 2 ? 0 : nil }

    package mutating func noteSuccess(refund: Int32?, at now: BusTime) { balance = min(most, balance + reward) }
}

/// The retry quota of the AWS SDKs' standard mode: retries take tokens, and get them back if they succeed.
package struct RetryTokenBucket: BudgetState, Hashable {
    private let capacity: Int64
    private let cost: Int32
    private let timeoutCost: Int32
    /// What a job gives that succeeds without a retry.
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

/// Finagle's retry budget: so many retries per hundred jobs of late, and a few in any case.
///
/// What jobs give and retries take is forgotten after the window, a tenth of it at a time; so the few renew themselves.
package struct RetryShare: BudgetState, Hashable {
    /// The parts of a retry.
    static let retry: Int32 = 1_000_000
    private static let slices: Int64 = 10

    /// What a job gives.
    private let deposit: Int64
    /// What is there without jobs.
    private let reserve: Int64
    /// In nanoseconds.
    private let slice: Int64
    /// What was given, less what was taken, in each slice of the window.
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
        // A retry that succeeds was one all the same.
        return 0
    }

    package mutating func noteSuccess(refund: Int32?, at now: BusTime) { if refund == nil { add(deposit, at: now) } }

    private mutating func add(_ amount: Int64, at now: BusTime) {
        forget(at: now)
        let place = Int(latest % Self.slices)
        let (sum, overflow) = sums[place].addingReportingOverflow(amount)
        sums[place] = overflow ? (amount > 0 ? .max : .min) : sum
    }

    /// Empties the slices that have left the window; who comes late is counted in the latest one.
    private mutating func forget(at now: BusTime) {
        let number = now.nanoseconds / slice
        guard number > latest else { return }
        for gone in max(latest, number - Self.slices) + 1...number { sums[Int(gone % Self.slices)] = 0 }
        latest = number
    }
}
