import Dispatch
import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// Cancellation and shutdown.
@Suite(.timeLimit(.minutes(10))) struct EndingTests {
    @Test func aRunningAttemptIsCancelledByTheJobsName() async throws {
        try await Scenario().run { scenario in
            let task = await scenario.submit("job", .scenario, .ok(after: .seconds(100)))
            await scenario.submit("other", .scenario, .ok(after: .seconds(1)))
            scenario.bus.cancel("job")
            await task.value
            #expect(scenario.result("job") == "CancellationError()")
            await scenario.advance(to: .seconds(1))
            #expect(scenario.result("other") == "ok")
        }
    }

    @Test func waitingJobIsCancelledByItsName() async throws {
        try await Scenario(online: false).run { scenario in
            let task = await scenario.submit("job", .scenario, .ok())
            scenario.bus.cancel("job")
            scenario.bus.cancel("job")
            scenario.bus.cancel("missing")
            await task.value
            #expect(scenario.result("job") == "CancellationError()" && scenario.starts("job").isEmpty)
            #expect(scenario.bus.usage == [0, 0, 0, 0, 0])
        }
    }

    @Test func unnamedJobIsCancelledByItsGeneratedName() async throws {
        try await Scenario(online: false).run { scenario in
            let task = Task.immediate { try await scenario.bus.retry { _ in 1 } }
            scenario.bus.cancel(try #require(scenario.bus.pending.first?.id))
            await #expect(throws: CancellationError.self) { _ = try await task.value }
        }
    }

    @Test func aCancelledTaskSubmitsNothing() async throws {
        let bus = RetryBus(ReachabilityMonitor())
        let task = Task {
            await untilCancelled()
            return try await bus.retry { _ in Issue.record("an attempt of a cancelled task") }
        }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }

    @Test func successOfACancelledAttemptIsKept() async throws {
        let bus = RetryBus(ReachabilityMonitor())
        let task = Task.immediate {
            try await bus.retry { _ in
                await untilCancelled()
                return "done"
            }
        }
        #expect(bus.pending.map(\.state) == [.running])
        task.cancel()
        #expect(try await task.value == "done")
    }

    @Test func aSecondJobOfTheSameNameIsRefused() async throws {
        try await Scenario(online: false).run { scenario in
            let first = await scenario.submit("job", .scenario, .ok())
            await #expect(throws: RetryError.duplicateID) { try await scenario.bus.retry(options: JobOptions(id: "job")) { _ in } }
            #expect(scenario.bus.pending.count == 1)
            first.cancel()
            await first.value
            try scenario.network.plug("eth0")
            try await scenario.bus.retry(options: JobOptions(id: "job")) { _ in }
        }
    }

    @Test func shutdownCancelsWaitingJobsAndAwaitsAttempts() async throws {
        try await Scenario().run { scenario in
            let waiting = await scenario.submit("waiting", .scenario, .fails(), .ok())
            await scenario.submit("running", .scenario, .ok(after: .seconds(10)))
            await scenario.submit("failing", .scenario, .fails(after: .seconds(10)))
            await scenario.advance(to: .seconds(1))
            let end = Task { await scenario.bus.shutdown(drain: .seconds(60)) }
            await waiting.value
            #expect(scenario.result("waiting") == "CancellationError()")
            await scenario.advance(to: .seconds(20))
            #expect(await end.value.map(\.id) == ["waiting", "failing"])
            #expect(scenario.result("running") == "ok" && scenario.result("failing") == "other")
            #expect(scenario.bus.nextWakeUp == nil)
            await #expect(throws: RetryError.shutDown) { try await scenario.bus.retry { _ in } }
            #expect(scenario.bus.usage == [0, 0, 0, 0, 0])
        }
    }

    @Test func shutdownReturnsOnlyTheJobsThatItCancelled() async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario
            await scenario.submit("ok", policy, .ok(after: .seconds(1)))
            await scenario.submit("refused", policy.giveUpOnErrors { $0 is Trouble }, .fails(after: .seconds(1)))
            await scenario.submit("late", policy.giveUpAfter(elapsed: .seconds(2)), .ok(after: .seconds(100)))
            await scenario.submit("discarded", policy, .ok(after: .seconds(100)))
            await scenario.submit("cut", policy, .ok(after: .seconds(100)))
            let end = Task.immediate { await scenario.bus.shutdown(drain: .seconds(5)) }
            scenario.bus.cancel("discarded")
            await scenario.advance(to: .seconds(5))
            let jobs = await end.value
            #expect(jobs.map(\.id) == ["cut"] && jobs.first?.attempts == 1 && jobs.first?.lastError is CancellationError)
        }
    }

    @Test func attemptsAfterTheDrainTimeAreCancelledAndAwaited() async throws {
        try await Scenario().run { scenario in
            let running = await scenario.submit("running", .scenario, .ok(after: .seconds(100)))
            let end = Task.immediate { await scenario.bus.shutdown(drain: .seconds(5)) }
            await scenario.advance(to: .seconds(5))
            #expect(await end.value.map(\.id) == ["running"])
            await running.value
            #expect(scenario.result("running") == "CancellationError()" && scenario.ended("running") == 5)
        }
    }

    @Test func laterShutdownWithoutALimitKeepsTheFirstLimit() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("running", .scenario, .ok(after: .seconds(100)))
            let first = Task.immediate { await scenario.bus.shutdown(drain: .seconds(5)) }
            let second = Task.immediate { await scenario.bus.shutdown(drain: nil) }
            await scenario.advance(to: .seconds(200))
            #expect(await first.value.map(\.id) == ["running"])
            #expect(await second.value.map(\.id) == ["running"])
            #expect(scenario.ended("running") == 5)
        }
    }

    @Test func eventsFinishWithTheBus() async throws {
        let bus = RetryBus(ReachabilityMonitor())
        let events = bus.events
        try await bus.retry { _ in }
        await bus.shutdown(drain: nil)
        var kinds: [RetryEvent.Kind] = []
        for await event in events { kinds.append(event.kind) }
        #expect(kinds == [.attemptStarted, .succeeded])
        for await _ in bus.events { Issue.record("an event of a bus that was shut down") }
    }

    @Test func unheldBusIsReleased() async throws {
        let source = ConditionSource("login", isSatisfied: true)
        weak var bus: RetryBus?
        let events: AsyncStream<RetryEvent>
        do {
            let held = RetryBus(ReachabilityMonitor())
            bus = held
            events = held.events
            try await held.retry(options: JobOptions(when: [source.condition])) { _ in }
        }
        #expect(bus == nil)
        #expect(source.condition.storage.listenerCount == 0)
        for await _ in events {}
    }

    /// The job may start, but its task has not run yet.
    @Test(arguments: ["cancel", "deadline", "shutdown"])
    @MainActor func endBeforeTheTaskRunsIsKept(cause: String) async throws {
        let clock = ManualClock()
        let network = SimulatedNetwork.online(clock: clock)
        let monitor = ReachabilityMonitor(network)
        let running = Task { try await monitor.run() }
        defer { running.cancel() }
        for await _ in monitor.transitions { break }
        try network.pull("eth0")
        let bus = RetryBus(monitor, clock: clock)
        let job = Task { @MainActor in
            try await bus.retry(.scenario.giveUpAfter(elapsed: .seconds(60)), options: JobOptions(id: "job")) { _ in
                Issue.record("an attempt of a job that is over")
                await untilCancelled()
            }
        }
        try await bus.parked("job")
        // Nothing else runs on the main actor until this suspends.
        try network.plug("eth0")
        switch cause {
        case "cancel": bus.cancel("job")
        case "deadline": clock.advance(by: .seconds(60))
        default:
            let isShutDown = DispatchSemaphore(value: 0)
            Task.detached {
                async let end = bus.shutdown(drain: .zero)
                while (try? await bus.retry { _ in }) != nil {}
                isShutDown.signal()
                _ = await end
            }
            isShutDown.wait()
        }
        let error = await #expect(throws: (any Error).self) { try await job.value }
        #expect(cause == "deadline" ? error as? RetryError == .deadline : error is CancellationError)
    }

    /// The attempt has begun, and runs before the bus knows its task.
    @Test func anOperationMayCancelItsOwnJob() async throws {
        let bus = RetryBus(ReachabilityMonitor())
        await #expect(throws: CancellationError.self) {
            try await bus.retry(options: JobOptions(id: "job")) { _ in
                bus.cancel("job")
                await untilCancelled()
                throw Trouble.other
            }
        }
        #expect(bus.usage == [0, 0, 0, 0, 0])
    }
}
