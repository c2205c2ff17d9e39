@testable import ReachableRetry

/// A retry budget in thousandths of a token.
struct OracleBudget {
    enum Rule: Sendable {
        /// As gRPC has it: a failure takes one, and there are retries while there is more than half.
        case throttle(most: Int, ratio: Int)
        /// As the AWS SDKs have it: a retry pays.
        case bucket(most: Int, cost: Int, timeoutCost: Int, reward: Int)
    }

    let rule: Rule
    private var balance: Int

    init(_ rule: Rule) {
        self.rule = rule
        balance =
            switch rule {
            case .throttle(let most, _), .bucket(let most, _, _, _): most * 1000
            }
    }

    /// The library's own, by the same rule.
    var subject: RetryBudget {
        switch rule {
        case .throttle(let most, let ratio): .throttling(maxTokens: most, tokenRatio: Double(ratio) / 1000)
        case .bucket(let most, let cost, let timeoutCost, let reward):
            .tokenBucket(capacity: most, retryCost: cost, timeoutRetryCost: timeoutCost, successReward: reward)
        }
    }

    mutating func noteFailure() { if case .throttle = rule { balance = max(0, balance - 1000) } }

    mutating func noteSuccess(refund: Int?) {
        switch rule {
        case .throttle(let most, let ratio): balance = min(most * 1000, balance + ratio)
        case .bucket(let most, _, _, let reward): balance = min(most * 1000, balance + (refund ?? reward) * 1000)
        }
    }

    /// What the retry costs; `nil` if there is to be none.
    mutating func takeRetry(afterTimeout: Bool) -> Int? {
        switch rule {
        case .throttle(let most, _): return balance * 2 > most * 1000 ? 0 : nil
        case .bucket(_, let cost, let timeoutCost, _):
            let price = afterTimeout ? timeoutCost : cost
            guard balance >= price * 1000 else { return nil }
            balance -= price * 1000
            return price
        }
    }
}
