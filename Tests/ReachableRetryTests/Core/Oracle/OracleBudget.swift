@testable import ReachableRetry

/// A retry budget in thousandths of a token.
struct OracleBudget {
    enum Rule: Sendable {
        /// As in gRPC: a failure takes one token, and retries are allowed while more than half of the tokens are left.
        case throttle(capacity: Int, ratio: Int)
        /// As in the AWS SDKs: a retry pays.
        case bucket(capacity: Int, cost: Int, timeoutCost: Int, reward: Int)
    }

    let rule: Rule
    private var balance: Int

    init(_ rule: Rule) {
        self.rule = rule
        balance =
            switch rule {
            case .throttle(let capacity, _), .bucket(let capacity, _, _, _): capacity * 1000
            }
    }

    /// The library's budget with the same rule.
    var budget: RetryBudget {
        switch rule {
        case .throttle(let capacity, let ratio): .throttling(maxTokens: capacity, tokenRatio: Double(ratio) / 1000)
        case .bucket(let capacity, let cost, let timeoutCost, let reward):
            .tokenBucket(capacity: capacity, retryCost: cost, timeoutRetryCost: timeoutCost, successReward: reward)
        }
    }

    mutating func noteFailure() { if case .throttle = rule { balance = max(0, balance - 1000) } }

    mutating func noteSuccess(refund: Int?) {
        switch rule {
        case .throttle(let capacity, let ratio): balance = min(capacity * 1000, balance + ratio)
        case .bucket(let capacity, _, _, let reward): balance = min(capacity * 1000, balance + (refund ?? reward) * 1000)
        }
    }

    /// Pays for a retry and returns the price; `nil` if it is denied.
    mutating func takeRetry(afterTimeout: Bool) -> Int? {
        switch rule {
        case .throttle(let capacity, _): return balance * 2 > capacity * 1000 ? 0 : nil
        case .bucket(_, let cost, let timeoutCost, _):
            let price = afterTimeout ? timeoutCost : cost
            guard balance >= price * 1000 else { return nil }
            balance -= price * 1000
            return price
        }
    }
}
