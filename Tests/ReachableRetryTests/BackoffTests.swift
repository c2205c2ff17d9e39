import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

/// Delays without jitter.
struct BackoffTests {
    private func delays(_ backoff: Backoff, _ numbers: some Sequence<Int>) -> [Duration] {
        // Not the system's generator: under the thread sanitizer this compiler uses an invalid address for an empty value.
        var generator = SeededGenerator(seed: 1)
        return numbers.map { backoff.delay(afterFailure: $0, using: &generator) }
    }

    private func milliseconds(_ numbers: [Int]) -> [Duration] { numbers.map { .milliseconds($0) } }

    private func seconds(_ numbers: [Int]) -> [Duration] { numbers.map { .seconds($0) } }

    @Test func exponentialDelaysDoubleUpToTheCap() {
        let backoff = Backoff.exponential(initial: .milliseconds(100), multiplier: 2, maximum: .seconds(10))
        #expect(delays(backoff, 1...9) == milliseconds([100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000]))
        #expect(delays(backoff, [64, 65, 1024, 10_000, Int.max]) == seconds([10, 10, 10, 10, 10]))
    }

    @Test func zeroStaysZeroAndFactorOneIsConstant() {
        #expect(delays(.exponential(initial: .zero), [1, 2, 10_000, Int.max]) == seconds([0, 0, 0, 0]))
        #expect(delays(.exponential(initial: .zero, multiplier: .infinity), [1, 2, Int.max]) == seconds([0, 0, 0]))
        #expect(delays(.exponential(initial: .seconds(1), multiplier: 1), [1, 2, 10_000, Int.max]) == seconds([1, 1, 1, 1]))
    }

    @Test func aMultiplierBelowOneCountsAsOne() {
        for multiplier in [0.999, 0, -0.0, -2, -.infinity, .nan] {
            #expect(delays(.exponential(initial: .seconds(2), multiplier: multiplier), [1, 2, 64]) == seconds([2, 2, 2]))
        }
    }

