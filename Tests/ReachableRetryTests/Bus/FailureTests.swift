import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// The fault of a failure if the bus can look up the route.
@Suite(.timeLimit(.minutes(10))) struct FailureTests {
    @Test func errorBeforeItsNetworkEventIsNotCharged() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario.giveUpAfter(maxAttempts: 1), .fails(), .ok())
            // The route is gone, but the monitor has not received the event when the attempt fails.
            try scenario.network.changeSilently { kernel throws(SimulationError) in try kernel.removeRoute(to: "default") }
            await scenario.advance(to: .milliseconds(100))
            #expect(scenario.bus.pending.first?.charged == 0)
            scenario.network.announce(.overrun)
            await scenario.settle()
            #expect(scenario.bus.pending.first?.state == .waiting)
            try await scenario.at(.seconds(5)) { try $0.addRoute(to: "default", via: "192.0.2.1") }
            #expect(scenario.starts("job") == [0, 5])
        }
    }

    @Test func aLossAfterTheAttemptsEndInterruptsNothing() async throws {
        try await Scenario().run { scenario in
            let network = scenario.network
            // The path is lost after the failure, while the policy classifies the error.
            let policy = RetryPolicy.scenario.interruptsAttempt(.whenUnsatisfied(grace: .zero))
            let lost = policy.giveUpOnErrors { _ in
                try? network.pull("eth0")
                return true
            }
            await scenario.submit("permanent", lost, .fails())
            await scenario.advance(to: .milliseconds(100))
            #expect(scenario.result("permanent") == "other" && scenario.ended("permanent") == 0.1)
            try network.plug("eth0")
            let order = Act.fails(Trouble.busy(retryAfter: .seconds(30)))
            await scenario.submit(
                "server",
                Trouble.classified(
                    policy.giveUpOnErrors { _ in
                        try? network.pull("eth0")
                        return false
                    }), order, .ok())
            try await scenario.at(.seconds(1)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("server") == [0.1, 30.2], "an order is respected")
        }
    }

    @Test func lookupHappensOnlyWhenItMatters() async throws {
        try await Scenario().run { scenario in
            let lookups = scenario.network.lookups
            await scenario.submit(
                "server", .scenario.giveUpAfter(maxAttempts: 1), .fails(Trouble.busy(retryAfter: nil)))
            await scenario.submit("network", .scenario.connectivity(.accelerate), .fails(Trouble.unreachable), .ok())
            await scenario.advance(to: .seconds(10))
            #expect(scenario.network.lookups == lookups)
        }
    }

    @Test func noAnswerSoonAfterAReconnectIsTheNetworksFault() async throws {
        try await Scenario(online: false).run { scenario in
            let policy = RetryPolicy.scenario.giveUpAfter(maxAttempts: 1)
            await scenario.submit("job", policy, .fails(Trouble.unanswered), .fails(Trouble.unanswered), .ok())
            try await scenario.at(.seconds(5)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [5, 6.1, 8.2] && scenario.result("job") == "ok")
        }
    }

    @Test func laterNoAnswerIsTheServersFault() async throws {
        try await Scenario(online: false).run { scenario in
            let policy = RetryPolicy.scenario.giveUpAfter(maxAttempts: 1)
            await scenario.submit("early", policy, .fails(Trouble.unanswered, after: .milliseconds(29_900)), .ok())
            await scenario.submit("late", policy, .fails(Trouble.unanswered, after: .milliseconds(30_100)), .ok())
            try await scenario.at(.seconds(5)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(60))
            #expect(scenario.result("early") == "ok" && scenario.result("late") == "unanswered")
        }
    }

    @Test func noAnswerAfterAnotherJobsSuccessIsTheServersFault() async throws {
        try await Scenario(online: false).run { scenario in
            let policy = RetryPolicy.scenario.giveUpAfter(maxAttempts: 1)
            await scenario.submit("first", policy, .ok())
            try await scenario.at(.seconds(5)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(6))
            await scenario.submit("second", policy, .fails(Trouble.unanswered))
            await scenario.advance(to: .seconds(60))
            #expect(scenario.result("first") == "ok" && scenario.result("second") == "unanswered")
            #expect(scenario.ended("second") == 6.1)
        }
    }

    @Test func lateTimerLooksUpTheScopeFirst() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario.backoff(.constant(.seconds(60))), .fails(), .ok())
            await scenario.advance(to: .seconds(1))
            // The machine is suspended for an hour; at the resume the route is gone, but its event has not arrived.
            try scenario.network.changeSilently { kernel throws(SimulationError) in try kernel.removeRoute(to: "default") }
            scenario.clock.jump(by: .seconds(3600))
            await scenario.settle()
            #expect(scenario.starts("job") == [0], "the timer was due, but the kernel says no")
            scenario.network.announce(.overrun)
            await scenario.settle()
            #expect(scenario.bus.pending.first?.state == .waiting)
            try await scenario.at(.seconds(4000)) { try $0.addRoute(to: "default", via: "192.0.2.1") }
            #expect(scenario.starts("job") == [0, 4000])
        }
    }

    @Test func lateTimerOnASatisfiedPathStartsAtOnce() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario.backoff(.constant(.seconds(60))), .fails(), .ok())
            await scenario.advance(to: .seconds(1))
            scenario.clock.jump(by: .seconds(3600))
            await scenario.settle()
            #expect(scenario.starts("job") == [0, 3601])
        }
    }

    /// No limit would end it: such failures are not charged.
    @Test func immediatePolicyStillWaitsAfterNetworkFailures() async throws {
        try await Scenario(release: .immediate).run { scenario in
            let policy = RetryPolicy.scenario.classify { _ in .network }.backoff(.immediate)
                .giveUpAfter(elapsed: .milliseconds(2100))
            await scenario.submit("job", policy, .fails(Trouble.unreachable))
            await scenario.advance(to: .seconds(10))
            #expect(scenario.starts("job") == [0, 0.6, 1.2, 1.8])
        }
    }
}
