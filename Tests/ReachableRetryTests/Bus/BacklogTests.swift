import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// Many jobs that something has held: they pass the gate in steps, whatever it was.
@Suite(.timeLimit(.minutes(10))) struct BacklogTests {
    private static let count = 200
    private static let names = (0..<count).map { "\($0)" }

    /// Submits jobs that take 100 ms.
    private func submit(_ scenario: Scenario, when conditions: [Condition] = []) async {
        for name in Self.names { await scenario.submit(name, .scenario, when: conditions, .ok()) }
    }

    /// The number of running attempts.
    private func running(_ scenario: Scenario) -> Int { scenario.bus.pending.count { $0.state == .running } }

    /// Checks that the jobs start in steps, the first of them now.
    private func expectSteps(_ scenario: Scenario, _ steps: [Int]) async {
        await scenario.settle()
        var running = [running(scenario)]
        while running.count < steps.count {
            await scenario.world.clock.advance(by: .milliseconds(100))
            running.append(self.running(scenario))
        }
        #expect(running == steps)
        await scenario.world.clock.advance(by: .seconds(60))
        #expect(Self.names.allSatisfy { scenario.result($0) == "ok" && scenario.starts($0).count == 1 })
    }

    private func steps(isProven: Bool) -> [Int] { isProven ? [2, 4, 8, 16, 16] : [1, 2, 4, 8, 16, 16] }

    @Test(arguments: [false, true]) func aConditionLetsJobsGoInSteps(isProven: Bool) async throws {
        try await Scenario().run { scenario in
            if isProven { await scenario.submit("first", .scenario, .ok()) }
            await scenario.advance(to: .seconds(60))
            let login = ConditionSource("login", isSatisfied: false)
            await submit(scenario, when: [login.condition])
            await scenario.advance(to: .seconds(120))
            login.set(true)
            await expectSteps(scenario, steps(isProven: isProven))
        }
    }

    @Test func resumedJobsStartInSteps() async throws {
        try await Scenario().run { scenario in
            let login = ConditionSource("login", isSatisfied: false)
            await scenario.submit("first", .scenario, .ok())
            await submit(scenario, when: [login.condition])
            for name in Self.names { scenario.bus.pause(JobID(name)) }
            login.set(true)
            await scenario.advance(to: .seconds(60))
            for name in Self.names { scenario.bus.resume(JobID(name)) }
            await expectSteps(scenario, steps(isProven: true))
        }
    }

    @Test func jobsWithNewConditionsStartInSteps() async throws {
        try await Scenario().run { scenario in
            let login = ConditionSource("login", isSatisfied: false)
            await scenario.submit("first", .scenario, .ok())
            await submit(scenario, when: [login.condition])
            await scenario.advance(to: .seconds(60))
            for name in Self.names { scenario.bus.setConditions([], of: JobID(name)) }
            await expectSteps(scenario, steps(isProven: true))
        }
    }

    @Test func jobsThatAreRetriedNowStartInSteps() async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.backoff(.constant(.seconds(3600)))
            for name in Self.names { await scenario.submit(name, policy, .fails(), .ok()) }
            await scenario.submit("first", .scenario, .ok())
            await scenario.advance(to: .seconds(60))
            scenario.bus.retryNow()
            await scenario.settle()
            #expect(running(scenario) == 2)
            await scenario.advance(to: .seconds(120))
            #expect(Self.names.allSatisfy { scenario.result($0) == "ok" })
        }
    }

    @Test func theFirstVerdictLetsOneJobGo() async throws {
        let scenario = Scenario()
        scenario.network.failNextRequests(1, errno: 12)
        let monitor = Task { try await scenario.monitor.run() }
        defer { monitor.cancel() }
        try await scenario.network.untilRunning()
        await submit(scenario)
        #expect(running(scenario) == 0)
        while running(scenario) == 0, let next = scenario.clock.nextDeadline { await scenario.world.clock.advance(to: next) }
        await expectSteps(scenario, steps(isProven: false))
    }

    /// Nothing held them.
    @Test func submittedJobsStartAtOnce() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("first", .scenario, .ok())
            await scenario.advance(to: .seconds(60))
            await submit(scenario)
            #expect(running(scenario) == Self.count)
        }
    }

    /// A job that is let go alone changes nothing for others.
    @Test func aSingleJobKeepsTheGateOpen() async throws {
        try await Scenario().run { scenario in
            let login = ConditionSource("login", isSatisfied: false)
            await scenario.submit("held", .scenario, when: [login.condition], .ok())
            login.set(true)
            await scenario.settle()
            await submit(scenario)
            #expect(running(scenario) == Self.count + 1)
        }
    }
}
