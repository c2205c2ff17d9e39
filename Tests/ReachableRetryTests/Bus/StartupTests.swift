import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// Jobs of a monitor without a verdict: before its first one, after its end, or blind.
@Suite(.timeLimit(.minutes(10))) struct StartupTests {
    @Test func jobsStartAtOnceWithoutARunningMonitor() async throws {
        let scenario = Scenario(online: false)
        let policy = RetryPolicy.scenario.giveUpAfter(maxAttempts: 3)
        await scenario.submit("job", policy, .fails(Trouble.unreachable))
        await scenario.advance(to: .seconds(60))
        #expect(scenario.starts("job") == [0, 1.1, 3.2])
        #expect(scenario.result("job") == "unreachable")
    }

    @Test func jobsWaitForTheFirstVerdict() async throws {
        let scenario = Scenario(online: false)
        // The monitor runs, but its first requests fail: it has no verdict yet.
        scenario.network.failNextRequests(1, errno: 12)
        let running = Task { try await scenario.monitor.run() }
        defer { running.cancel() }
        try await scenario.network.untilRunning()
        await scenario.submit("job", .scenario, .ok())
        #expect(scenario.starts("job").isEmpty)
        #expect(scenario.bus.pending.first?.state == .waiting)
        // Then the first verdict is offline.
        await scenario.advance(to: .seconds(1))
        #expect(scenario.monitor.path.status == .unsatisfied)
        await scenario.advance(to: .seconds(10))
        #expect(scenario.starts("job").isEmpty && scenario.bus.nextWakeUp == nil)
        try await scenario.at(.seconds(20)) { try $0.plug("eth0") }
        #expect(scenario.starts("job") == [20])
    }

    @Test func jobsOfABlindMonitorStartAfterTwoSeconds() async throws {
        let scenario = Scenario(online: false)
        scenario.network.failNextRequests(.max, errno: 12)
        let running = Task { try await scenario.monitor.run() }
        defer { running.cancel() }
        try await scenario.network.untilRunning()
        await scenario.submit("job", .scenario, .fails(Trouble.unreachable), .ok())
        await scenario.advance(to: .seconds(30))
        #expect(scenario.starts("job") == [2, 3.1])
    }

    @Test(arguments: [true, false]) func waitForTheFirstVerdictIsNotLimited(online: Bool) async throws {
        let scenario = Scenario(online: online)
        scenario.network.failNextRequests(1, errno: 12)
        let running = Task { try await scenario.monitor.run() }
        defer { running.cancel() }
        try await scenario.network.untilRunning()
        await scenario.submit("none", .scenario.connectivity(.wait(upTo: .zero)), .ok())
        await scenario.submit("short", .scenario.connectivity(.wait(upTo: .milliseconds(10))), .ok())
        await scenario.advance(to: .milliseconds(20))
        #expect(scenario.bus.pending.count == 2, "no verdict says that the network is away")
        await scenario.advance(to: .seconds(10))
        let result = online ? "ok" : "\(RetryError.waitLimit)"
        #expect(scenario.result("none") == result && scenario.result("short") == result)
    }

    @Test func waitingJobsStartWhenTheMonitorEnds() async throws {
        let scenario = Scenario(online: false)
        let running = Task { try await scenario.monitor.run() }
        for await _ in scenario.monitor.transitions { break }
        await scenario.submit("job", .scenario, .fails(Trouble.unreachable), .ok())
        await scenario.advance(to: .seconds(10))
        running.cancel()
        try await running.value
        await scenario.settle()
        await scenario.advance(to: .seconds(30))
        #expect(scenario.starts("job") == [10, 11.1])
    }

    @Test func firstVerdictIsNoReconnect() async throws {
        let scenario = Scenario(online: true)
        await scenario.submit("job", .scenario.giveUpAfter(maxAttempts: 1), .fails(after: .seconds(1)))
        let running = Task { try await scenario.monitor.run() }
        defer { running.cancel() }
        for await _ in scenario.monitor.transitions { break }
        await scenario.advance(to: .seconds(10))
        #expect(scenario.starts("job") == [0], "the failure is charged: nothing happened to the path")
        #expect(scenario.result("job") == "other")
    }

    @Test func firstVerdictOfAScopeIsNoReconnect() async throws {
        try await Scenario().run { scenario in
            let address = try #require(IPAddress("203.0.113.7"))
            await scenario.submit("job", .scenario, to: .address(address), .fails(), .fails(), .ok())
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0, 1.1, 3.2])
        }
    }
}
