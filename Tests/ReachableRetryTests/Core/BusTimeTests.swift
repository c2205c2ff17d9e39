import ReachabilityTesting
import ReachableRetry
import Testing

/// Time as the core counts it.
struct BusTimeTests {
    private let longest = Duration(attoseconds: .max)
    private let shortest = Duration(attoseconds: .min)

    @Test func partsOfANanosecondAreRounded() {
        #expect(BusTime(.nanoseconds(5)).nanoseconds == 5)
        #expect(BusTime(.seconds(1.1)).nanoseconds == 1_100_000_000 && BusTime(.seconds(2.3)).nanoseconds == 2_300_000_000)
        #expect(BusTime(Duration(attoseconds: 499_999_999)).nanoseconds == 0)
        #expect(BusTime(Duration(attoseconds: 500_000_000)).nanoseconds == 1)
        #expect(BusTime(Duration(attoseconds: -500_000_000)).nanoseconds == 0)
        #expect(BusTime(Duration(attoseconds: -500_000_001)).nanoseconds == -1)
        #expect(BusTime(.seconds(1)) + Duration(attoseconds: 96) == BusTime(nanoseconds: 1_000_000_000))
    }

    @Test(arguments: [1, 20_260_131] as [UInt64]) func durationsComeBackWithinHalfANanosecond(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<10_000 {
            // Of all magnitudes, up to some 290 years.
            let attoseconds = (Int128(Int64(bitPattern: generator.next())) * 1_000_000_000) >> Int128(generator.next() % 90)
            let duration = Duration(attoseconds: attoseconds + Int128(generator.next() % 1_000_000_000))
            let lateness = BusTime(duration).duration - duration
            #expect(abs(lateness.attoseconds) <= 500_000_000, "seed \(seed), \(attoseconds) as")
        }
    }

    @Test func unrepresentableTimesAreNeverOrPast() {
        #expect(BusTime(longest) == .never && BusTime(shortest) == .past)
        #expect(BusTime(.seconds(Int64.max)) == .never && BusTime(.seconds(Int64.min)) == .past)
        #expect(BusTime(.nanoseconds(Int64.max)) == .never && BusTime(.nanoseconds(Int64.max - 1)) < .never)
        #expect(BusTime.never.isNever && !BusTime(nanoseconds: .max - 1).isNever && !BusTime.past.isNever)
    }

    @Test func sumsSaturate() {
        #expect(BusTime.start + .seconds(1) == BusTime(.seconds(1)))
        #expect(BusTime(nanoseconds: .max - 1) + .nanoseconds(1) == .never)
        #expect(BusTime(nanoseconds: .max - 1) + longest == .never)
        #expect(BusTime(nanoseconds: .min + 1) + .seconds(-1) == .past)
        #expect(BusTime(nanoseconds: 1) + shortest == .past)
        #expect(BusTime(nanoseconds: -1) + longest == .never && BusTime.past + longest == .never)
        #expect(BusTime(nanoseconds: -5) + .nanoseconds(Int64.max) == BusTime(nanoseconds: .max - 5))
    }

    @Test func nothingIsLaterThanNever() {
        for duration in [shortest, .seconds(-1), .zero, .seconds(1), longest] { #expect(BusTime.never + duration == .never) }
        #expect([BusTime.past, BusTime(nanoseconds: -1), .start, BusTime(nanoseconds: 1)].allSatisfy { $0 < .never })
        #expect(BusTime.past < BusTime(nanoseconds: -1) && BusTime(nanoseconds: -1) < .start)
    }

    @Test func differencesCanBeAddedUp() {
        #expect(BusTime(nanoseconds: 7) - BusTime(nanoseconds: 9) == .nanoseconds(-2))
        #expect(BusTime.never - .past < .seconds(600 * 366 * 86_400))
        #expect(BusTime.past - .never > .seconds(-600 * 366 * 86_400))
        #expect(BusTime.never - .never == .zero)
    }
}
