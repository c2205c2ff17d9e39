import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// Operations that never suspend: they poll `Task.isCancelled`, and are cancellable from their first instruction.
///
/// They spin on the main actor's thread, so that one core is enough for the test and the operation.
@Suite(.timeLimit(.minutes(10))) struct SpinningTests {
    private struct Stopped: Error {}

    /// Submits a job whose attempts spin until they are cancelled; returns when the first one spins.
    private func spin(_ policy: RetryPolicy, on bus: RetryBus) async -> Task<Void, any Error> {
        let (begun, begin) = AsyncStream.makeStream(of: Void.self)
        let job = Task { @MainActor in
            try await bus.retry(policy.giveUpAfter(maxAttempts: 1), options: JobOptions(id: "job")) { _ in
                begin.yield()
                while !Task.isCancelled {}
                throw Stopped()
            }
        }
        for await _ in begun { break }
        return job
    }

    @Test func aTimeoutEndsThem() async throws {
        try await Scenario().run { scenario in
            let job = await spin(.scenario.attemptTimeout(.seconds(5)), on: scenario.bus)
            scenario.clock.advance(by: .seconds(5))
            await #expect(throws: RetryError.attemptTimedOut) { try await job.value }
        }
    }

    @Test func theDeadlineEndsThem() async throws {
        try await Scenario().run { scenario in
            let job = await spin(.scenario.giveUpAfter(elapsed: .seconds(5)), on: scenario.bus)
            scenario.clock.advance(by: .seconds(5))
            await #expect(throws: RetryError.deadline) { try await job.value }
        }
    }

    @Test func theirNameEndsThem() async throws {
        try await Scenario().run { scenario in
            let job = await spin(.scenario, on: scenario.bus)
            scenario.bus.cancel("job")
            await #expect(throws: CancellationError.self) { try await job.value }
        }
    }

    @Test func theirCallerEndsThem() async throws {
        try await Scenario().run { scenario in
            let job = await spin(.scenario, on: scenario.bus)
            job.cancel()
            await #expect(throws: CancellationError.self) { try await job.value }
        }
    }

    @Test func theShutdownEndsThem() async throws {
        try await Scenario().run { scenario in
            let job = await spin(.scenario, on: scenario.bus)
            await scenario.bus.shutdown(drain: .zero)
            await #expect(throws: CancellationError.self) { try await job.value }
        }
    }

    /// The timer of a real clock needs a thread of the global pool; operations that spin on all of them would keep it from firing.
    @Test @MainActor func aRealClockEndsThem() async throws {
        let bus = RetryBus(ReachabilityMonitor())
        let policy = RetryPolicy.scenario.giveUpAfter(maxAttempts: 1).attemptTimeout(.milliseconds(20))
        await #expect(throws: RetryError.attemptTimedOut) {
            try await bus.retry(policy) { _ in
                while !Task.isCancelled {}
                throw Stopped()
            }
        }
    }

    @Test func aCallerThatIsRaisedRaisesItsAttempt() async throws {
        let bus = RetryBus(ReachabilityMonitor())
        let (begun, begin) = AsyncStream.makeStream(of: Void.self)
        let gate = Gate()
        let job = Task(priority: .background) {
            try await bus.retry { _ in
                begin.yield()
                // The rise arrives some time after it was ordered, and may precede the handler.
                await withTaskPriorityEscalationHandler {
                    if Task.currentPriority < .high { await gate.pass() }
                } onPriorityEscalated: { _, _ in
                    gate.open()
                }
                return Task.currentPriority
            }
        }
        for await _ in begun { break }
        job.escalatePriority(to: .high)
        // Awaited only after the attempt has read it: to await a task raises it, too.
        let pending = AsyncStream<TaskPriority> { stream in
            Task.detached(priority: .background) {
                stream.yield((try? await job.value) ?? .background)
                stream.finish()
            }
        }
        for await priority in pending { #expect(priority == .high) }
    }
}
