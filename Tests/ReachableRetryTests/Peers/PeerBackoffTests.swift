import ReachabilityTesting
import ReachableRetry
import Testing

/// The delays of other retry engines, from their tests and documentation.
struct PeerBackoffTests {
    private func delays(
        _ backoff: Backoff, _ numbers: some Sequence<Int>, _ generator: ConstantGenerator = .least
    ) -> [Duration] {
        var generator = generator
        return numbers.map { backoff.delay(afterFailure: $0, using: &generator) }
    }

    private func seconds(_ numbers: [Double]) -> [Duration] { numbers.map { .seconds($0) } }

    @Test func keansDelaysGrowByHalfUpToTheirCap() {
        let backoff = Backoff.exponential(initial: .seconds(3), multiplier: 1.5, maximum: .seconds(16))
        #expect(delays(backoff, 1...7) == seconds([3, 4.5, 6.75, 10.125, 15.1875, 16, 16]))
        let attempts = delays(backoff, 1...6).reduce(into: [Duration.zero]) { $0.append(($0.last ?? .zero) + $1) }
        #expect(attempts == seconds([0, 3, 7.5, 14.25, 24.375, 39.5625, 55.5625]))
    }

    @Test func keansMultiplierOfOneIsConstant() {
        #expect(delays(.exponential(initial: .seconds(3), multiplier: 1, maximum: .seconds(16)), 1...3) == seconds([3, 3, 3]))
    }

    @Test func rxSwiftExtsMultiplierIsAddedToOne() {
        #expect(delays(.exponential(initial: .seconds(5), multiplier: 1 + 1.0), 1...3) == seconds([5, 10, 20]))
        // RxSwiftExt truncates to milliseconds.
        let backoff = Backoff.exponential(initial: .milliseconds(333), multiplier: 1 + 0.5)
        #expect(delays(backoff, 1...4) == [333, 499.5, 749.25, 1123.875].map { .milliseconds($0) })
    }

    @Test func rxSwiftExtsOwnDelaysAreACustomCurve() {
        let own = [10.0, 30, 50, 80]
        #expect(delays(.custom { .seconds(own[min($0, own.count) - 1]) }, 1...4) == seconds(own))
        #expect(delays(.constant(.seconds(5)), 1...3) == seconds([5, 5, 5]))
    }

    @Test func alamofiresDelaysDoubleFromHalfASecond() {
        #expect(delays(.exponential(initial: .milliseconds(500)), 1...4) == seconds([0.5, 1, 2, 4]))
        #expect(delays(.exponential(initial: .seconds(1), multiplier: 3), 1...4) == seconds([1, 3, 9, 27]))
    }

    @Test func swiftRetriersDelaysDoubleUpToAMinute() {
        let backoff = Backoff.exponential(initial: .milliseconds(500), maximum: .seconds(60))
        #expect(delays(backoff, 1...9) == seconds([0.5, 1, 2, 4, 8, 16, 32, 60, 60]))
        // The index counts from zero, and an old version traps at 64.
        #expect(delays(backoff, [64, 65, 66, .max]) == seconds([60, 60, 60, 60]))
    }

    /// SwiftRetrier draws up to the uncapped delay and caps afterwards: 97 of 100 of its 13th delays equal the cap.
    @Test(arguments: [1, 20_260_131] as [UInt64]) func swiftRetriersFullJitterIsCappedFirst(seed: UInt64) {
        let backoff = Backoff.exponential(initial: .milliseconds(500), maximum: .seconds(60)).jitter(.full)
        var generator = SeededGenerator(seed: seed)
        for n in [8, 9, 10, 11, 13, 65] {
            let delays = (0..<1000).map { _ in backoff.delay(afterFailure: n, using: &generator) }
            #expect(delays.allSatisfy { $0 < .seconds(60) }, "seed \(seed), failure \(n)")
            let low = delays.count { $0 < .seconds(30) }
            #expect((400...600).contains(low), "seed \(seed), failure \(n): half of them lie below half of the cap")
        }
    }

