#if ServiceLifecycle
import Logging
import Reachability
import ReachabilityTesting
import ReachableRetry
import ServiceLifecycle
import ServiceLifecycleTestKit
import Testing

@Suite(.timeLimit(.minutes(10))) struct ServiceTests {
    @Test func aGracefulShutdownEndsAMonitorNormally() async throws {
        let monitor = ReachabilityMonitor(SimulatedNetwork.online())
        try await testGracefulShutdown { trigger in
            let running = Task { try await (monitor as any Service).run() }
            for await _ in monitor.transitions { break }
            trigger.triggerGracefulShutdown()
            try await running.value
        }
        #expect(monitor.path.status == .unknown && monitor.health.failure == nil)
    }

    @Test func cancellationStillEndsAMonitorNormally() async throws {
        let monitor = ReachabilityMonitor(SimulatedNetwork.online())
        let running = Task { try await monitor.run() }
        for await _ in monitor.transitions { break }
        running.cancel()
        try await running.value
        await #expect(throws: ReachabilityError.self) { try await monitor.run() }
    }

    /// On a busy machine each end once came later than the world had settled.
    @Test func aWorldWaitsForTheEndOfAMonitorThatIsCancelled() async throws {
        for _ in 0..<200 {
            let (world, hasEnded) = (TestWorld(), Rendezvous(false))
            let running = world.start {
                try? await world.monitor.run()
                hasEnded.change { $0 = true }
            }
            await world.settle()
            running.cancel()
            await world.settle()
            guard hasEnded.value else {
                Issue.record("the monitor has not ended")
                return
            }
        }
    }

    @Test func gracefulShutdownAwaitsRunningAttempts() async throws {
        try await Bench().run { bench in
            let clock = bench.clock
            let login = ConditionSource("login", isSatisfied: false)
            let waiting = try await bench.submitWaiting("waiting", when: [login.condition])
            let upload = Task { try await bench.bus.retry { _ in try await clock.sleep(for: .seconds(10)) } }
            _ = try await clock.nextSleep()
            try await testGracefulShutdown { trigger in
                let running = Task { try await (bench.bus as any Service).run() }
                trigger.triggerGracefulShutdown()
                await #expect(throws: CancellationError.self) { try await waiting.value }
                await #expect(throws: RetryError.shutDown) { try await bench.bus.retry { _ in } }
                clock.advance(by: .seconds(10))
                try await upload.value
                try await running.value
            }
        }
    }

    @Test func attemptsAreCancelledAfterTheDrainTime() async throws {
        try await Bench().run { bench in
            let clock = bench.clock
            let login = ConditionSource("login", isSatisfied: false)
            let waiting = try await bench.submitWaiting("waiting", when: [login.condition])
            let upload = Task { try await bench.bus.retry { _ in try await clock.sleep(for: .seconds(10)) } }
            _ = try await clock.nextSleep()
            await testGracefulShutdown { trigger in
                let running = Task { await bench.bus.run() }
                trigger.triggerGracefulShutdown()
                // The shutdown begins by cancelling the jobs that wait.
                await #expect(throws: CancellationError.self) { try await waiting.value }
                await #expect(throws: RetryError.shutDown) { try await bench.bus.retry { _ in } }
                running.cancel()
                await running.value
            }
            await #expect(throws: CancellationError.self) { try await upload.value }
        }
    }

    @Test func aServiceThatIsCancelledEndsItsJobs() async throws {
        try await Bench(online: false).run { bench in
            let waiting = try await bench.submitWaiting("waiting")
            let running = Task { await bench.bus.run() }
            running.cancel()
            await running.value
            await #expect(throws: CancellationError.self) { try await waiting.value }
        }
    }

    /// A service that waits for its job, as long as that takes.
    private struct Uploads: Service {
        let bench: Bench

        func run() async throws {
            for await _ in bench.monitor.transitions { break }
            await #expect(throws: CancellationError.self) { try await bench.bus.retry(options: JobOptions(id: "upload")) { _ in } }
            try await gracefulShutdown()
        }
    }

    @Test func busEndsTheJobsOfServicesBeforeIt() async throws {
        let bench = try Bench(online: false)
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [.init(service: bench.monitor), .init(service: Uploads(bench: bench)), .init(service: bench.bus)],
                logger: .init(label: "group") { _ in bench.log }))
        let running = Task { try await group.run() }
        #expect(try await bench.bus.parked("upload").unmet == ["internet"])
        await group.triggerGracefulShutdown()
        try await running.value
    }

    @Test func busDrainsBeforeTheMonitorEnds() async throws {
        let bench = try Bench()
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [.init(service: bench.monitor), .init(service: bench.bus)],
                logger: .init(label: "group") { _ in bench.log }))
        let running = Task { try await group.run() }
        for await _ in bench.monitor.transitions { break }
        let upload = Task { try await bench.bus.retry { _ in try await bench.clock.sleep(for: .seconds(1)) } }
        _ = try await bench.clock.nextSleep()
        await group.triggerGracefulShutdown()
        #expect(bench.monitor.path.isSatisfied, "another service still needs it")
        bench.clock.advance(by: .seconds(1))
        try await upload.value
        try await running.value
        #expect(bench.monitor.path.status == .unknown)
    }
}
#endif
