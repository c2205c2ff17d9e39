import Testing

@testable import ReachableJobs

struct StoreClockTests {
    private let second: Int64 = 1_000_000_000
    /// 2026-01-01 in nanoseconds since 1970.
    private let year2026: Int64 = 1_767_225_600_000_000_000

    private func reading(_ bootID: String, _ boot: Int64, wall: Int64) -> StoreClock.Reading {
        StoreClock.Reading(bootID: bootID, boot: boot * second, wall: wall)
    }

    @Test func stepsOfTheWallClockMoveNothing() {
        var clock = StoreClock(reading("a", 10, wall: year2026))
        #expect(clock.advance(to: reading("a", 15, wall: 0)).nanoseconds == 5 * second)
        #expect(clock.advance(to: reading("a", 20, wall: year2026 * 2)).nanoseconds == 10 * second)
    }

    @Test func wallTimeCountsInAMachineThatWasRestored() {
        var clock = StoreClock(reading("a", 5000, wall: year2026))
        #expect(clock.advance(to: reading("a", 1000, wall: year2026 + 30 * second)).nanoseconds == 30 * second)
        #expect(clock.advance(to: reading("a", 1010, wall: year2026)).nanoseconds == 40 * second)
    }

    @Test func wallTimePassesBetweenBoots() {
        var clock = StoreClock(reading("a", 10, wall: year2026))
        #expect(clock.advance(to: reading("b", 3, wall: year2026 + 60 * second)).nanoseconds == 60 * second)
        #expect(clock.advance(to: reading("b", 4, wall: year2026)).nanoseconds == 61 * second)
    }

    @Test func theWallClockNeverCountsFromBeforeItsNewestReading() {
        var clock = StoreClock(reading("a", 10, wall: year2026))
        #expect(clock.advance(to: reading("b", 1, wall: year2026 - 500 * second)).nanoseconds == 0)
        #expect(clock.advance(to: reading("c", 1, wall: year2026 + 7 * second)).nanoseconds == 7 * second)
    }

    @Test func aBoardThatLearnsTheTimeLosesNone() {
        // Boots in 1970, learns the time, and boots again.
        var clock = StoreClock(reading("a", 1, wall: 1 * second))
        #expect(clock.advance(to: reading("a", 2, wall: 2 * second)).nanoseconds == 1 * second)
        #expect(clock.advance(to: reading("b", 1, wall: year2026)).nanoseconds == 1 * second)
        #expect(clock.advance(to: reading("b", 2, wall: year2026 + second)).nanoseconds == 2 * second)
        #expect(clock.advance(to: reading("c", 1, wall: 1 * second)).nanoseconds == 2 * second)
        #expect(clock.advance(to: reading("d", 1, wall: year2026 + 11 * second)).nanoseconds == 12 * second)
    }

    @Test func extremeReadingsSaturate() {
        var clock = StoreClock(reading("a", 0, wall: year2026))
        _ = clock.advance(to: StoreClock.Reading(bootID: "a", boot: .max, wall: .max))
        #expect(clock.advance(to: StoreClock.Reading(bootID: "b", boot: .min, wall: .max)).nanoseconds == .max)
        #expect(StoreInstant(nanoseconds: .max).advanced(by: .seconds(1)).nanoseconds == .max)
    }
}
