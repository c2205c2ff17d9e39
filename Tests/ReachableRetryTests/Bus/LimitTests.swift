import Reachability
import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

/// The limits of jobs and attempts.
@Suite(.timeLimit(.minutes(10))) struct LimitTests {
    @Test func theDeadlineEndsABackoffWithTheOperationsError() async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.backoff(.constant(.seconds(60))).giveUpAfter(elapsed: .seconds(5))
            await scenario.submit("job", policy, .fails())
            await scenario.advance(to: .seconds(100))
            #expect(scenario.starts("job") == [0] && scenario.ended("job") == 5)
            #expect(scenario.result("job") == "other")
        }
    }

    @Test func theDeadlineCancelsARunningAttemptAndAwaitsIt() async throws {
        try await Scenario().run { scenario in
            let reports = Recorder<GiveUp>()
            let policy = RetryPolicy.scenario.giveUpAfter(elapsed: .seconds(5)).onGiveUp { report in
                reports.record(report)
            }
            await scenario.submit("job", policy, .fails(), .ok(after: .seconds(100)))
            await scenario.advance(to: .seconds(100))
            #expect(scenario.starts("job") == [0, 1.1] && scenario.ended("job") == 5)
            #expect(scenario.result("job") == "\(RetryError.deadline)")
            let report = try #require(reports.value.count == 1 ? reports.value.first : nil)
            #expect(report.reason == .deadline && report.attempts == 2 && report.elapsed == .seconds(5) && report.waited == .zero)
        }
    }

    @Test func deadlineIsTheReasonDespiteRetryOnErrors() async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.giveUpAfter(elapsed: .seconds(5)).retryOnErrors { $0 is Trouble }
            await scenario.submit("job", policy, .ok(after: .seconds(100)))
            await scenario.advance(to: .seconds(100))
            #expect(scenario.ended("job") == 5 && scenario.result("job") == "\(RetryError.deadline)")
        }
    }

    @Test func serverDelayBeyondTheDeadlineEndsTheJob() async throws {
        try await Scenario().run { scenario in
            let busy = Act.fails(Trouble.busy(retryAfter: .seconds(30)))
            await scenario.submit("job", .scenario.giveUpAfter(elapsed: .seconds(30)), busy)
            await scenario.advance(to: .seconds(100))
            #expect(scenario.ended("job") == 0.1)
            #expect(scenario.result("job") == "\(Trouble.busy(retryAfter: .seconds(30)))")
        }
    }

    @Test func attemptOverItsTimeLimitIsCancelledAndCharged() async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.attemptTimeout(.seconds(2)).giveUpAfter(maxAttempts: 2)
            await scenario.submit("job", policy, .ok(after: .seconds(100)))
            await scenario.advance(to: .seconds(100))
            #expect(scenario.starts("job") == [0, 3] && scenario.ended("job") == 5)
            #expect(scenario.result("job") == "\(RetryError.attemptTimedOut)")
        }
    }

    @Test func timeLimitDoesNotRunDuringAWait() async throws {
        try await Scenario(online: false).run { scenario in
            await scenario.submit("job", .scenario.attemptTimeout(.seconds(2)), .ok(after: .seconds(1)))
            try await scenario.at(.seconds(60)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(100))
            #expect(scenario.starts("job") == [60] && scenario.result("job") == "ok")
        }
    }

    @Test func waitOverItsLimitEndsTheJob() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario.connectivity(.wait(upTo: .seconds(10))), .fails(), .fails(), .ok())
            try await scenario.at(.milliseconds(500)) { try $0.pull("eth0") }
            // Each wait has its own limit.
            try await scenario.at(.seconds(10)) { try $0.plug("eth0") }
            try await scenario.at(.seconds(10) + .milliseconds(50)) { try $0.pull("eth0") }
            await scenario.advance(to: .seconds(100))
            #expect(scenario.starts("job") == [0, 10])
            #expect(scenario.ended("job") == 20.1)
            #expect(scenario.result("job") == "other", "an attempt was made, so its error tells more")
        }
    }

    @Test func waitLimitWithoutAnAttemptHasItsOwnError() async throws {
        try await Scenario(online: false).run { scenario in
            await scenario.submit("job", .scenario.connectivity(.wait(upTo: .seconds(10))), .ok())
            await scenario.advance(to: .seconds(100))
            #expect(scenario.ended("job") == 10 && scenario.result("job") == "\(RetryError.waitLimit)")
        }
    }

    @Test(arguments: [Duration.zero, .seconds(1)]) func lossLongerThanTheGraceInterruptsAnAttempt(grace: Duration) async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.interruptsAttempt(.whenUnsatisfied(grace: grace)).giveUpAfter(maxAttempts: 1)
            await scenario.submit("job", policy, .ok(after: .seconds(100)), .ok())
            try await scenario.at(.seconds(2)) { try $0.pull("eth0") }
            await scenario.advance(to: .seconds(2) + grace)
            let job = try #require(scenario.bus.pending.first)
            #expect(job.state == .waiting && job.charged == 0 && job.networkFailures == 1)
            try await scenario.at(.seconds(10)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(20))
            #expect(scenario.starts("job") == [0, 10] && scenario.result("job") == "ok")
        }
    }

    @Test func anInterruptedAttemptLeavesNoError() async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.interruptsAttempt(.whenUnsatisfied(grace: .zero)).giveUpAfter(elapsed: .seconds(5))
            await scenario.submit("first", policy, .ok(after: .seconds(100)))
            await scenario.submit("second", policy, .fails(), .ok(after: .seconds(100)))
            try await scenario.at(.seconds(2)) { try $0.pull("eth0") }
            #expect(scenario.bus.pending.map(\.networkFailures) == [1, 1])
            await scenario.advance(to: .seconds(100))
            #expect(scenario.ended("first") == 5 && scenario.result("first") == "\(RetryError.deadline)")
            #expect(scenario.ended("second") == 5 && scenario.result("second") == "other", "the error before it is the last")
        }
    }

    @Test func lossShorterThanTheGraceInterruptsNothing() async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.interruptsAttempt(.whenUnsatisfied(grace: .seconds(1)))
            await scenario.submit("job", policy, .ok(after: .seconds(100)))
            try await scenario.at(.seconds(2)) { try $0.pull("eth0") }
            try await scenario.at(.milliseconds(2900)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(200))
            #expect(scenario.starts("job") == [0] && scenario.ended("job") == 100)
        }
    }

    @Test func operationHasItsTimeLimit() async throws {
        let clock = ManualClock()
        let bus = RetryBus(ReachabilityMonitor(SimulatedNetwork.online(clock: clock)), clock: clock)
        let policy = RetryPolicy.scenario.giveUpAfter(elapsed: .seconds(60))
        #expect(try await bus.retry(policy) { $0.timeLimit } == .seconds(60))
        #expect(try await bus.retry(policy.attemptTimeout(.seconds(5))) { $0.timeLimit } == .seconds(5))
        #expect(try await bus.retry { $0.timeLimit } == nil)
    }
}
