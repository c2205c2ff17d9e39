import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// Jobs that are paused, and changed while they wait.
@Suite(.timeLimit(.minutes(10))) struct PausingTests {
    @Test func aPausedJobWaitsUntilItIsResumed() async throws {
        try await Scenario(online: false).run { scenario in
            await scenario.submit("job", .scenario, .ok())
            scenario.bus.pause("job")
            scenario.bus.pause("job")
            scenario.bus.pause("missing")
            try await scenario.at(.seconds(5)) { try $0.plug("eth0") }
            #expect(scenario.bus.pending.map(\.state) == [.paused] && scenario.bus.nextWakeUp == nil)
            await scenario.advance(to: .seconds(9))
            scenario.bus.resume("job")
            await scenario.settle()
            await scenario.advance(to: .seconds(20))
            #expect(scenario.starts("job") == [9] && scenario.result("job") == "ok")
        }
    }

    @Test func pauseAffectsOnlyTheNextAttempt() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario, .fails(), .ok())
            scenario.bus.pause("job")
            #expect(scenario.bus.pending.first?.state == .running)
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0] && scenario.bus.pending.first?.state == .paused)
            scenario.bus.resume("job")
            await scenario.settle()
            await scenario.advance(to: .seconds(61))
            #expect(scenario.starts("job") == [0, 60], "its delay has passed meanwhile")
        }
    }

    @Test func deadlineAppliesToAPausedJob() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario.giveUpAfter(elapsed: .seconds(3)), .fails(after: .milliseconds(500)))
            scenario.bus.pause("job")
            await scenario.advance(to: .seconds(10))
            #expect(scenario.ended("job") == 3 && scenario.result("job") == "other")
        }
    }

    @Test func aPausedJobCanBeCancelled() async throws {
        try await Scenario().run { scenario in
            let task = await scenario.submit("job", .scenario, .fails())
            scenario.bus.pause("job")
            await scenario.advance(to: .seconds(1))
            scenario.bus.cancel("job")
            await task.value
            #expect(scenario.result("job") == "CancellationError()" && scenario.bus.usage == [0, 0, 0, 0, 0])
        }
    }

    @Test func newConditionsApplyAtOnce() async throws {
        try await Scenario().run { scenario in
            let login = ConditionSource("login", isSatisfied: false)
            let night = ConditionSource("night", isSatisfied: true)
            await scenario.submit("job", .scenario, when: [login.condition], .ok())
            #expect(scenario.bus.pending.first?.unmet == ["login"])
            await scenario.advance(to: .seconds(2))
            scenario.bus.setConditions([night.condition], of: "job")
            scenario.bus.setConditions([login.condition], of: "missing")
            await scenario.settle()
            await scenario.advance(to: .seconds(3))
            #expect(scenario.starts("job") == [2] && scenario.result("job") == "ok")
            #expect(login.condition.storage.listenerCount == 0, "an unused condition is not observed")
        }
    }

    @Test func aConditionMayBeAddedWhileTheJobBacksOff() async throws {
        try await Scenario().run { scenario in
            let login = ConditionSource("login", isSatisfied: false)
            await scenario.submit("job", .scenario, .fails(), .ok())
            await scenario.advance(to: .milliseconds(500))
            scenario.bus.setConditions([login.condition], of: "job")
            await scenario.advance(to: .seconds(10))
            #expect(scenario.starts("job") == [0] && scenario.bus.pending.first?.unmet == ["login"])
            login.set(true)
            await scenario.settle()
            await scenario.advance(to: .seconds(11))
            #expect(scenario.starts("job") == [0, 10])
        }
    }
}