    @Test func linearDelaysGrowByTheIncrement() {
        #expect(delays(.linear(initial: .seconds(3), increment: .seconds(2)), 1...4) == seconds([3, 5, 7, 9]))
        #expect(
            delays(.linear(initial: .seconds(3), increment: .seconds(2), maximum: .seconds(6)), 1...4) == seconds([3, 5, 6, 6]))
        #expect(delays(.linear(initial: .seconds(3), increment: .seconds(-2)), 1...3) == seconds([3, 3, 3]))
    }

    @Test func fibonacciDelaysAddUp() {
        #expect(delays(.fibonacci(unit: .seconds(1)), 1...8) == seconds([1, 1, 2, 3, 5, 8, 13, 21]))
        #expect(delays(.fibonacci(unit: .seconds(1), maximum: .seconds(4)), 3...6) == seconds([2, 3, 4, 4]))
    }

    @Test func simpleCurves() {
        #expect(delays(.immediate, [1, 2, 1000]) == seconds([0, 0, 0]))
        #expect(delays(.constant(.seconds(2)), [1, 2, 1000]) == seconds([2, 2, 2]))
        #expect(delays(.constant(.seconds(-2)), [1]) == seconds([0]))
    }

    @Test(arguments: [Jitter.none, .full, .equal, .proportional(0.5)])
    func customCurveIsCalledOncePerDelay(jitter: Jitter) {
        let asked = Recorder<Int>()
        let backoff = Backoff.custom(maximum: .seconds(2)) { n in
            asked.record(n)
            return .seconds(n)
        }
        let delays = delays(backoff.jitter(jitter), 1...3)
        #expect(asked.value == [1, 2, 3])
        #expect(jitter == .none ? delays == seconds([1, 2, 2]) : delays.allSatisfy { $0 <= .seconds(2) })
    }

    @Test func decorrelatedJitterUsesOnlyTheFirstCustomDelay() {
        let asked = Recorder<Int>()
        let backoff = Backoff.custom { n in
            asked.record(n)
            return .seconds(n)
        }
        #expect(delays(backoff.jitter(.decorrelated), 1...3).allSatisfy { $0 >= .seconds(1) && $0 < .seconds(3) })
        #expect(asked.value == [1, 1, 1])
    }

    @Test func aCustomCurveMayReturnAnything() {
        #expect(delays(.custom { _ in .seconds(-1) }, 1...2) == seconds([0, 0]))
        #expect(delays(.custom { _ in Duration(attoseconds: .min) }.jitter(.equal), 1...2) == seconds([0, 0]))
        #expect(delays(.custom { _ in Duration(attoseconds: .max) }, 1...2) == [Self.longest, Self.longest])
        #expect(delays(.custom(maximum: .seconds(5)) { _ in Duration(attoseconds: .max) }, 1...2) == seconds([5, 5]))
    }

    @Test func failureNumbersBelowOneAreTreatedAsOne() {
        for backoff in [
            Backoff.exponential(initial: .seconds(1)), .linear(initial: .seconds(1), increment: .seconds(1)),
            .fibonacci(unit: .seconds(1)), .custom { .seconds($0) },
        ] {
            #expect(delays(backoff, [0, -1, Int.min, 1]) == seconds([1, 1, 1, 1]))
        }
    }

    @Test func negativeCapIsTreatedAsZero() {
        #expect(Backoff.exponential(initial: .seconds(1), maximum: .seconds(-1)).maximum == .zero)
        #expect(delays(.exponential(initial: .seconds(1), maximum: .seconds(-1)), 1...3) == seconds([0, 0, 0]))
    }

    private static let longest = Duration(attoseconds: .max)
    private static let shortest = Duration(attoseconds: .min)

    @Test func uncappedDelaysSaturate() {
        let endless: [Backoff] = [
            .exponential(initial: .seconds(1)), .exponential(initial: Duration(attoseconds: 1), multiplier: .infinity),
            .linear(initial: .zero, increment: Self.longest), .linear(initial: Self.longest, increment: .nanoseconds(1)),
            .fibonacci(unit: Duration(attoseconds: 1)),
        ]
        for backoff in endless {
            #expect(delays(backoff, [10_000, Int.max]) == [Self.longest, Self.longest])
            let growth = delays(backoff, 1...200)
            #expect(zip(growth, growth.dropFirst()).allSatisfy { $0 <= $1 }, "saturation is not followed by less")
        }
        #expect(delays(.fibonacci(unit: Duration(attoseconds: 1)), [184]).allSatisfy { $0 < Self.longest }, "the last that fits")
        #expect(delays(.fibonacci(unit: Duration(attoseconds: 1)), [185, 186, 187]).allSatisfy { $0 == Self.longest })
    }

    /// For every configuration a delay lies between zero and the cap, and nothing traps.
    @Test(arguments: [
        Jitter.none, .full, .equal, .decorrelated, .proportional(0.3), .proportional(.nan), .proportional(-7),
        .proportional(.infinity),
    ])
    func extremesHaveDefinedResults(jitter: Jitter) {
        let durations = [
            Self.shortest, .seconds(-1), .zero, Duration(attoseconds: 1), .seconds(1), .seconds(Int64.max), Self.longest,
        ]
        let multipliers = [-Double.infinity, -1, 0, 0.5, 1, 1.0000001, 2, 1e300, .infinity, .nan]
        var (seeded, least, greatest) = (SeededGenerator(seed: 5), ConstantGenerator.least, ConstantGenerator.greatest)
        for initial in durations {
            for maximum in durations.map(Optional.init) + [nil] {
                var backoffs: [Backoff] = [
                    .constant(initial), .linear(initial: initial, increment: initial, maximum: maximum),
                    .fibonacci(unit: initial, maximum: maximum), .custom(maximum: maximum) { _ in initial },
                ]
                backoffs += multipliers.map { .exponential(initial: initial, multiplier: $0, maximum: maximum) }
                for backoff in backoffs.map({ $0.jitter(jitter) }) {
                    let allowed = Duration.zero...(backoff.maximum ?? Self.longest)
                    for n in [Int.min, -1, 0, 1, 2, 64, 186, 187, 10_000, Int.max] {
                        for previous in [nil, Self.shortest, .zero, .seconds(1), Self.longest] {
                            let delays = [
                                backoff.delay(afterFailure: n, previous: previous, using: &seeded),
                                backoff.delay(afterFailure: n, previous: previous, using: &least),
                                backoff.delay(afterFailure: n, previous: previous, using: &greatest),
                            ]
                            // An expectation for each of a million delays would take most of the time.
                            guard !delays.allSatisfy(allowed.contains) else { continue }
                            Issue.record("seed 5: \(delays) after failure \(n), the one before was \(previous as Any): \(backoff)")
                        }
                    }
                }
            }
        }
    }
}
