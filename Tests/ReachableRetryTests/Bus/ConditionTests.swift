import Foundation
import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// Jobs with conditions besides the network.
@Suite(.timeLimit(.minutes(10))) struct RetryConditionTests {
    @Test func allConditionsMustBeMet() async throws {
        try await Scenario(online: false).run { scenario in
            let (login, power) = (ConditionSource("login", isSatisfied: false), ConditionSource("power", isSatisfied: false))
            await scenario.submit("job", .scenario, when: [login.condition, power.condition], .ok())
            #expect(scenario.bus.pending.first?.unmet == ["internet", "login", "power"])
            try await scenario.at(.seconds(1)) { try $0.plug("eth0") }
            #expect(scenario.bus.pending.first?.unmet == ["login", "power"])
            try await scenario.at(.seconds(2)) { _ in power.set(true) }
            #expect(scenario.bus.pending.first?.unmet == ["login"])
            try await scenario.at(.seconds(3)) { _ in login.set(true) }
            #expect(scenario.starts("job") == [3])
        }
    }

    @Test func anEdgeOfAConditionEndsABackoff() async throws {
        try await Scenario().run { scenario in
            let login = ConditionSource("login", isSatisfied: true)
            let policy = RetryPolicy.scenario.backoff(.constant(.seconds(60)))
            await scenario.submit("job", policy, when: [login.condition], .fails(), .ok())
            try await scenario.at(.seconds(5)) { _ in login.advanceEpoch() }
            #expect(scenario.starts("job") == [0, 5])
            #expect(scenario.bus.pending.first?.charged == 1, "the failure was no outage's")
        }
    }

    @Test func aConditionThatEndsSatisfiedStaysSatisfied() async throws {
        try await Scenario().run { scenario in
            let login = ConditionSource("login", isSatisfied: false)
            await scenario.submit("job", .scenario, when: [login.condition], .fails(), .ok())
            login.set(true)
            login.finish()
            await scenario.settle()
            await scenario.advance(to: .seconds(10))
            #expect(scenario.starts("job") == [0, 1.1] && scenario.result("job") == "ok")
        }
    }

    @Test func aConditionThatEndsUnsatisfiedEndsItsJobs() async throws {
        try await Scenario(online: false).run { scenario in
            let (login, power) = (ConditionSource("login", isSatisfied: false), ConditionSource("power", isSatisfied: true))
            await scenario.submit("waits for the network first", .scenario, when: [login.condition], .ok())
            await scenario.submit("has no such condition", .scenario, when: [power.condition], .ok())
            try await scenario.at(.seconds(1)) { _ in login.finish() }
            #expect(scenario.result("waits for the network first") == "\(RetryError.conditionEnded)")
            #expect(scenario.ended("waits for the network first") == 1)
            #expect(scenario.bus.pending.map(\.id) == ["has no such condition"])
        }
    }

    @Test func aReleasedSourceEndsItsJobs() async throws {
        try await Scenario().run { scenario in
            func condition(_ name: String, isSatisfied: Bool) -> Condition {
                ConditionSource(name, isSatisfied: isSatisfied).condition
            }
            await scenario.submit("lost", .scenario, when: [condition("login", isSatisfied: false)], .ok())
            await scenario.submit("met", .scenario, when: [condition("power", isSatisfied: true)], .ok())
            await scenario.advance(to: .seconds(1))
            #expect(scenario.result("lost") == "\(RetryError.conditionEnded)" && scenario.result("met") == "ok")
        }
    }

    @Test func jobsShareConditionsAndReleaseThem() async throws {
        try await Scenario(online: false).run { scenario in
            let login = ConditionSource("login", isSatisfied: true)
            let internet = scenario.monitor.condition(for: .internet)
            await scenario.submit("a", .scenario, when: [login.condition], .ok())
            await scenario.submit("b", .scenario, when: [login.condition, internet], .ok())
            #expect(login.condition.storage.listenerCount == 1)
            try await scenario.at(.seconds(1)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(2))
            #expect(scenario.result("a") == "ok" && scenario.result("b") == "ok")
            #expect(login.condition.storage.listenerCount == 0)
        }
    }

    @Test func acceleratedJobsStartOfflineAndAtTheReconnect() async throws {
        try await Scenario(online: false).run { scenario in
            let policy = RetryPolicy.scenario.connectivity(.accelerate)
            await scenario.submit("job", policy, .fails(Trouble.unreachable), .fails(Trouble.unreachable), .ok())
            try await scenario.at(.seconds(2)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0, 1.1, 2])
        }
    }

    @Test func failuresOfAcceleratedJobsAreCharged() async throws {
        try await Scenario(online: false).run { scenario in
            await scenario.submit("job", .scenario.connectivity(.accelerate), .fails(Trouble.unreachable))
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0, 1.1, 3.2, 7.3] && scenario.result("job") == "unreachable")
        }
    }

    @Test func jobsThatIgnoreTheNetworkOnlyBackOff() async throws {
        try await Scenario(online: false).run { scenario in
            let policy = RetryPolicy.scenario.connectivity(.ignore)
            await scenario.submit("job", policy, .fails(Trouble.unreachable), .fails(Trouble.unreachable), .ok())
            try await scenario.at(.milliseconds(500)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0, 1.1, 3.2])
        }
    }

    @Test func retryNowEndsBackoffsButNotServerDelays() async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.backoff(.constant(.seconds(60)))
            await scenario.submit("soft", policy, .fails(), .ok())
            await scenario.submit("hard", policy, .fails(Trouble.busy(retryAfter: .seconds(30))), .ok())
            try await scenario.at(.seconds(5)) { _ in scenario.bus.retryNow() }
            #expect(scenario.starts("soft") == [0, 5])
            #expect(scenario.starts("hard") == [0])
            await scenario.advance(to: .seconds(100))
            #expect(scenario.starts("hard") == [0, 30.1], "the order is respected, and the soft delay gone")
        }
    }

    @Test func insistingRetryNowOverridesServerDelays() async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.backoff(.constant(.seconds(60)))
            await scenario.submit("one", policy, .fails(Trouble.busy(retryAfter: .seconds(30))), .ok())
            try await scenario.at(.seconds(5)) { _ in scenario.bus.retryNow(ignoringServerDelays: true) }
            #expect(scenario.starts("one") == [0, 5])
        }
    }

    @Test func insistingRetryNowReleasesADelayedDestination() async throws {
        try await Scenario().run { scenario in
            let bus = scenario.bus
            let policy = RetryPolicy.scenario.giveUpAfter(maxAttempts: 1)
            await #expect(throws: Trouble.self) {
                try await bus.retry(policy, options: JobOptions(destination: "server")) { _ in
                    throw Trouble.busy(retryAfter: .seconds(30))
                }
            }
            // The delay outlasts its job.
            let next = Task { try await bus.retry(policy, options: JobOptions(destination: "server", id: "next")) { _ in } }
            #expect(try await bus.parked("next").state == .queued)
            bus.retryNow()
            #expect(bus.pending.map(\.state).contains(.queued))
            bus.retryNow(ignoringServerDelays: true)
            try await next.value
        }
    }

    @Test func retryNowOfAnotherScopeEndsNothing() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario.backoff(.constant(.seconds(60))), .fails(), .ok())
            try await scenario.at(.seconds(5)) { _ in scenario.bus.retryNow(.address(IPAddress(family: .ipv4, value: 7))) }
            #expect(scenario.starts("job") == [0])
            try await scenario.at(.seconds(6)) { _ in scenario.bus.retryNow(.internet) }
            #expect(scenario.starts("job") == [0, 6])
        }
    }

    /// Blocks a thread in the delivery of a change, so that later changes wait for their delivery.
    private func whileTelling(of login: ConditionSource, _ body: () async -> Void) async {
        let (isTelling, mayGoOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let observer = login.condition.storage.observe {
            isTelling.signal()
            mayGoOn.wait()
        }
        Thread { login.advanceEpoch() }.start()
        isTelling.wait()
        await body()
        login.condition.storage.removeObserver(observer)
        for _ in 1...2 { mayGoOn.signal() }
    }

    /// A condition's change counts from the change, not from its delivery.
    @Test func parkingSeesAChangeBeforeItsEvent() async throws {
        try await Scenario().run { scenario in
            let login = ConditionSource("login", isSatisfied: true)
            await whileTelling(of: login) {
                let policy = RetryPolicy.scenario.backoff(
                    .custom { _ in
                        login.advanceEpoch()
                        return .seconds(60)
                    })
                await scenario.submit("job", policy, when: [login.condition], .fails(), .ok())
                await scenario.advance(to: .milliseconds(150))
                #expect(scenario.starts("job") == [0, 0.1])
            }
        }
    }

    /// A job submitted during the delivery of a loss must not start on the earlier state.
    @Test func submittingSeesALossBeforeItsEvent() async throws {
        try await Scenario().run { scenario in
            let login = ConditionSource("login", isSatisfied: true)
            // The bus follows the condition already.
            await scenario.submit("first", .scenario, when: [login.condition], .ok(after: .seconds(60)))
            await whileTelling(of: login) {
                login.set(false)
                await scenario.submit("second", .scenario, when: [login.condition], .ok())
                #expect(scenario.starts("second") == [] && scenario.bus.pending.last?.unmet == ["login"])
            }
        }
    }

    @Test func retryNowDuringAnAttemptEndsTheDelayAfterIt() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario.backoff(.constant(.seconds(60))), .fails(after: .seconds(2)), .ok())
            try await scenario.at(.seconds(1)) { _ in scenario.bus.retryNow() }
            await scenario.advance(to: .seconds(10))
            #expect(scenario.starts("job") == [0, 2] && scenario.result("job") == "ok")
        }
    }
}
