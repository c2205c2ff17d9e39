import ReachabilityTesting
import ReachableRetry
import Testing

/// Delays by chance: 20 000 draws each.
struct JitterTests {
    private static let count = 20_000
    private static let cap = 10.0

    /// A generator that gives the same number for ever, and counts.
    private struct Constant: RandomNumberGenerator {
        let value: UInt64
        var draws = 0

        mutating func next() -> UInt64 {
            draws += 1
            return value
        }
    }

    /// Draws at the cap of 10 s, each delay following from the one before.
    private func draw(_ jitter: Jitter, seed: UInt64, failure n: Int = 50) -> [Double] {
        let backoff = Backoff.exponential(initial: .milliseconds(100), maximum: .seconds(Self.cap)).jitter(jitter)
        var generator = SeededGenerator(seed: seed)
        var previous: Duration?
        return (0..<Self.count).map { _ in
            let delay = backoff.delay(afterFailure: n, previous: previous, using: &generator)
            previous = delay
            return delay / .seconds(1)
        }
    }

    private func mean(_ values: [Double]) -> Double { values.reduce(0, +) / Double(values.count) }

    private func deviation(_ values: [Double]) -> Double {
        let mean = mean(values)
        return (values.reduce(0) { $0 + ($1 - mean) * ($1 - mean) } / Double(values.count)).squareRoot()
    }

    /// The greatest distance of the values' distribution from an even one (Kolmogorov and Smirnov).
    private func distance(_ values: [Double], from low: Double, to high: Double) -> Double {
        values.sorted().enumerated().reduce(0) { greatest, value in
            let expected = (value.element - low) / (high - low)
            let (before, after) = (Double(value.offset) / Double(values.count), Double(value.offset + 1) / Double(values.count))
            return max(greatest, abs(expected - before), abs(expected - after))
        }
    }

    @Test(arguments: [1, 2, 3] as [UInt64]) func fullJitterIsEven(seed: UInt64) {
        let values = draw(.full, seed: seed)
        #expect(abs(mean(values) - 5) < 4 * 2.887 / 141.4, "seed \(seed)")
        #expect(abs(deviation(values) - 2.887) < 0.06, "seed \(seed)")
        #expect(distance(values, from: 0, to: 10) < 0.0138, "seed \(seed)")
    }

    @Test(arguments: [1, 2, 3] as [UInt64]) func equalJitterIsEvenInItsUpperHalf(seed: UInt64) {
        let values = draw(.equal, seed: seed)
        #expect(abs(mean(values) - 7.5) < 4 * 1.443 / 141.4, "seed \(seed)")
        #expect(abs(deviation(values) - 1.443) < 0.03, "seed \(seed)")
        #expect(distance(values, from: 5, to: 10) < 0.0138, "seed \(seed)")
    }

    @Test(arguments: [1, 2, 3] as [UInt64]) func proportionalJitterStaysInItsShare(seed: UInt64) {
        let values = draw(.proportional(0.2), seed: seed)
        #expect(distance(values, from: 8, to: 10) < 0.0138, "seed \(seed)")
    }

    @Test(arguments: [1, 2, 3] as [UInt64]) func decorrelatedJitterStaysInItsBounds(seed: UInt64) {
        var previous = 0.1
        for value in draw(.decorrelated, seed: seed) {
            #expect(value >= 0.1 && value <= min(Self.cap, 3 * previous) + 1e-9, "seed \(seed)")
            previous = value
        }
    }

    @Test func decorrelatedJitterBeginsBetweenTheFirstDelayAndThreeTimesThat() {
        let backoff = Backoff.exponential(initial: .seconds(1), maximum: .seconds(60)).jitter(.decorrelated)
        var (least, most) = (Constant(value: 0), Constant(value: .max))
        #expect(backoff.delay(afterFailure: 1, using: &least) == .seconds(1))
        #expect(abs(backoff.delay(afterFailure: 1, using: &most) / .seconds(3) - 1) < 1e-9)
        #expect(abs(backoff.delay(afterFailure: 9, previous: .seconds(10), using: &most) / .seconds(30) - 1) < 1e-9)
        #expect(backoff.delay(afterFailure: 9, previous: .seconds(50), using: &most) <= .seconds(60))
        let uncapped = Backoff.exponential(initial: .seconds(1)).jitter(.decorrelated)
        #expect(
            uncapped.delay(afterFailure: 9, previous: .seconds(5000), using: &most) <= .seconds(3600), "an hour if there is no cap")
    }

    /// Others put the cap behind chance, and all long delays are the same then.
    @Test(arguments: [Jitter.full, .equal, .decorrelated]) func chanceSurvivesTheCap(jitter: Jitter) {
        for seed in 1...3 as ClosedRange<UInt64> {
            let values = draw(jitter, seed: seed, failure: 10_000)
            #expect(deviation(values) >= 0.05 * Self.cap, "seed \(seed)")
            var counts: [Double: Int] = [:]
            for value in values { counts[value, default: 0] += 1 }
            #expect(Double(counts.values.max() ?? 0) <= 0.02 * Double(values.count), "seed \(seed)")
            #expect(counts.count >= 1000 && values.allSatisfy { $0 <= Self.cap }, "seed \(seed)")
        }
    }

    @Test func oneNumberIsDrawnForEachDelayAndNoneWithoutChance() {
        let backoff = Backoff.constant(.seconds(1))
        for jitter in [Jitter.full, .equal, .decorrelated, .proportional(0.5)] {
            var generator = Constant(value: 1 << 63)
            _ = backoff.jitter(jitter).delay(afterFailure: 1, using: &generator)
            #expect(generator.draws == 1)
        }
        var generator = Constant(value: 0)
        _ = backoff.delay(afterFailure: 1, using: &generator)
        #expect(generator.draws == 0)
    }

    @Test func theEndsOfChanceAreTheEndsOfTheDelay() {
        let backoff = Backoff.constant(.seconds(10))
        var (least, half, most) = (Constant(value: 0), Constant(value: 1 << 63), Constant(value: .max))
        #expect(backoff.jitter(.full).delay(afterFailure: 1, using: &least) == .zero)
        #expect(backoff.jitter(.full).delay(afterFailure: 1, using: &half) == .seconds(5))
        #expect(backoff.jitter(.full).delay(afterFailure: 1, using: &most) < .seconds(10))
        #expect(backoff.jitter(.equal).delay(afterFailure: 1, using: &least) == .seconds(5))
        #expect(backoff.jitter(.equal).delay(afterFailure: 1, using: &half) == .seconds(7.5))
        #expect(backoff.jitter(.proportional(0.2)).delay(afterFailure: 1, using: &least) == .seconds(8))
        #expect(backoff.jitter(.proportional(5)).delay(afterFailure: 1, using: &least) == .zero)
        #expect(backoff.jitter(.proportional(-5)).delay(afterFailure: 1, using: &least) == .seconds(10))
    }
}
