import ReachabilityTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10)))
struct ManualClockTests {
    let clock = ManualClock()
    let log = Recorder<String>()

    private func at(_ seconds: Int) -> ManualClock.Instant { .init(offset: .seconds(seconds)) }

    private func note(_ name: String) {
        log.record("\(name) at \(clock.now.offset)")
    }

    private func schedule(_ name: String, at seconds: Int) -> ManualClock.Timer {
        clock.schedule(at: at(seconds)) { note(name) }
    }

    @Test func timersRunInOrderOfDeadlines() {
        _ = schedule("late", at: 3)
        _ = schedule("early", at: 1)
        _ = schedule("beyond", at: 5)
        clock.advance(by: .seconds(4))
        #expect(log.value == ["early at 1.0 seconds", "late at 3.0 seconds"])
        #expect(clock.now == at(4))
        clock.advance(to: at(5))
        #expect(log.value.last == "beyond at 5.0 seconds")
    }

    @Test func equalDeadlinesRunInOrderOfRegistration() {
        let names = (0..<20).map { "timer \($0)" }
        for name in names { _ = schedule(name, at: 1) }
        clock.advance(by: .seconds(1))
        #expect(log.value == names.map { "\($0) at 1.0 seconds" })
    }

    @Test func nestedTimersRunWithinSameAdvance() {
        _ = clock.schedule(at: at(1)) { [clock, log] in
            _ = clock.schedule(at: clock.now.advanced(by: .seconds(1))) { log.record("second at \(clock.now.offset)") }
            _ = clock.schedule(at: clock.now) { log.record("now at \(clock.now.offset)") }
        }
        _ = schedule("third", at: 3)
        clock.advance(by: .seconds(3))
        #expect(log.value == ["now at 1.0 seconds", "second at 2.0 seconds", "third at 3.0 seconds"])
    }

    @Test func cancelledTimerDoesNotRun() {
        let timer = schedule("never", at: 1)
        let other = schedule("other", at: 1)
        #expect(clock.cancel(timer))
        #expect(!clock.cancel(timer))
        clock.advance(by: .seconds(1))
        #expect(log.value == ["other at 1.0 seconds"])
        #expect(!clock.cancel(other))
    }

    @Test func timerMayAdvanceClock() {
        _ = clock.schedule(at: at(1)) { [clock] in clock.advance(by: .seconds(5)) }
        _ = schedule("inner", at: 3)
        clock.advance(by: .seconds(2))
        #expect(log.value == ["inner at 3.0 seconds"])
        #expect(clock.now == at(6))
    }

    @Test func timeNeverRunsBackwards() {
        clock.advance(to: at(5))
        clock.advance(to: at(2))
        clock.advance(by: .seconds(-3))
        #expect(clock.now == at(5))
    }

    @Test func overdueTimerRunsWithAdvanceByZero() {
        clock.advance(to: at(5))
        _ = schedule("past", at: 1)
        #expect(log.value.isEmpty)
        clock.advance(by: .zero)
        #expect(log.value == ["past at 5.0 seconds"])
    }

    @Test func jumpRunsTimersLate() {
        _ = schedule("timer", at: 1)
        clock.jump(by: .seconds(60)) { note("first") }
        #expect(log.value == ["first at 60.0 seconds", "timer at 60.0 seconds"])
    }

    @Test func endOfTimeDoesNotTrap() {
        let end = ManualClock.Instant(offset: Duration(attoseconds: .max))
        let beginning = ManualClock.Instant(offset: Duration(attoseconds: .min))
        #expect(end.advanced(by: .seconds(1)) == end)
        #expect(beginning.advanced(by: .seconds(-1)) == beginning)
        #expect(beginning.duration(to: end) == end.offset)
        #expect(end.duration(to: beginning) == beginning.offset)
        clock.advance(to: end)
        clock.advance(by: .seconds(1))
        #expect(clock.now == end)
    }

    @Test(arguments: [([0.1, 0.2], 0.3), ([1.1, 1.2], 2.3), ([0.7, 0.1], 0.8)])
    func fractionsOfSecondsAddUpToNanosecond(steps: [Double], sum: Double) async throws {
        let sleeper = Task { [clock] in try await clock.sleep(for: .seconds(sum)) }
        try await clock.untilSleepers(1)
        for step in steps { clock.advance(by: .seconds(step)) }
        #expect(clock.sleepers == 0 && clock.now.offset == .milliseconds(Int((sum * 1000).rounded())))
        sleeper.cancel()
        _ = await sleeper.result
    }

