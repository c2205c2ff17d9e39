import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// Jobs that wait for a validated path.
@Suite(.timeLimit(.minutes(10))) struct ValidationScenarioTests {
    /// Answers the next call and settles.
    private func answer(
        _ finding: PathValidation, _ scenario: Scenario, _ validator: ScriptedValidator, _ transitions: AsyncStream<Transition>
    ) async {
        await validator.nextCall()?.answer(finding)
        // Conditions change before streams deliver.
        for await transition in transitions where transition.current.validation == finding { break }
        await scenario.settle()
    }

    @Test func jobWaitsUntilThePortalIsOpen() async throws {
        let validator = ScriptedValidator()
        try await Scenario(validator: validator).run { scenario in
            let condition = scenario.monitor.validatedCondition
            let transitions = scenario.monitor.transitions
            await answer(.captivePortal("http://portal.example/"), scenario, validator, transitions)
            await scenario.submit("careful", .scenario, when: [condition], .ok())
            await scenario.submit("careless", .scenario, .ok())
            await scenario.advance(to: .milliseconds(999))
            #expect(scenario.starts("careful").isEmpty && scenario.starts("careless") == [0])
            let waiting = try #require(scenario.bus.pending.first)
            #expect(waiting.unmet == ["validated internet"] && waiting.reason == "waits for condition 'validated internet'")
            await scenario.advance(to: .seconds(1))
            await answer(.captivePortal(nil), scenario, validator, transitions)
            await scenario.advance(to: .seconds(3))
            #expect(scenario.starts("careful").isEmpty)
            await answer(.validated, scenario, validator, transitions)
            await scenario.advance(to: .seconds(4))
            #expect(scenario.starts("careful") == [3] && scenario.result("careful") == "ok" && validator.callCount == 3)
        }
    }

    /// The last allowed attempt starts after the portal: waiting behind it is not charged.
    @Test func portalChargesNothing() async throws {
        let validator = ScriptedValidator()
        try await Scenario(validator: validator).run { scenario in
            let transitions = scenario.monitor.transitions
            let policy = RetryPolicy.scenario.giveUpAfter(maxAttempts: 2)
            await scenario.submit("job", policy, when: [scenario.monitor.validatedCondition], .fails(), .ok())
            await answer(.validated, scenario, validator, transitions)
            await scenario.advance(to: .milliseconds(500))
            #expect(scenario.starts("job") == [0] && scenario.bus.pending.first?.state == .backingOff)
            try await scenario.reconnect(at: .milliseconds(600))
            await scenario.advance(to: .seconds(1))
            await answer(.captivePortal(nil), scenario, validator, transitions)
            await scenario.advance(to: .milliseconds(1999))
            #expect(scenario.starts("job") == [0])
            await scenario.advance(to: .seconds(2))
            await answer(.validated, scenario, validator, transitions)
            await scenario.advance(to: .seconds(3))
            #expect(scenario.starts("job") == [0, 2] && scenario.result("job") == "ok")
        }
    }

    @Test func jobWaitsForAValidationAfterAnOutage() async throws {
        let validator = ScriptedValidator()
        try await Scenario(validator: validator).run { scenario in
            let condition = scenario.monitor.validatedCondition
            let transitions = scenario.monitor.transitions
            await answer(.validated, scenario, validator, transitions)
            try await scenario.reconnect(at: .seconds(1))
            await scenario.submit("job", .scenario, when: [condition], .ok())
            await scenario.advance(to: .seconds(3))
            #expect(scenario.starts("job").isEmpty)
            await answer(.validated, scenario, validator, transitions)
            await scenario.advance(to: .seconds(4))
            #expect(scenario.starts("job") == [3] && scenario.result("job") == "ok")
        }
    }

    @Test func jobWithoutAValidatorFailsAtOnce() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario, when: [scenario.monitor.validatedCondition], .ok())
            #expect(scenario.result("job") == "\(RetryError.conditionEnded)" && scenario.starts("job").isEmpty)
        }
    }
}
