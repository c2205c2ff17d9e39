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
