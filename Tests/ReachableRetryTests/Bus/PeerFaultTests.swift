import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// What other libraries got wrong, as jobs that would show it.
@Suite(.timeLimit(.minutes(10))) struct PeerFaultTests {
    /// kean's smart retry lets the timer run on after a reconnect made an early start, and starts twice as often from then on.
    @Test func anEarlyStartLeavesNoTimerBehind() async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.backoff(.exponential(initial: .seconds(8), multiplier: 2, maximum: .seconds(64)))
            await scenario.submit("job", policy.onReconnect(.keepBackoff), .fails(after: .seconds(1)))
            try await scenario.reconnect(at: .milliseconds(1500))
            await scenario.advance(to: .seconds(300))
            #expect(scenario.starts("job") == [0, 1.5, 18.5, 51.5])
        }
    }

    /// It also forgets a reconnect that comes while an attempt runs, and sits out the whole delay.
    @Test func aReconnectDuringAnAttemptIsRemembered() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario.backoff(.constant(.seconds(10))), .fails(after: .seconds(2)))
            try await scenario.reconnect(at: .seconds(1))
            await scenario.advance(to: .seconds(20))
            #expect(scenario.starts("job") == [0, 2, 14])
        }
    }

    /// RxReachability counts its timeout from the subscription, so that an attempt that takes longer than that ends the job.
    @Test func theLimitOfAWaitCountsFromTheWait() async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.connectivity(.wait(upTo: .seconds(30)))
            await scenario.submit("job", policy, .fails(after: .seconds(40)), .ok())
            try await scenario.at(.seconds(39)) { try $0.pull("eth0") }
            try await scenario.at(.seconds(60)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(100))
            #expect(scenario.starts("job") == [0, 60] && scenario.result("job") == "ok")
        }
    }

    /// It also reports a timeout for a job that failed while online all along, and loses its error.
    @Test func aJobThatFailsOnlineEndsWithItsOwnError() async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.connectivity(.wait(upTo: .seconds(30))).giveUpAfter(maxAttempts: 2)
            await scenario.submit("job", policy, .fails(after: .seconds(1)))
            await scenario.advance(to: .seconds(100))
            #expect(scenario.ended("job") == 3 && scenario.result("job") == "other")
        }
    }

    /// Donny Wals' retry delays each failure, the last one too: it arrives after 9 seconds instead of 6.
    @Test func theLastFailureIsNotDelayed() async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.backoff(.constant(.seconds(3))).giveUpAfter(maxAttempts: 3)
            await scenario.submit("job", policy, .fails(after: .zero))
            await scenario.advance(to: .seconds(100))
            #expect(scenario.starts("job") == [0, 3, 6] && scenario.ended("job") == 6)
        }
    }

    /// And the latest error decides, not the first.
    @Test func theLatestErrorDecides() async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.backoff(.constant(.seconds(3))).giveUpOnErrors { $0 as? Trouble == .refused }
            await scenario.submit("job", policy, .fails(after: .zero), .fails(Trouble.refused, after: .zero))
            await scenario.advance(to: .seconds(100))
            #expect(scenario.starts("job") == [0, 3] && scenario.ended("job") == 3 && scenario.result("job") == "refused")
        }
    }

    /// RepetitiveTask counts attempts only where it gives up, and so never does.
    @Test(arguments: 1...5) func attemptsEnd(most: Int) async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.backoff(.immediate).giveUpAfter(maxAttempts: most)
            await scenario.submit("job", policy, .fails())
            await scenario.advance(to: .seconds(100))
            #expect(scenario.starts("job").count == most && scenario.result("job") == "other")
        }
    }

    /// SwiftRetrier traps at the 64th doubling, an hour into an outage.
    @Test func aThousandFailuresAreNoTrap() async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.backoff(
                .exponential(initial: .milliseconds(500), multiplier: 2, maximum: .seconds(60)).jitter(.full))
            await scenario.submit("job", policy.giveUpAfter(maxAttempts: 1000), .fails(after: .zero))
            await scenario.advance(to: .seconds(100_000))
            let starts = scenario.starts("job")
            #expect(starts.count == 1000)
            // Its jitter is also gone by then, since the cap comes after it.
            let late = zip(starts.dropFirst(500), starts.dropFirst(501)).map { $1 - $0 }
            #expect(late.allSatisfy { $0 <= 60 } && late.filter { $0 < 59 }.count > 400, "the delays at the cap still differ")
        }
    }

    /// Alamofire's OfflineRetrier counts its own retries as attempts, and so spends the limit of the policy beside it.
    @Test func outagesSpendNoAttempts() async throws {
        try await Scenario(release: .immediate).run { scenario in
            await scenario.submit("job", .scenario.giveUpAfter(maxAttempts: 2), .fails(after: .milliseconds(500)))
            for second in 1...20 {
                try await scenario.at(.seconds(second) + .milliseconds(100)) { try $0.pull("eth0") }
                try await scenario.at(.seconds(second) + .milliseconds(900)) { try $0.plug("eth0") }
            }
            let job = scenario.bus.pending.first
            #expect(job?.charged ?? 2 < 2 && scenario.starts("job").count > 10, "\(scenario.starts("job"))")
            await scenario.advance(to: .seconds(60))
            #expect(scenario.result("job") == "other", "and then two charged failures end it")
        }
    }

    /// Its waiters share the timer of the first, so that a later one waits for less than it was promised.
    @Test func eachWaitHasItsOwnLimit() async throws {
        try await Scenario(online: false).run { scenario in
            let policy = RetryPolicy.scenario.connectivity(.wait(upTo: .seconds(5)))
            await scenario.submit("a", policy, .ok())
            await scenario.advance(to: .seconds(4))
            await scenario.submit("b", policy, .ok())
            await scenario.advance(to: .seconds(20))
            #expect(scenario.ended("a") == 5 && scenario.ended("b") == 9)
        }
    }
}

extension Scenario {
    /// Pulls the cable and puts it back in.
    func reconnect(at time: Duration) async throws {
        try await at(time) { network in
            try network.pull("eth0")
            try network.plug("eth0")
        }
    }
}
