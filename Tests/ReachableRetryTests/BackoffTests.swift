import ReachabilityTesting
import ReachableRetry
import Synchronization
import Testing

/// Delays without chance.
struct BackoffTests {
    private func delays(_ backoff: Backoff, _ numbers: some Sequence<Int>) -> [Duration] {
        var generator = SeededGenerator(seed: 1)
        return numbers.map { backoff.delay(afterFailure: $0, using: &generator) }
    }

    private func milliseconds(_ numbers: [Int]) -> [Duration] { numbers.map { .milliseconds($0) } }

    @Test func exponentialDelaysDoubleUpToTheCap() {
        let backoff = Backoff.exponential(initial: .milliseconds(100), multiplier: 2, maximum: .seconds(10))
        #expect(delays(backoff, 1...9) == milliseconds([100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000]))
        #expect(delays(backoff, [64, 65, 1024, 10_000, Int.max]) == milliseconds([10000, 10000, 10000, 10000, 10000]))
    }

    @Test func kean() {
        let backoff = Backoff.exponential(initial: .seconds(3), multiplier: 1.5, maximum: .seconds(16))
        #expect(
            delays(backoff, 1...7) == [
                .seconds(3), .seconds(4.5), .seconds(6.75), .seconds(10.125), .seconds(15.1875), .seconds(16), .seconds(16),
            ])
        #expect(
            delays(.exponential(initial: .seconds(3), multiplier: 1, maximum: .seconds(16)), 1...3)
                == milliseconds([3000, 3000, 3000]))
    }

    @Test func alamofire() {
        #expect(delays(.exponential(initial: .milliseconds(500)), 1...4) == milliseconds([500, 1000, 2000, 4000]))
        #expect(delays(.exponential(initial: .seconds(1), multiplier: 3), 1...4) == milliseconds([1000, 3000, 9000, 27000]))
    }

    @Test func swiftRetrier() {
        let backoff = Backoff.exponential(initial: .milliseconds(500), maximum: .seconds(60))
        #expect(delays(backoff, 1...9) == milliseconds([500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]))
        #expect(delays(backoff, 63...67).allSatisfy { $0 == .seconds(60) }, "it traps at the 64th doubling")
    }

    @Test func rxSwiftExt() {
        // Its multiplier is what is added to 1, and its delays are cut to milliseconds.
        let backoff = Backoff.exponential(initial: .milliseconds(333), multiplier: 1.5)
        #expect(delays(backoff, 1...4).map { Int($0 / .milliseconds(1)) } == [333, 499, 749, 1123])
    }

    @Test func swiftRetryAndItsNeighbours() {
        #expect(delays(.exponential(initial: .seconds(1), maximum: .seconds(3)), 1...4) == milliseconds([1000, 2000, 3000, 3000]))
        #expect(delays(.linear(initial: .seconds(3), increment: .seconds(2)), 1...4) == milliseconds([3000, 5000, 7000, 9000]))
        #expect(
            delays(.exponential(initial: .seconds(3), maximum: .seconds(10)), 1...4) == milliseconds([3000, 6000, 10000, 10000]))
    }

    @Test func fibonacciDelaysAddUp() {
        #expect(delays(.fibonacci(unit: .seconds(1)), 1...6) == milliseconds([1000, 1000, 2000, 3000, 5000, 8000]))
        #expect(delays(.fibonacci(unit: .seconds(1), maximum: .seconds(4)), 1...6).last == .seconds(4))
    }

    @Test func simpleCurves() {
        #expect(delays(.immediate, [1, 2, 1000]) == [.zero, .zero, .zero])
        #expect(delays(.constant(.seconds(2)), [1, 2, 1000]) == milliseconds([2000, 2000, 2000]))
        #expect(delays(.exponential(initial: .zero), [1, 2, 10_000]) == [.zero, .zero, .zero])
    }

    @Test func aCustomCurveIsAskedOnceForEachDelay() {
        let asked = Mutex<[Int]>([])
        let backoff = Backoff.custom(maximum: .seconds(2)) { n in
            asked.withLock { $0.append(n) }
            return .seconds(n)
        }
        #expect(delays(backoff.jitter(.none), 1...3) == milliseconds([1000, 2000, 2000]))
        #expect(asked.withLock(\.self) == [1, 2, 3])
    }

    @Test func whatIsBelowTheFirstFailureCountsAsTheFirst() {
        let backoff = Backoff.exponential(initial: .seconds(1))
        #expect(delays(backoff, [0, -1, Int.min, 1]) == milliseconds([1000, 1000, 1000, 1000]))
    }

    private static let longest = Duration(attoseconds: .max)
    private static let shortest = Duration(attoseconds: .min)

    /// Whatever is configured, a delay lies between nothing and the cap, and nothing traps.
    @Test(arguments: [
        Jitter.none, .full, .equal, .decorrelated, .proportional(0.3), .proportional(.nan), .proportional(-7),
        .proportional(.infinity),
    ])
    func extremesHaveDefinedResults(jitter: Jitter) {
        let durations = [
            Self.shortest, .seconds(-1), .zero, Duration(attoseconds: 1), .seconds(1), .seconds(Int64.max), Self.longest,
        ]
        let multipliers = [-Double.infinity, -1, 0, 0.5, 1, 1.0000001, 2, 1e300, .infinity, .nan]
        var generator = SeededGenerator(seed: 5)
        for initial in durations {
            for maximum in durations.map(Optional.init) + [nil] {
                var backoffs: [Backoff] = [
                    .constant(initial), .linear(initial: initial, increment: initial, maximum: maximum),
                    .fibonacci(unit: initial, maximum: maximum), .custom(maximum: maximum) { _ in initial },
                ]
                backoffs += multipliers.map { .exponential(initial: initial, multiplier: $0, maximum: maximum) }
                for backoff in backoffs.map({ $0.jitter(jitter) }) {
                    for n in [Int.min, -1, 0, 1, 2, 64, 186, 187, 10_000, Int.max] {
                        for previous in [nil, Self.shortest, .zero, .seconds(1), Self.longest] {
                            let delay = backoff.delay(afterFailure: n, previous: previous, using: &generator)
                            #expect(delay >= .zero)
                            if let cap = backoff.maximum { #expect(delay <= cap) }
                        }
                    }
                }
            }
        }
        let endless: [Backoff] = [
            .exponential(initial: .seconds(1)), .linear(initial: .zero, increment: Self.longest), .fibonacci(unit: .seconds(1)),
        ]
        if jitter == .none { #expect(endless.allSatisfy { delays($0, [Int.max]) == [Self.longest] }) }
    }
}
