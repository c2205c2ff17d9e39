import Reachability
import ReachabilityTesting
import ReachableRetry
import Synchronization
import Testing

/// Jobs that several callers share.
@Suite(.timeLimit(.minutes(10))) final class JoiningTests: Sendable {
    private let attempts = Mutex(0)

    /// Joins the job; returns after the caller has joined.
    private func sync(_ bus: RetryBus, _ value: Int = 7) -> Task<Int, any Error> {
        Task.immediate { [self] in
            try await bus.retry(joining: "sync") { _ in
                self.attempts.withLock { $0 += 1 }
                return value
            }
        }
    }

    private func callers(of scenario: Scenario, _ count: Int) -> [Task<Int, any Error>] {
        var tasks: [Task<Int, any Error>] = []
        for number in 0..<count {
            tasks.append(sync(scenario.bus, number))
            #expect(scenario.bus.sharers(of: "sync") == number + 1)
        }
        return tasks
    }

    @Test func allCallersGetTheValueOfOneJob() async throws {
        try await Scenario(online: false).run { [self] scenario in
            let tasks = callers(of: scenario, 5)
            _ = try await scenario.bus.untilParked("sync")
            #expect(scenario.bus.pending.count == 1)
            try scenario.network.plug("eth0")
            for task in tasks { #expect(try await task.value == 0) }
            #expect(attempts.withLock(\.self) == 1 && scenario.bus.usage == [0, 0, 0, 0, 0])
            #expect(scenario.bus.sharers(of: "sync") == 0)
        }
    }

    @Test func allCallersGetTheError() async throws {
        try await Scenario(online: false).run { [self] scenario in
            let tasks = callers(of: scenario, 3)
            _ = try await scenario.bus.untilParked("sync")
            scenario.bus.cancel("sync")
            for task in tasks { await #expect(throws: CancellationError.self) { try await task.value } }
        }
    }

    @Test func leavingCallerKeepsTheJobForOthers() async throws {
        try await Scenario(online: false).run { [self] scenario in
            let tasks = callers(of: scenario, 3)
            _ = try await scenario.bus.untilParked("sync")
            for task in tasks.dropLast() {
                task.cancel()
                await #expect(throws: CancellationError.self) { try await task.value }
            }
            try scenario.network.plug("eth0")
            #expect(try await tasks[2].value == 0)
        }
    }

    @Test func jobIsCancelledAfterItsLastCaller() async throws {
        try await Scenario(online: false).run { [self] scenario in
            let tasks = callers(of: scenario, 2)
            _ = try await scenario.bus.untilParked("sync")
            for task in tasks { task.cancel() }
            for task in tasks { await #expect(throws: CancellationError.self) { try await task.value } }
            await scenario.settle()
            #expect(scenario.bus.pending.isEmpty)
            // A later caller gets a separate job.
            let next = sync(scenario.bus, 9)
            try scenario.network.plug("eth0")
            #expect(try await next.value == 9)
            #expect(attempts.withLock(\.self) == 1, "the abandoned job makes none")
        }
    }

    @Test func unsharedNameIsRefused() async throws {
        try await Scenario(online: false).run { [self] scenario in
            let task = await scenario.submit("sync", .scenario, .ok())
            await #expect(throws: RetryError.duplicateID) { try await sync(scenario.bus).value }
            task.cancel()
            await task.value
            let shared = callers(of: scenario, 1)
            _ = try await scenario.bus.untilParked("sync")
            await #expect(throws: RetryError.duplicateID) { try await scenario.bus.retry(options: JobOptions(id: "sync")) { _ in } }
            await #expect(throws: RetryError.duplicateID) { try await scenario.bus.retry(joining: "sync") { _ in "text" } }
            shared[0].cancel()
            _ = await shared[0].result
        }
    }

    @Test func aCancelledCallerJoinsNothing() async throws {
        try await Scenario().run { scenario in
            let task = Task {
                await untilCancelled()
                return try await scenario.bus.retry(joining: "sync") { _ in 1 }
            }
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(scenario.bus.sharers(of: "sync") == 0)
        }
    }
}