    /// The cap applies before each draw, so most steps do not end at the cap.
    @Test func swiftRetriersDecorrelatedDelaysGrowThreefoldAtMost() {
        let backoff = Backoff.exponential(initial: .milliseconds(500), maximum: .seconds(60)).jitter(.decorrelated)
        var previous: Duration?
        var generator = ConstantGenerator.half
        var delays: [Duration] = []
        for n in 1...4 {
            let delay = backoff.delay(afterFailure: n, previous: previous, using: &generator)
            delays.append(delay)
            previous = delay
        }
        #expect(delays == seconds([1, 1.75, 2.875, 4.5625]), "halfway between the slot and three times the delay before")
        #expect(backoff.delay(afterFailure: 9, previous: .seconds(40), using: &generator) == .seconds(30.25))
    }

    @Test func swiftRetrysDelaysAreJittered() {
        let base3 = Backoff.exponential(initial: .seconds(3)).jitter(.full)
        #expect(delays(base3, 1...5, .least) == seconds([0, 0, 0, 0, 0]))
        for (delay, end) in zip(delays(base3, 1...5, .greatest), seconds([3, 6, 12, 24, 48])) {
            #expect(delay < end && end - delay < .nanoseconds(1))
        }
        #expect(delays(.exponential(initial: .seconds(1), maximum: .seconds(20)), 1...7) == seconds([1, 2, 4, 8, 16, 20, 20]))
        #expect(delays(.exponential(initial: .seconds(1), maximum: .seconds(3)), 1...4) == seconds([1, 2, 3, 3]))
        let endless = Backoff.exponential(initial: .seconds(1), maximum: .seconds(Int64.max))
        #expect(delays(endless, [64, 65]) == [.seconds(Int64.max), .seconds(Int64.max)])
    }

    @Test func ph1psStrategiesHaveCounterparts() {
        #expect(delays(.immediate, 1...4) == seconds([0, 0, 0, 0]))
        #expect(delays(.constant(.seconds(1)), 1...4) == seconds([1, 1, 1, 1]))
        #expect(delays(.linear(initial: .seconds(2), increment: .seconds(3)), 1...4) == seconds([2, 5, 8, 11]))
        let exponential = Backoff.exponential(initial: .seconds(3))
        #expect(delays(exponential, 1...4) == seconds([3, 6, 12, 24]))
        #expect(delays(.exponential(initial: .seconds(3), maximum: .seconds(10)), 1...4) == seconds([3, 6, 10, 10]))
        // A minimum is a function of another backoff's delays.
        let atLeast7 = Backoff.custom { n in
            var generator = SeededGenerator(seed: 100)
            return max(.seconds(7), exponential.delay(afterFailure: n, using: &generator))
        }
        #expect(delays(atLeast7, 1...4) == seconds([7, 7, 12, 24]))
    }

    @Test func awsCapsBeforeJitter() {
        let backoff = Backoff.exponential(initial: .seconds(1), maximum: .seconds(20))
        #expect(delays(backoff, 1...7) == seconds([1, 2, 4, 8, 16, 20, 20]))
        #expect(delays(backoff.jitter(.full), [5, 6], .half) == seconds([8, 10]), "cut afterwards the second would be 16")
        #expect(delays(.exponential(initial: .milliseconds(50), maximum: .seconds(20)), 1...4) == seconds([0.05, 0.1, 0.2, 0.4]))
    }

