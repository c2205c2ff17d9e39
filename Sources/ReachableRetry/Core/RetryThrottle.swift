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
