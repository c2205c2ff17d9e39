import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// A bus on a clock that can only sleep, as `ContinuousClock` does.
@Suite(.timeLimit(.minutes(10))) struct ClockTests {
    /// A custom clock with nothing but the protocol's requirements.
    struct SleepingClock: Clock {
        let manual: ManualClock

        var now: ManualClock.Instant { manual.now }
        var minimumResolution: Duration { manual.minimumResolution }

        func sleep(until deadline: ManualClock.Instant, tolerance: Duration?) async throws {
            try await manual.sleep(until: deadline, tolerance: tolerance)
        }
    }

    @Test func delaysAreSlept() async throws {
        let manual = ManualClock()
        let bus = RetryBus(ReachabilityMonitor(), clock: SleepingClock(manual: manual))
        async let attempts = bus.retry(.scenario) { attempt in
            if attempt.number < 3 { throw Trouble.other }
            return attempt.number
        }
        for (sleep, total) in [(1, 1), (2, 3)] {
            #expect(try await manual.nextSleep().offset == .seconds(total))
            manual.advance(by: .seconds(sleep))
        }
        #expect(try await attempts == 3)
        #expect(manual.sleepers == 0)
    }

    @Test func oneTaskSleepsForAllJobs() async throws {
        let manual = ManualClock()
        let bus = RetryBus(ReachabilityMonitor(), clock: SleepingClock(manual: manual))
        let tasks = (1...100).map { number in
            Task {
                try await bus.retry(.scenario.backoff(.constant(.seconds(number))), options: JobOptions(id: JobID("\(number)"))) {
                    attempt in
                    if attempt.number == 1 { throw Trouble.other }
                }
            }
        }
        for number in 1...100 { try await bus.parked(JobID("\(number)")) }
        while try await manual.nextSleep().offset > .seconds(1) {}
        try await manual.untilSleepers(1)
        for task in tasks { task.cancel() }
        for task in tasks { _ = await task.result }
        try await manual.untilSleepers(0)
        #expect(bus.nextWakeUp == nil)
    }

    @Test func clockMayReachItsLastInstant() async throws {
        try await Scenario(online: false).run { scenario in
            await scenario.submit("job", .scenario, .fails(Trouble.unreachable, after: .seconds(1)))
            try await scenario.at(.seconds(5)) { try $0.plug("eth0") }
            try await scenario.at(.milliseconds(5500)) { try $0.pull("eth0") }
            await scenario.advance(to: .seconds(7))
            scenario.clock.advance(by: Duration(attoseconds: .max))
            scenario.bus.cancel("job")
            await scenario.settle()
            #expect(scenario.result("job") == "CancellationError()")
        }
    }

    @Test(arguments: [true, false]) func workOnASimulatedNetworkHasItsTime(hasBus: Bool) async throws {
        try await Scenario().run { scenario in
            let task = scenario.start {
                let policy = RetryPolicy.scenario.backoff(.constant(.seconds(3600)))
                func end(_ attempt: Attempt) throws -> Duration {
                    if attempt.number == 1 { throw Trouble.other }
                    return scenario.clock.now.offset
                }
                if hasBus { return try await RetryBus(scenario.monitor).retry(policy, operation: end) }
                return try await withRetry(policy, on: scenario.monitor, operation: end)
            }
            await scenario.letPass(until: task)
            try await #expect(task.value == .seconds(3600))
        }
    }

    @Test func systemClockWorks() async throws {
        let bus = RetryBus(ReachabilityMonitor())
        let policy = RetryPolicy.scenario.backoff(.constant(.milliseconds(1)))
        #expect(
            try await bus.retry(policy) { attempt in
                if attempt.number < 4 { throw Trouble.other }
                return attempt.number
            } == 4)
    }
}
