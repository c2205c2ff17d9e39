import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// Jobs that wait for the far end to be validated.
@Suite(.timeLimit(.minutes(10))) struct ValidationScenarioTests {
    /// Answers the next call, and suspends until that is told: conditions have heard of it before.
    private func answer(_ finding: PathValidation, _ validator: ScriptedValidator, _ transitions: AsyncStream<Transition>) async {
        await validator.nextCall()?.answer(finding)
        for await transition in transitions where transition.current.validation == finding { break }
    }

    @Test func aJobWaitsBehindAPortalAndStartsWhenItIsOpen() async throws {
        let validator = ScriptedValidator()
        try await Scenario(validator: validator).run { scenario in
            let condition = scenario.monitor.validatedCondition
            let transitions = scenario.monitor.transitions
            await answer(.captivePortal("http://portal.example/"), validator, transitions)
            await scenario.submit("careful", .scenario, when: [condition], .ok())
            await scenario.submit("careless", .scenario, .ok())
            await scenario.advance(to: .seconds(59))
            #expect(scenario.starts("careful").isEmpty && scenario.starts("careless") == [0])
            #expect(scenario.bus.pending.first?.unmet == ["validated internet"])
            await scenario.advance(to: .seconds(60))
            await answer(.validated, validator, transitions)
            await scenario.advance(to: .seconds(61))
            #expect(scenario.starts("careful") == [60] && scenario.result("careful") == "ok" && validator.callCount == 2)
        }
    }

    @Test func afterAnOutageItWaitsForTheNextValidation() async throws {
        let validator = ScriptedValidator()
        try await Scenario(validator: validator).run { scenario in
            let condition = scenario.monitor.validatedCondition
            let transitions = scenario.monitor.transitions
            await answer(.validated, validator, transitions)
            try await scenario.reconnect(at: .seconds(1))
            await scenario.submit("job", .scenario, when: [condition], .ok())
            await scenario.advance(to: .seconds(3))
            #expect(scenario.starts("job").isEmpty)
            await answer(.validated, validator, transitions)
            await scenario.advance(to: .seconds(4))
            #expect(scenario.starts("job") == [3] && scenario.result("job") == "ok")
        }
    }

    @Test func withoutAValidatorItFailsAtOnce() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario, when: [scenario.monitor.validatedCondition], .ok())
            #expect(scenario.result("job") == "\(RetryError.conditionEnded)" && scenario.starts("job").isEmpty)
        }
    }
}
