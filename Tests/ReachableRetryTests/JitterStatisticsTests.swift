import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

/// Jittered delays: 20 000 draws each.
@Suite(.computing) struct JitterStatisticsTests {
    private static let count = 20_000
    private static let seeds: [UInt64] = [1, 2, 20_260_131]

    private func draw(_ backoff: Backoff, seed: UInt64) -> Sample {
        var generator = SeededGenerator(seed: seed)
        return Sample(
            values: (0..<Self.count).map { _ in backoff.delay(afterFailure: 1, using: &generator) / .seconds(1) })
    }

    /// A series of delays, as of a job that always fails.
    private func walk(_ backoff: Backoff, after n: Int, seed: UInt64) -> Sample {
        var generator = SeededGenerator(seed: seed)
        var previous: Duration?
        return Sample(
            values: (0..<Self.count).map { _ in
                let delay = backoff.delay(afterFailure: n, previous: previous, using: &generator)
                previous = delay
                return delay / .seconds(1)
            })
    }

    @Test(arguments: seeds) func fullJitterIsEven(seed: UInt64) {
        let sample = draw(.constant(.seconds(10)).jitter(.full), seed: seed)
        #expect(abs(sample.mean - 5) < sample.meanTolerance(2.887), "seed \(seed)")
        #expect(abs(sample.standardDeviation - 2.887) < 0.04, "seed \(seed)")
        #expect(sample.distance(from: 0, to: 10) < 0.0138, "seed \(seed)")
    }

    @Test(arguments: seeds) func equalJitterIsEvenInTheUpperHalf(seed: UInt64) {
        let sample = draw(.constant(.seconds(10)).jitter(.equal), seed: seed)
        #expect(abs(sample.mean - 7.5) < sample.meanTolerance(1.443), "seed \(seed)")
        #expect(abs(sample.standardDeviation - 1.443) < 0.02, "seed \(seed)")
        #expect(sample.distance(from: 5, to: 10) < 0.0138, "seed \(seed)")
        #expect(sample.values.allSatisfy { (5..<10).contains($0) }, "seed \(seed)")
    }

    @Test(arguments: seeds) func proportionalJitterIsEvenInItsShare(seed: UInt64) {
        for share in [0.03, 0.2, 1] {
            let sample = draw(.constant(.seconds(10)).jitter(.proportional(share)), seed: seed)
            let low = 10 * (1 - share)
            #expect(sample.distance(from: low, to: 10) < 0.0138, "seed \(seed), share \(share)")
            #expect(sample.values.allSatisfy { $0 >= low - 1e-9 && $0 <= 10 }, "seed \(seed), share \(share)")
        }
    }

    @Test(arguments: seeds) func decorrelatedJitterIsEvenUpToThreeTimesThePreviousDelay(seed: UInt64) {
        let backoff = Backoff.exponential(initial: .milliseconds(100), maximum: .seconds(10)).jitter(.decorrelated)
        var generator = SeededGenerator(seed: seed)
        var delays: [[Double]] = [[], [], []]
        for _ in 0..<Self.count {
            var previous: Duration?
            for n in 1...3 {
                let delay = backoff.delay(afterFailure: n, previous: previous, using: &generator)
                delays[n - 1].append(delay / .seconds(1))
                previous = delay
            }
        }
        let samples = delays.map { Sample(values: $0) }
        #expect(samples[0].distance(from: 0.1, to: 0.3) < 0.0138, "seed \(seed)")
        // Each mean is half of the sum of 0.1 and three times the previous one.
        for (sample, (mean, most)) in zip(samples, [(0.2, 0.3), (0.35, 0.9), (0.575, 2.7)]) {
            #expect(abs(sample.mean - mean) < sample.meanTolerance(sample.standardDeviation), "seed \(seed)")
            #expect(sample.values.allSatisfy { $0 >= 0.1 && $0 <= most }, "seed \(seed)")
        }
    }

    @Test(arguments: seeds) func decorrelatedJitterStaysInItsBounds(seed: UInt64) {
        let backoff = Backoff.exponential(initial: .milliseconds(100), maximum: .seconds(10)).jitter(.decorrelated)
        let values = walk(backoff, after: 50, seed: seed).values
        for (value, previous) in zip(values, [0.1] + values) where value < 0.1 || value > min(10, 3 * previous) + 1e-9 {
            Issue.record("seed \(seed): \(value) s came after \(previous) s")
        }
        #expect(!values.contains(10), "seed \(seed): nothing is cut off at the cap")
    }

    /// If the cap applied after jitter, all long delays would be equal.
    @Test(arguments: [Jitter.full, .equal, .decorrelated], seeds) func jitterSurvivesTheCap(jitter: Jitter, seed: UInt64) {
        let backoff = Backoff.exponential(initial: .milliseconds(100), maximum: .seconds(10)).jitter(jitter)
        expectSpread(walk(backoff, after: 10_000, seed: seed), below: 10, "seed \(seed)")
    }

    @Test(arguments: seeds) func uncappedDecorrelatedJitterStaysRandom(seed: UInt64) {
        let backoff = Backoff.exponential(initial: .milliseconds(100)).jitter(.decorrelated)
        expectSpread(walk(backoff, after: 10_000, seed: seed), below: 3600, "seed \(seed)")
    }

    private func expectSpread(_ sample: Sample, below cap: Double, _ comment: Comment) {
        let counts = sample.counts
        #expect(sample.standardDeviation >= 0.05 * cap, comment)
        #expect((counts.values.max() ?? 0) <= sample.values.count / 50, comment)
        #expect(counts.count >= 1000, comment)
        #expect(sample.values.allSatisfy { $0 <= cap }, comment)
    }

    @Test(arguments: seeds) func shortDelaysAreSpreadToo(seed: UInt64) {
        let sample = draw(.constant(.milliseconds(1)).jitter(.full), seed: seed)
        #expect(sample.counts.count >= 19_000, "seed \(seed): not rounded to a clock's tick")
        #expect(sample.distance(from: 0, to: 0.001) < 0.0138, "seed \(seed)")
    }
}
