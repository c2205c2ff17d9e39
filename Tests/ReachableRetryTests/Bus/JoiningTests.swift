import Reachability
import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

/// Jobs that several callers share.
@Suite(.timeLimit(.minutes(10))) final class JoiningTests: Sendable {
    private let attempts = Counter()

    /// Joins the job; returns after the caller has joined.
    private func sync(_ bus: RetryBus, _ value: Int = 7) -> Task<Int, any Error> {
        Task.immediate { [self] in
            try await bus.retry(joining: "sync") { _ in
                self.attempts.add()
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
            for task in tasks { try await #expect(task.value == 0) }
            #expect(attempts.value == 1 && scenario.bus.usage == [0, 0, 0, 0, 0])
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
            try await #expect(tasks[2].value == 0)
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
            try await #expect(next.value == 9)
            #expect(attempts.value == 1, "the abandoned job makes none")
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

    @Test(arguments: [true, false]) func attemptsThatJoinAQueuedJobLendItAPlace(oneDestination: Bool) async throws {
        try await Scenario(release: .immediate, maxConcurrent: oneDestination ? 1 : 2).run { scenario in
            let bus = scenario.bus
            let options = JobOptions(destination: oneDestination ? "api" : nil)
            let tasks = (0..<4).map { _ in
                scenario.start {
                    try await bus.retry(.scenario, options: options) { _ in
                        try await bus.retry(.scenario, options: options, joining: "token") { _ in
                            try await scenario.clock.sleep(for: .seconds(1))
                            return 7
                        }
                    }
                }
            }
            for task in tasks {
                await scenario.letPass(until: task)
                try await #expect(task.value == 7)
            }
            await scenario.settle()
            #expect(bus.usage == [0, 0, 0, 0, 0])
        }
    }

    @Test(arguments: [true, false]) func operationCannotJoinItsOwnJob(isNested: Bool) async throws {
        try await Scenario().run { scenario in
            let bus = scenario.bus
            await #expect(throws: RetryError.duplicateID) {
                try await bus.retry(.scenario.giveUpAfter(maxAttempts: 1), joining: "token") { _ in
                    guard isNested else { return try await bus.retry(joining: "token") { _ in 1 } }
                    return try await bus.retry(.scenario.giveUpAfter(maxAttempts: 1)) { _ in
                        try await bus.retry(joining: "token") { _ in 1 }
                    }
                }
            }
            #expect(bus.usage == [0, 0, 0, 0, 0])
        }
    }

    /// Each job of a ring joins the next one, which callers from elsewhere have created.
    @Test(arguments: 2...4) func aRingOfJoinedJobsIsRefused(length: Int) async throws {
        try await Scenario().run { scenario in
            let bus = scenario.bus
            let policy = RetryPolicy.scenario.giveUpAfter(maxAttempts: 1)
            @Sendable func join(_ number: Int) async throws -> Int {
                try await bus.retry(policy, joining: JobID("\(number)")) { _ in
                    try await scenario.clock.sleep(for: .seconds(1))
                    return try await join((number + 1) % length)
                }
            }
            let tasks = (0..<length).map { number in scenario.start { try await join(number) } }
            await scenario.world.clock.advance(by: .seconds(10))
            for task in tasks { await #expect(throws: RetryError.duplicateID) { try await task.value } }
            #expect(bus.usage == [0, 0, 0, 0, 0])
        }
    }

    @Test func aSubmittedJobMayJoinItsSubmittersJob() async throws {
        try await Scenario(maxConcurrent: 1).run { scenario in
            let bus = scenario.bus
            let results = Recorder<Int>()
            let task = scenario.start {
                try await bus.retry(joining: "first") { _ in
                    try bus.job { _ in
                        let result = try await bus.retry(joining: "first") { _ in 2 }
                        results.record(result)
                    }.submit()
                    try await scenario.clock.sleep(for: .seconds(1))
                    return 1
                }
            }
            await scenario.letPass(until: task)
            await scenario.settle()
            // Its own attempt had to wait for a place, and so came after the first one's end.
            try await #expect(task.value == 1 && results.value == [2])
        }
    }

    @Test func aCallerThatLeftClosesNoRing() async throws {
        try await Scenario().run { scenario in
            let bus = scenario.bus
            let other = scenario.start {
                try await bus.retry(joining: "b") { _ in try await scenario.clock.sleep(for: .seconds(9)) }
            }
            let task = scenario.start {
                try await bus.retry(joining: "a") { _ in
                    let joiner = scenario.start { try await bus.retry(joining: "b") { _ in } }
                    await scenario.settle()
                    joiner.cancel()
                    _ = await joiner.result
                    try await scenario.clock.sleep(for: .seconds(1))
                }
            }
            await scenario.settle()
            #expect(bus.sharers(of: "b") == 1)
            await scenario.letPass(until: task)
            try await task.value
            await scenario.letPass(until: other)
            try await other.value
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
