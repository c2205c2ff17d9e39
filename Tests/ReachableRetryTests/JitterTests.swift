import ReachabilityTesting
import ReachableRetry
import Testing

/// Jittered delays for given random numbers; ``JitterStatisticsTests`` checks distributions.
struct JitterTests {
    private func delay(
        _ backoff: Backoff, after n: Int = 1, previous: Duration? = nil, _ generator: ConstantGenerator
    ) -> Duration {
        var generator = generator
        return backoff.delay(afterFailure: n, previous: previous, using: &generator)
    }

    /// True if a delay is just below the delay for the random number 1.
    private func isJustBelow(_ end: Duration, _ delay: Duration) -> Bool { delay < end && end - delay < .nanoseconds(1) }

    private let ten = Backoff.constant(.seconds(10))

    @Test func fullJitterGoesFromNothingToTheDelay() {
        #expect(delay(ten.jitter(.full), .least) == .zero)
        #expect(delay(ten.jitter(.full), .half) == .seconds(5))
        #expect(isJustBelow(.seconds(10), delay(ten.jitter(.full), .greatest)))
    }

    @Test func equalJitterGoesFromHalfOfTheDelayToTheDelay() {
        #expect(delay(ten.jitter(.equal), .least) == .seconds(5))
        #expect(delay(ten.jitter(.equal), .half) == .seconds(7.5))
        #expect(isJustBelow(.seconds(10), delay(ten.jitter(.equal), .greatest)))
        #expect(delay(.constant(Duration(attoseconds: 1)).jitter(.equal), .greatest) <= Duration(attoseconds: 1))
    }

    @Test func proportionalJitterTakesAShareAway() {
        #expect(delay(ten.jitter(.proportional(0.2)), .least) == .seconds(8))
        #expect(delay(ten.jitter(.proportional(0.2)), .half) == .seconds(9))
        // A fifth of the last step before 1 is below the precision of a Double near 1.
        #expect(delay(ten.jitter(.proportional(0.2)), .greatest) == .seconds(10))
        #expect(isJustBelow(.seconds(10), delay(ten.jitter(.proportional(1)), .greatest)))
        #expect(delay(ten.jitter(.proportional(1)), .half) == .seconds(5))
        #expect(delay(ten.jitter(.proportional(0)), .least) == .seconds(10))
    }

    @Test func shareIsClampedToZeroAndOne() {
        for share in [5, 1.0001, .infinity] { #expect(delay(ten.jitter(.proportional(share)), .least) == .zero) }
        for share in [-5, -0.0001, -.infinity, .nan] { #expect(delay(ten.jitter(.proportional(share)), .least) == .seconds(10)) }
    }

    @Test func decorrelatedJitterRangesFromTheFirstDelayToThreefold() {
        let backoff = Backoff.exponential(initial: .seconds(1), maximum: .seconds(60)).jitter(.decorrelated)
        #expect(delay(backoff, .least) == .seconds(1))
        #expect(delay(backoff, .half) == .seconds(2))
        #expect(isJustBelow(.seconds(3), delay(backoff, .greatest)))
        #expect(delay(backoff, after: 9, previous: .seconds(10), .least) == .seconds(1))
        #expect(delay(backoff, after: 9, previous: .seconds(10), .half) == .seconds(15.5))
        #expect(isJustBelow(.seconds(30), delay(backoff, after: 9, previous: .seconds(10), .greatest)))
    }

    @Test func decorrelatedJitterIsLimitedByTheCapOrAnHour() {
        let capped = Backoff.exponential(initial: .seconds(1), maximum: .seconds(60)).jitter(.decorrelated)
        let uncapped = Backoff.exponential(initial: .seconds(1)).jitter(.decorrelated)
        for previous in [Duration.seconds(50), .seconds(4000), Duration(attoseconds: .max)] {
            #expect(isJustBelow(.seconds(60), delay(capped, after: 9, previous: previous, .greatest)))
            #expect(delay(capped, after: 9, previous: previous, .half) == .seconds(30.5), "bounded, not cut off")
        }
        #expect(isJustBelow(.seconds(3600), delay(uncapped, after: 9, previous: .seconds(5000), .greatest)))
        let long = Backoff.constant(.seconds(7200))
        #expect(delay(long.jitter(.decorrelated), .greatest) == .seconds(3600))
    }

    @Test func decorrelatedJitterAcceptsAnyPreviousDelay() {
        let backoff = Backoff.exponential(initial: .seconds(1), maximum: .seconds(60)).jitter(.decorrelated)
        for previous in [Duration.zero, .seconds(-5), Duration(attoseconds: .min), .milliseconds(100)] {
            #expect(delay(backoff, after: 2, previous: previous, .greatest) == .seconds(1), "never below the first delay")
        }
        let above = Backoff.exponential(initial: .seconds(90), maximum: .seconds(60)).jitter(.decorrelated)
        #expect(delay(above, .half) == .seconds(60))
    }

    @Test func oneNumberIsDrawnPerJitteredDelay() {
        let curves = [ten, .exponential(initial: .seconds(1)), .fibonacci(unit: .seconds(1)), .custom { .seconds($0) }]
        for curve in curves {
            for (jitter, draws) in [(Jitter.none, 0), (.full, 3), (.equal, 3), (.decorrelated, 3), (.proportional(0.5), 3)] {
                var generator = ConstantGenerator.half
                for n in 1...3 { _ = curve.jitter(jitter).delay(afterFailure: n, using: &generator) }
                #expect(generator.draws == draws, "\(jitter)")
            }
        }
    }

    @Test func lastJitterCounts() {
        #expect(delay(ten.jitter(.full).jitter(.equal), .least) == .seconds(5))
        #expect(delay(ten.jitter(.full).jitter(.none), .least) == .seconds(10))
        #expect(delay(ten, .least) == .seconds(10), "what they were called on is as it was")
    }
}
