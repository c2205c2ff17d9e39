import Reachability
import ReachabilityTesting
import Testing

@testable import ReachableRetry

/// Jobs that restart after each success.
@Suite(.timeLimit(.minutes(10))) struct RepeatingJobTests {
    /// The first life begins at once, each later one an interval after a success.
    @Test func theIntervalCountsFromTheSuccess() async throws {
        try await Scenario().run { scenario in
            let script = Script(scenario, failures: [Trouble.other])
            let job = script.job(scenario.bus).repeating(every: .seconds(10))
            let reader = scenario.start { () throws -> [String] in
                var texts: [String] = []
                for await event in job.events.prefix(12) { texts.append(event.text) }
                return texts
            }
            await scenario.letPass(until: reader)
            #expect(script.calls == [0, 1, 11, 21])
            try await #expect(
                reader.value == [
                    "start 1", "failed other true", "backing off 1.0", "start 2", "attempt 2", "succeeded 2", "start 1",
                    "attempt 3", "succeeded 3", "start 1", "attempt 4", "succeeded 4",
                ])
            #expect(scenario.bus.usage == [0, 0, 0, 0, 0])
        }
    }

    @Test func eachLifeHasAllAttemptsUntilOneGivesUp() async throws {
        try await Scenario().run { scenario in
            let script = Script(scenario, failures: [Trouble.other, Trouble.other])
            let policy = RetryPolicy.scenario.giveUpAfter(maxAttempts: 3).giveUpAfter(elapsed: .seconds(8))
            let job = scenario.bus.job(policy) { _ in
                let number = try script.call()
                if number == 4 { throw Trouble.refused }
                return number
            }.repeating(every: .seconds(10))
            let operation = job.definition.makeOperation()
            let fatal = scenario.bus.job(policy.giveUpOnErrors { $0 as? Trouble == .refused }, operation: operation)
                .repeating(every: .seconds(10))
            let task = scenario.start { try await fatal.run() }
            await scenario.letPass(until: task)
            await #expect(throws: Trouble.refused) { try await task.value }
            // More than 8 s after the first life began: the second had its own deadline.
            #expect(script.calls == [0, 1, 3, 13])
        }
    }

    @Test func reconnectAndRetryNowKeepTheInterval() async throws {
        try await Scenario().run { scenario in
            let script = Script(scenario)
            let job = script.job(scenario.bus, id: "job").repeating(every: .seconds(10))
            let task = scenario.start { try await job.run() }
            _ = try await scenario.bus.untilParked("job")
            scenario.clock.advance(by: .seconds(2))
            try scenario.network.pull("eth0")
            try scenario.network.plug("eth0")
            scenario.bus.retryNow()
            #expect(scenario.bus.pending.first?.hardDelay == .seconds(8))
            try scenario.network.pull("eth0")
            scenario.clock.advance(by: .seconds(20))
            #expect(script.calls == [0])
            try scenario.network.plug("eth0")
            await scenario.settle()
            #expect(script.calls == [0, 22])
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(scenario.bus.usage == [0, 0, 0, 0, 0])
        }
    }
}
