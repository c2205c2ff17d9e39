import ReachabilityTesting
import Testing

@testable import ReachableRetry

/// The retry quota of the AWS SDKs' standard mode, with the numbers of their documentation.
struct RetryTokenBucketTests {
    enum Step: Hashable, Sendable {
        case retry
        case retryAfterTimeout
        case denied
        case deniedAfterTimeout
        /// A success that refunds the last retry.
        case refund
        case firstTry
    }

    struct Vector: Sendable, CustomTestStringConvertible {
        var steps: [Step]
        var balances: [Int64]
        var capacity = 500
        var cost = 5
        var timeoutCost = 10
        var reward = 1

        var testDescription: String { "\(steps.map { "\($0)" }.joined(separator: ", ")) of \(capacity)" }
    }

    static let vectors = [
        Vector(steps: [.retry, .retry, .retry, .retry], balances: [495, 490, 485, 480]),
        Vector(steps: [.retry, .retry, .refund], balances: [495, 490, 495]),
        Vector(steps: [.retryAfterTimeout, .refund], balances: [490, 500]),
        Vector(steps: [.retry, .retryAfterTimeout, .refund], balances: [495, 485, 495]),
        Vector(steps: [.firstTry], balances: [500]),
        Vector(steps: [.retry, .refund, .firstTry], balances: [495, 500, 500]),
        Vector(steps: [.retry, .retry, .denied, .firstTry, .denied], balances: [5, 0, 0, 1, 1], capacity: 10),
        Vector(steps: [.deniedAfterTimeout, .retry, .denied], balances: [9, 4, 4], capacity: 9),
        Vector(steps: [.retry, .denied], balances: [0, 0], capacity: 14, cost: 14),
    ]

    static let extremes = [
        Vector(steps: [.denied, .firstTry, .denied], balances: [0, 0, 0], capacity: 0),
        Vector(steps: [.denied, .firstTry], balances: [0, 0], capacity: -1),
        Vector(steps: [.denied, .firstTry], balances: [0, 0], capacity: .min),
        Vector(steps: [.retry, .refund, .retryAfterTimeout], balances: [0, 0, 0], capacity: 0, cost: 0, timeoutCost: -1),
        Vector(steps: [.retry, .refund], balances: [500, 500], cost: .min),
        Vector(steps: [.denied, .deniedAfterTimeout], balances: [500, 500], cost: .max, timeoutCost: .max),
        Vector(steps: [.retry, .denied, .refund], balances: [0, 0, 2_147_483_647], capacity: .max, cost: .max),
        Vector(steps: [.retry, .firstTry], balances: [495, 500], reward: .max),
        Vector(steps: [.retry, .firstTry], balances: [495, 495], reward: -1),
        Vector(steps: [.retry, .firstTry], balances: [495, 495], reward: .min),
    ]

    @Test(arguments: vectors + extremes) func retriesPayAndSuccessRefunds(vector: Vector) {
        var bucket = RetryTokenBucket(
            capacity: vector.capacity, retryCost: vector.cost, timeoutRetryCost: vector.timeoutCost, successReward: vector.reward)
        var refund: Int32?
        for (step, balance) in zip(vector.steps, vector.balances) {
            switch step {
            case .retry, .retryAfterTimeout:
                refund = bucket.takeRetry(afterTimeout: step == .retryAfterTimeout, at: .start)
                #expect(refund != nil, "\(step)")
            case .denied, .deniedAfterTimeout:
                #expect(bucket.takeRetry(afterTimeout: step == .deniedAfterTimeout, at: .start) == nil, "\(step)")
            case .refund: bucket.noteSuccess(refund: refund, at: .start)
            case .firstTry: bucket.noteSuccess(refund: nil, at: .start)
            }
            #expect(bucket.balance == balance, "\(step)")
        }
    }

    /// Returns the number of retries if all attempts fail.
    @Test(arguments: [(5, false, 100), (10, true, 50), (14, false, 35)])
    func bucketAllowsItsCapacityOfRetries(cost: Int, isTimeout: Bool, retries: Int) {
        var bucket = RetryTokenBucket(capacity: 500, retryCost: cost, timeoutRetryCost: cost, successReward: 1)
        var count = 0
        while bucket.takeRetry(afterTimeout: isTimeout, at: .start) != nil { count += 1 }
        #expect(count == retries)
    }

    @Test func failuresThemselvesCostNothing() {
        var bucket = RetryTokenBucket(capacity: 500, retryCost: 5, timeoutRetryCost: 10, successReward: 1)
        for number in 0..<1000 { bucket.noteFailure(isFirst: number % 2 == 0, at: .start) }
        #expect(bucket.balance == 500)
    }

    @Test(arguments: [1, 2, 3] as [UInt64]) func tokensStayBetweenZeroAndTheCapacity(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let numbers = [Int.min, -1, 0, 1, 5, 10, 14, 499, 500, 501, Int(Int32.max) - 1, Int(Int32.max), Int.max]
        func number() -> Int { numbers.randomElement(using: &random) ?? 0 }
        for _ in 0..<200 {
            let (capacity, costs, reward) = (number(), [number(), number()], number())
            var bucket = RetryTokenBucket(
                capacity: capacity, retryCost: costs[0], timeoutRetryCost: costs[1], successReward: reward)
            let most = Int64(min(max(0, capacity), Int(Int32.max)))
            for _ in 0..<50 {
                let before = bucket.balance
                if Bool.random(using: &random) {
                    let isTimeout = Bool.random(using: &random)
                    let cost = Int64(min(max(0, costs[isTimeout ? 1 : 0]), Int(Int32.max)))
                    let taken = bucket.takeRetry(afterTimeout: isTimeout, at: .start)
                    #expect(taken.map { Int64($0) } == (cost <= before ? cost : nil), "seed \(seed)")
                    #expect(bucket.balance == before - (taken.map { Int64($0) } ?? 0), "seed \(seed)")
                } else {
                    bucket.noteSuccess(refund: Bool.random(using: &random) ? Int32(clamping: max(0, number())) : nil, at: .start)
                    #expect(bucket.balance >= before, "seed \(seed)")
                }
                #expect((0...most).contains(bucket.balance), "seed \(seed), \(capacity) tokens, \(costs), \(reward)")
            }
        }
    }
}
