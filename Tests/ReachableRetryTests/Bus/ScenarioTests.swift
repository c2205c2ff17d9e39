import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// One job on a cable, in virtual time: 1, 2, 4 seconds between attempts, four of them charged at most, .1 seconds each.
@Suite(.timeLimit(.minutes(1))) struct ScenarioTests {
    @Test func s1ItBacksOffWhileOnline() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario, .fails(), .fails(), .ok())
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0, 1.1, 3.2])
            #expect(scenario.result("job") == "ok")
        }
    }

    @Test func s2ItWaitsForTheNetworkAndIsChargedNothing() async throws {
        try await Scenario(online: false).run { scenario in
            await scenario.submit("job", .scenario.giveUpAfter(maxAttempts: 1), .ok())
            #expect(scenario.bus.pending.first?.unmet == ["internet"])
            #expect(scenario.clock.nextDeadline == nil)
            try await scenario.at(.seconds(10)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [10])
            #expect(scenario.result("job") == "ok")
        }
    }
}
