import ReachabilityTesting
import ReachableRetry
import Testing

/// Jobs that an attempt submits to its own bus.
@Suite(.timeLimit(.minutes(10))) struct NestedJobTests {
    @Test func anAttemptMayWaitForItsOwnBus() async throws {
        try await Scenario(maxConcurrent: 1).run { scenario in
            let bus = scenario.bus
            let outer = scenario.start {
                try await bus.retry(.scenario, options: JobOptions(destination: "nas")) { _ in
                    let first = try await bus.retry(.scenario, options: JobOptions(destination: "nas")) { attempt in
                        if attempt.number == 1 { throw Trouble.refused }
                        return 40
                    }
                    return try await first + bus.job(.scenario, options: JobOptions(destination: "nas")) { _ in 2 }.value
                }
            }
            await scenario.letPass(until: outer)
            let value = try await outer.value
            #expect(value == 42)
        }
    }

    @Test func aJobOfAnotherBusIsNotNested() async throws {
        try await Scenario(maxConcurrent: 1).run { scenario in
            var configuration = RetryBus.Configuration()
            configuration.maxConcurrent = 1
            let other = RetryBus(scenario.monitor, configuration: configuration, clock: scenario.clock)
            let (gate, isDone) = (Gate(), Gate())
            let busy = scenario.start {
                try await other.retry(.scenario) { _ in await gate.pass() }
            }
            await gate.untilReached()
            let outer = scenario.start {
                try await scenario.bus.retry(.scenario) { _ in
                    try await other.retry(.scenario, options: JobOptions(id: "inner")) { _ in }
                    await isDone.pass()
                }
            }
            #expect(try await other.parked("inner").state == .queued)
            gate.open()
            await isDone.untilReached()
            isDone.open()
            try await busy.value
            try await outer.value
        }
    }

    @Test func nestedJobIsQueuedAfterItsAttempt() async throws {
        try await Scenario(online: false, maxConcurrent: 1).run { scenario in
            let bus = scenario.bus
            let policy = RetryPolicy.scenario.connectivity(.ignore)
            try await bus.retry(policy) { _ in
                _ = scenario.start { try await bus.retry(.scenario, options: JobOptions(id: "left over")) { _ in } }
                _ = try await bus.parked("left over")
            }
            let gate = Gate()
            let first = scenario.start { try await bus.retry(policy, options: JobOptions(id: "first")) { _ in await gate.pass() } }
            await gate.untilReached()
            try scenario.network.plug("eth0")
            await scenario.settle()
            #expect(bus.pending.first { $0.id == "left over" }?.state == .queued)
            gate.open()
            try await first.value
            await scenario.settle()
            #expect(bus.pending.isEmpty)
        }
    }
}