    @Test(arguments: [(1, 0.1), (2, 0.125), (5, 0.2441), (10, 0.7451), (15, 2.274), (20, 6.939), (25, 21.18), (29, 51.70)])
    func asyncHTTPClientsConnectionDelaysGrowByAQuarter(n: Int, expected: Double) {
        let backoff = Backoff.exponential(initial: .milliseconds(100), multiplier: 1.25, maximum: .seconds(60))
        // The same formula as there, by multiplication.
        let custom = Backoff.custom(maximum: .seconds(60)) { n in
            (1..<max(n, 1)).reduce(Duration.milliseconds(100)) { delay, _ in min(delay * 1.25, .seconds(60)) }
        }
        for delay in delays(backoff, [n]) + delays(custom, [n]) { #expect(abs(delay / .seconds(expected) - 1) < 0.001) }
        #expect(delays(backoff, [30, 31, 1000]) + delays(custom, [30, 31, 1000]) == seconds([60, 60, 60, 60, 60, 60]))
    }

    @Test func grpcsConnectionDelaysGrowUpToTwoMinutes() {
        let backoff = Backoff.exponential(initial: .seconds(1), multiplier: 1.6, maximum: .seconds(120))
        let expected = [
            1, 1.6, 2.56, 4.096, 6.5536, 10.48576, 16.777216, 26.8435456, 42.94967296, 68.719476736, 109.9511627776, 120,
        ]
        for (delay, expected) in zip(delays(backoff, 1...12), seconds(expected)) {
            #expect(max(delay, expected) - min(delay, expected) < .nanoseconds(1))
        }
    }

    @Test func queuesGrowWithTheFourthPowerOrDouble() {
        #expect(delays(.custom { .seconds($0 * $0 * $0 * $0) }, 1...6) == seconds([1, 16, 81, 256, 625, 1296]))
        // Sidekiq counts from zero.
        let sidekiq = Backoff.custom { n in .seconds((n - 1) * (n - 1) * (n - 1) * (n - 1) + 15) }
        #expect(delays(sidekiq, 1...6) == seconds([15, 16, 31, 96, 271, 640]))
        #expect(delays(.custom { .seconds(15 + 1 << min($0, 30)) }, 1...8) == seconds([17, 19, 23, 31, 47, 79, 143, 271]))
        let workManager = Backoff.exponential(initial: .seconds(30), maximum: .seconds(18_000))
        #expect(delays(workManager, [1, 2, 3, 10, 11, 1000]) == seconds([30, 60, 120, 15_360, 18_000, 18_000]))
        #expect(delays(.linear(initial: .seconds(60), increment: .seconds(60)), 1...5) == seconds([60, 120, 180, 240, 300]))
    }

    /// Polly spreads constant delays by a quarter to both sides: the same range is two fifths below 1.25 times the delay.
    @Test(arguments: [(0, 0.75), (0.4, 0.95), (0.6, 1.05), (0.5, 1), (0.999999, 1.2499995)])
    func pollysQuarterToBothSidesIsAShare(random: Double, expected: Double) {
        let backoff = Backoff.constant(.milliseconds(1250)).jitter(.proportional(0.4))
        #expect(abs(delays(backoff, [1], ConstantGenerator(UInt64(random * 0x1p64)))[0] / .seconds(expected) - 1) < 1e-9)
    }

    /// If the cap applies after the draw, 19 of 100 tenth delays and 75 of 100 fortieth delays equal it.
    @Test(arguments: [1, 2, 20_260_131] as [UInt64]) func awsWalksDoNotEndAtTheirCap(seed: UInt64) {
        let backoff = Backoff.exponential(initial: .milliseconds(100), maximum: .seconds(10)).jitter(.decorrelated)
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<1000 {
            var previous = Duration.milliseconds(100)
            var most = previous
            for n in 1...40 {
                let delay = backoff.delay(afterFailure: n, previous: n == 1 ? nil : previous, using: &generator)
                most = min(.seconds(10), most * 3)
                let isInside = delay >= .milliseconds(100) && delay <= most && delay < .seconds(10)
                if !isInside { Issue.record("seed \(seed), delay \(n): \(delay) after \(previous)") }
                previous = delay
            }
        }
    }
}
