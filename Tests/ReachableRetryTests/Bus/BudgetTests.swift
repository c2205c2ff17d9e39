import Glibc
import Reachability
import ReachabilityTesting
import TestSupport
import Testing

@testable import ReachableRetry

/// Budgets that jobs share, on a bus.
@Suite(.timeLimit(.minutes(10))) struct BudgetTests {
    private func left(_ budget: RetryBudget) -> Int64? { (budget.state as? RetryTokenBucket)?.balance }

    @Test func deniedRetryThrowsTheLastError() async throws {
        try await Scenario().run { scenario in
            let reports = Recorder<GiveUp>()
            let events = scenario.bus.events
            let policy = RetryPolicy.scenario.budget(.tokenBucket(capacity: 5))
                .onGiveUp { report in reports.record(report) }
            await scenario.submit("job", policy, .fails(), .fails(Trouble.refused), .ok())
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0, 1.1])
            #expect(scenario.result("job") == "refused" && scenario.ended("job") == 1.2, "no delay follows")
            let report = try #require(reports.value.count == 1 ? reports.value.first : nil)
            #expect(report.reason == .budget && report.attempts == 2 && report.charged == 2)
            #expect(report.lastError as? Trouble == .refused)
            let published = try #require(await events.first { $0.kind == .gaveUp }?.report)
            #expect(published.reason == .budget && published.lastError as? Trouble == .refused)
        }
    }

    @Test func reasonNamesAreStable() {
        #expect(GiveUp.Reason.budget.rawValue == "budget" && RetryError.Code.budget.rawValue == "budget")
        #expect(RetryError.budget.code == .budget && "\(RetryError.budget)".contains("RetryPolicy.budget(_:)"))
    }

    @Test func policiesThatShareABudgetShareItsTokens() async throws {
        try await Scenario().run { scenario in
            let budget = RetryBudget.tokenBucket(capacity: 10)
            await scenario.submit("first", .scenario.budget(budget), .fails())
            await scenario.advance(to: .seconds(10))
            #expect(scenario.result("first") == "other" && scenario.starts("first").count == 3)
            await scenario.submit("second", .scenario.giveUpAfter(maxAttempts: nil).budget(budget), .fails())
            await scenario.submit("own", .scenario.budget(.tokenBucket(capacity: 10)), .fails(), .ok())
            await scenario.submit("none", .scenario.budget(budget).budget(nil), .fails(), .ok())
            await scenario.advance(to: .seconds(60))
            #expect(scenario.result("second") == "other" && scenario.starts("second").count == 1)
            #expect(scenario.result("own") == "ok" && scenario.result("none") == "ok")
        }
    }

    @Test func busesWithDifferentClocksShareABudget() async throws {
        let clock = ManualClock()
        let budget = RetryBudget.percentage(0, minimumPerSecond: 2, window: .seconds(1), clock: clock)
        for outcome in ["ok", "other", "ok"] {
            try await Scenario().run { scenario in
                await scenario.submit("job", .scenario.budget(budget), .fails(), .fails(), .ok())
                await scenario.advance(to: .seconds(60))
                #expect(scenario.result("job") == outcome)
            }
            if outcome == "other" { clock.advance(by: .seconds(1)) }
        }
    }

    @Test func concurrentTasksDoNotOverdrawABudget() async {
        let budget = RetryBudget.standard()
        let granted = await withTaskGroup(of: Int.self) { group in
            for _ in 1...4 { group.addTask { (1...1000).count { _ in budget.takeRetry(afterTimeout: false) != nil } } }
            return await group.reduce(0, +)
        }
        #expect(granted == 100 && left(budget) == 0)
    }

    @Test func outageChangesNoBudget() async throws {
        try await Scenario(release: .immediate).run { scenario in
            let budgets = [
                RetryBudget.standard(), .throttling(),
                .percentage(20, minimumPerSecond: 1, window: .seconds(1), clock: scenario.clock),
            ]
            let before = budgets.map { "\($0.state)" }
            for (number, budget) in budgets.enumerated() {
                // The path is lost during the first attempt; the second fails before the bus receives the event.
                await scenario.submit(
                    "job \(number)", .scenario.budget(budget), .fails(after: .seconds(2)), .fails(Trouble.unreachable),
                    .fails(Trouble.unanswered), .ok(after: .seconds(100)))
            }
            try await scenario.at(.seconds(1)) { try $0.pull("eth0") }
            try await scenario.at(.seconds(10)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(30))
            for number in budgets.indices { #expect(scenario.starts("job \(number)").count == 4) }
            #expect(scenario.bus.pending.allSatisfy { $0.networkFailures == 3 && $0.charged == 0 })
            #expect(budgets.map { "\($0.state)" } == before)
        }
    }

    @Test func emptyBudgetAllowsWaitingForTheNetwork() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario.budget(.tokenBucket(capacity: 0)), .fails(after: .seconds(2)), .ok())
            try await scenario.at(.seconds(1)) { try $0.pull("eth0") }
            try await scenario.at(.seconds(10)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(30))
            #expect(scenario.starts("job") == [0, 10] && scenario.result("job") == "ok")
        }
    }

    @Test func successfulRetryReturnsItsTokens() async throws {
        try await Scenario().run { scenario in
            let budget = RetryBudget.standard()
            await scenario.submit("job", .scenario.budget(budget), .fails(), .fails(), .ok())
            await scenario.advance(to: .seconds(2))
            #expect(left(budget) == 490)
            await scenario.advance(to: .seconds(60))
            #expect(scenario.result("job") == "ok" && left(budget) == 495)
            await scenario.submit("other", .scenario.budget(budget), .ok())
            await scenario.advance(to: .seconds(120))
            #expect(left(budget) == 496)
        }
    }

    @Test func cancelledJobReturnsNoTokens() async throws {
        try await Scenario().run { scenario in
            let budget = RetryBudget.standard()
            await scenario.submit("job", .scenario.budget(budget), .fails(), .ok(after: .seconds(100)))
            await scenario.advance(to: .seconds(2))
            #expect(left(budget) == 495)
            scenario.bus.cancel("job")
            await scenario.settle()
            #expect(scenario.result("job") == "CancellationError()" && left(budget) == 495)
        }
    }

    @Test func retryAfterATimeoutOfThePolicyCostsMore() async throws {
        try await Scenario().run { scenario in
            let budget = RetryBudget.standard()
            let policy = RetryPolicy.scenario.budget(budget)
            await scenario.submit("cut", policy.attemptTimeout(.seconds(1)), .ok(after: .seconds(100)), .ok())
            await scenario.advance(to: .milliseconds(1500))
            #expect(left(budget) == 490)
            await scenario.advance(to: .seconds(10))
            #expect(scenario.result("cut") == "ok" && left(budget) == 500)
            await scenario.submit("silence", policy.errno { _ in ETIMEDOUT }, .fails(), .ok())
            await scenario.advance(to: .milliseconds(10_500))
            #expect(left(budget) == 490)
            await scenario.advance(to: .seconds(20))
            await scenario.submit("no way", policy.errno { _ in EHOSTUNREACH }, .fails(), .ok())
            await scenario.advance(to: .milliseconds(20_500))
            #expect(left(budget) == 495)
        }
    }
}
