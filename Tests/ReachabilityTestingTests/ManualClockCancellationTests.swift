import ReachabilityTesting
import Testing

@Suite(.timeLimit(.minutes(10)))
struct ManualClockCancellationTests {
    let clock = ManualClock()

    @Test func aCancelledSleepEndsAtOnceAndLeavesNothing() async throws {
        let sleeper = Task { [clock] in try await clock.sleep(for: .seconds(1)) }
        _ = try await clock.nextSleep()
        sleeper.cancel()
        await #expect(throws: CancellationError.self) { try await sleeper.value }
        #expect(clock.sleepers == 0)
    }

    @Test func aCancelledTaskDoesNotSleep() async {
        let sleeper = Task { [clock] in
            await untilCancelled()
            try await clock.sleep(for: .seconds(1))
        }
        sleeper.cancel()
        await #expect(throws: CancellationError.self) { try await sleeper.value }
        #expect(clock.sleepers == 0)
    }

    @Test func aSleepThatWasCancelledUntoldIsNotTold() async throws {
        let first = Task { [clock] in try await clock.sleep(for: .seconds(1)) }
        try await clock.untilSleepers(1)
        first.cancel()
        _ = await first.result
        let second = Task { [clock] in try await clock.sleep(for: .seconds(2)) }
        #expect(try await clock.nextSleep().offset == .seconds(2))
        clock.advance(by: .seconds(2))
        try await second.value
    }

    @Test func aSleepThatEndedUntoldIsNotTold() async throws {
        let first = Task { [clock] in try await clock.sleep(for: .seconds(1)) }
        try await clock.untilSleepers(1)
        clock.advance(by: .seconds(1))
        try await first.value
        let second = Task { [clock] in try await clock.sleep(for: .seconds(7)) }
        #expect(try await clock.nextSleep().offset == .seconds(8))
        clock.advance(by: .seconds(7))
        try await second.value
    }

    @Test func aCancelledWitnessTakesNoSleepFromOthers() async throws {
        let witness = Task { [clock] in try await clock.nextSleep() }
        witness.cancel()
        await #expect(throws: CancellationError.self) { try await witness.value }
        let sleeper = Task { [clock] in try await clock.sleep(for: .seconds(1)) }
        #expect(try await clock.nextSleep().offset == .seconds(1))
        clock.advance(by: .seconds(1))
        try await sleeper.value
    }

    @Test func cancellationThatRacesWithWakingLosesNoTask() async {
        for _ in 0..<2_000 {
            let clock = ManualClock()
            let sleeper = Task { try await clock.sleep(for: .seconds(1)) }
            async let cancelling: Void = sleeper.cancel()
            async let advancing: Void = clock.advance(by: .seconds(1))
            _ = await (cancelling, advancing)
            // Whoever won, the sleep is over: by cancellation, or because its time came. If it began after the advance, only the
            // cancellation can end it.
            _ = await sleeper.result
            #expect(clock.sleepers == 0)
        }
    }

    @Test func manySleepsAreWokenOrCancelledEachOnce() async throws {
        let seed = UInt64.random(in: .min ... .max)
        var generator = SeededGenerator(seed: seed)
        let sleepers = (0..<1_000).map { _ in
            let seconds = Int.random(in: 1...100, using: &generator)
            return Task { [clock] in try await clock.sleep(until: .init(offset: .seconds(seconds))) }
        }
        let isCancelled = sleepers.map { _ in Bool.random(using: &generator) }
        try await clock.untilSleepers(sleepers.count)
        for (sleeper, isCancelled) in zip(sleepers, isCancelled) where isCancelled { sleeper.cancel() }
        for _ in 1...100 { clock.advance(by: .seconds(1)) }
        for (sleeper, isCancelled) in zip(sleepers, isCancelled) {
            let result = await sleeper.result
            #expect((try? result.get()) == nil ? isCancelled : !isCancelled, "seed \(seed)")
        }
        #expect(clock.sleepers == 0)
    }
}
