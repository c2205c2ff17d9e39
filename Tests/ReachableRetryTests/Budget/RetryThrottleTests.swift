import Testing

@testable import ReachableRetry

/// gRPC's throttling of retries, with the numbers of gRFC A6.
struct RetryThrottleTests {
    /// Failures, then successes; the remaining balance in thousandths of a token, and if it allows a retry.
    struct Vector: Sendable, CustomTestStringConvertible {
        var tokens = 10
        var ratio = 0.1
        var failures = 0
        var successes = 0
        var left: Int64
        var allows: Bool

        var testDescription: String { "\(tokens) tokens, ratio \(ratio): \(failures) failures, \(successes) successes" }
    }

    static let vectors = [
        Vector(left: 10_000, allows: true),
        Vector(successes: 100, left: 10_000, allows: true),
        Vector(failures: 4, left: 6000, allows: true),
        Vector(failures: 5, left: 5000, allows: false),
        Vector(failures: 5, successes: 1, left: 5100, allows: true),
        Vector(failures: 10, left: 0, allows: false),
        Vector(failures: 1000, left: 0, allows: false),
        Vector(failures: 10, successes: 50, left: 5000, allows: false),
        Vector(failures: 10, successes: 51, left: 5100, allows: true),
        Vector(failures: 10, successes: 1_000_000, left: 10_000, allows: true),
        Vector(ratio: 0.5, failures: 10, successes: 10, left: 5000, allows: false),
        Vector(ratio: 0.5, failures: 10, successes: 11, left: 5500, allows: true),
        Vector(ratio: 0.1239, failures: 10, successes: 41, left: 5043, allows: true),
        Vector(ratio: 0.0009, failures: 10, successes: 1_000_000, left: 0, allows: false),
        // Half of an odd number is no whole token.
        Vector(tokens: 5, failures: 2, left: 3000, allows: true),
        Vector(tokens: 5, failures: 3, left: 2000, allows: false),
        Vector(tokens: 5, failures: 5, successes: 25, left: 2500, allows: false),
        Vector(tokens: 5, failures: 5, successes: 26, left: 2600, allows: true),
        Vector(tokens: 1, failures: 1, successes: 5, left: 500, allows: false),
        Vector(tokens: 1, failures: 1, successes: 6, left: 600, allows: true),
    ]

    static let extremes = [
        Vector(tokens: 0, left: 0, allows: false),
        Vector(tokens: 0, successes: 10, left: 0, allows: false),
        Vector(tokens: -1, successes: 10, left: 0, allows: false),
        Vector(tokens: .min, left: 0, allows: false),
        Vector(tokens: .max, failures: 1000, left: 2_147_482_647_000, allows: true),
        Vector(tokens: .max, ratio: .infinity, failures: 2, successes: 2, left: 2_147_483_647_000, allows: true),
        Vector(ratio: 0, failures: 10, successes: 1000, left: 0, allows: false),
        Vector(ratio: -1, failures: 10, successes: 1000, left: 0, allows: false),
        Vector(ratio: -.infinity, failures: 10, successes: 1000, left: 0, allows: false),
        Vector(ratio: .nan, failures: 10, successes: 1000, left: 0, allows: false),
        Vector(ratio: .leastNonzeroMagnitude, failures: 10, successes: 1000, left: 0, allows: false),
        Vector(ratio: .greatestFiniteMagnitude, failures: 10, successes: 1, left: 10_000, allows: true),
        Vector(ratio: .infinity, failures: 10, successes: 1, left: 10_000, allows: true),
    ]

    @Test(arguments: vectors + extremes) func retriesNeedMoreThanHalfOfTheTokens(vector: Vector) {
        var throttle = RetryThrottle(maxTokens: vector.tokens, tokenRatio: vector.ratio)
        for number in 0..<vector.failures { throttle.noteFailure(isFirst: number == 0, at: .start) }
        for _ in 0..<vector.successes { throttle.noteSuccess(refund: 0, at: .start) }
        #expect(throttle.balance == vector.left)
        #expect((throttle.takeRetry(afterTimeout: false, at: .start) != nil) == vector.allows)
        #expect(throttle.balance == vector.left, "asking costs nothing")
    }

    /// A ratio of r tolerates one failure in 1 + 1/r attempts.
    @Test(arguments: [(0.1, 10), (0.5, 2)]) func ratioSetsTheToleratedFailures(ratio: Double, successes: Int) {
        for (count, lasts) in [(successes, true), (successes - 1, false)] {
            var throttle = RetryThrottle(maxTokens: 10, tokenRatio: ratio)
            for _ in 0..<1000 {
                throttle.noteFailure(isFirst: true, at: .start)
                for _ in 0..<count { throttle.noteSuccess(refund: nil, at: .start) }
            }
            #expect((throttle.takeRetry(afterTimeout: false, at: .start) != nil) == lasts, "\(count) successes a failure")
        }
    }

    @Test func ratioIsExactToAThousandth() {
        for number in 0...20_000 {
            #expect((Double(number) / 1000).parts(1000) == number)
            #expect((Double(number) * 0.001).parts(1000) == number)
        }
        #expect(0.1239.parts(1000) == 123 && 0.9999.parts(1000) == 999, "what is less is cut off")
        #expect(Double(Int32.max).parts(1000) == 2_147_483_647_000)
    }
}