    @Test(arguments: [(0, 0), (1, 0), (499_999_999, 0), (500_000_000, 1), (-1, 0), (-500_000_000, 0), (-500_000_001, -1)])
    func instantsAreRoundedToNearestNanosecond(attoseconds: Int64, nanoseconds: Int64) {
        let instant = ManualClock.Instant(offset: Duration(attoseconds: Int128(attoseconds)))
        #expect(instant.offset == .nanoseconds(nanoseconds))
        #expect(ManualClock.Instant().duration(to: instant) == .nanoseconds(nanoseconds))
    }

    @Test func sleepEndsAtItsDeadline() async throws {
        let sleeper = Task { [clock] in
            try await clock.sleep(for: .seconds(2))
            return clock.now
        }
        #expect(try await clock.nextSleep() == at(2))
        clock.advance(by: .seconds(1))
        #expect(clock.sleepers == 1)
        clock.advance(by: .seconds(1))
        #expect(clock.sleepers == 0)
        #expect(try await sleeper.value == at(2))
    }

    @Test func overdueSleepReturnsAtOnce() async throws {
        clock.advance(to: at(3))
        try await clock.sleep(until: at(3))
        try await clock.sleep(until: at(1))
        #expect(clock.sleepers == 0)
    }

    @Test func sleepsAreReturnedOnceInOrder() async throws {
        var sleepers: [Task<Void, any Error>] = []
        for seconds in [3, 1, 2] {
            sleepers.append(Task { [clock] in try await clock.sleep(for: .seconds(seconds)) })
            try await clock.untilSleepers(sleepers.count)
        }
        #expect(try await clock.nextSleep() == at(3))
        #expect(try await clock.nextSleep() == at(1))
        #expect(try await clock.nextSleep() == at(2))
        clock.advance(by: .seconds(3))
        for sleeper in sleepers { try await sleeper.value }
    }

    @Test func everySleepOfLoopIsReturned() async throws {
        let loop = Task { [clock] in
            for _ in 0..<100 { try await clock.sleep(for: .seconds(1)) }
        }
        for turn in 1...100 {
            #expect(try await clock.nextSleep() == at(turn))
            clock.advance(by: .seconds(1))
        }
        try await loop.value
        #expect(clock.now == at(100))
    }
}

@Suite(.timeLimit(.minutes(10)))
struct ManualClockCancellationTests {
    let clock = ManualClock()

    @Test func cancelledSleepEndsAtOnce() async throws {
        let sleeper = Task { [clock] in try await clock.sleep(for: .seconds(1)) }
        _ = try await clock.nextSleep()
        sleeper.cancel()
        await #expect(throws: CancellationError.self) { try await sleeper.value }
        #expect(clock.sleepers == 0)
    }

    @Test func cancelledTaskDoesNotSleep() async {
        let sleeper = Task { [clock] in
            await untilCancelled()
            try await clock.sleep(for: .seconds(1))
        }
        sleeper.cancel()
        await #expect(throws: CancellationError.self) { try await sleeper.value }
        #expect(clock.sleepers == 0)
    }

    @Test func cancelledSleepIsNotReturned() async throws {
        let first = Task { [clock] in try await clock.sleep(for: .seconds(1)) }
        try await clock.untilSleepers(1)
        first.cancel()
        _ = await first.result
        let second = Task { [clock] in try await clock.sleep(for: .seconds(2)) }
        #expect(try await clock.nextSleep().offset == .seconds(2))
        clock.advance(by: .seconds(2))
        try await second.value
    }

    @Test func endedSleepIsNotReturned() async throws {
        let first = Task { [clock] in try await clock.sleep(for: .seconds(1)) }
        try await clock.untilSleepers(1)
        clock.advance(by: .seconds(1))
        try await first.value
        let second = Task { [clock] in try await clock.sleep(for: .seconds(7)) }
        #expect(try await clock.nextSleep().offset == .seconds(8))
        clock.advance(by: .seconds(7))
        try await second.value
    }

    @Test func cancelledObserverTakesNoSleep() async throws {
        let witness = Task { [clock] in try await clock.nextSleep() }
        witness.cancel()
        await #expect(throws: CancellationError.self) { try await witness.value }
        let sleeper = Task { [clock] in try await clock.sleep(for: .seconds(1)) }
        #expect(try await clock.nextSleep().offset == .seconds(1))
        clock.advance(by: .seconds(1))
        try await sleeper.value
    }

    @Test func cancellationRacingWithWakeUpLosesNoTask() async {
        for _ in 0..<2_000 {
            let clock = ManualClock()
            let sleeper = Task { try await clock.sleep(for: .seconds(1)) }
            async let cancelling: Void = sleeper.cancel()
            async let advancing: Void = clock.advance(by: .seconds(1))
            _ = await (cancelling, advancing)
            // The sleep has ended by cancellation or at its deadline. A sleep that began after the advance can only be cancelled.
            _ = await sleeper.result
            #expect(clock.sleepers == 0)
        }
    }

    @Test func everySleepEndsOnce() async throws {
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
