import Reachability
import ReachabilityTesting
import Testing

@testable import ReachableRetry

/// Jobs with one life per attempt, as durable queues run them.
@Suite(.timeLimit(.minutes(10))) struct StoredAttemptTests {
    private struct Trouble: Error {}

    private let policy = RetryPolicy.default.backoff(.exponential(initial: .seconds(1)).jitter(.none)).giveUpAfter(maxAttempts: 4)

    private func attempt(
        in world: TestWorld, _ policy: RetryPolicy? = nil, _ options: JobOptions = JobOptions(), past: JobPast = JobPast(),
        _ operation: @escaping @Sendable (Attempt) async throws -> Int
    ) async throws -> AttemptEnd<Int> {
        try await world.bus.submitAttempt(policy ?? self.policy, to: .internet, options: options, past: past).run(operation)
    }

    @Test func aSuccessReportsItsNumber() async throws {
        try await TestWorld().run { world in
            let end = try await attempt(in: world, past: JobPast(started: 6)) { $0.number }
            guard case .succeeded(7, started: 7) = end else { return #expect(Bool(false), "\(end)") }
        }
    }

    @Test func aFailureHandsItsCountsAndDelayBack() async throws {
        try await TestWorld().run { world in
            let past = JobPast(started: 3, charged: 2, networkFailures: 1, failureIndex: 2, elapsed: .seconds(9))
            let end = try await attempt(in: world, past: past) { _ in throw Trouble() }
            guard case .handedBack(let back, let error) = end else { return #expect(Bool(false), "\(end)") }
            #expect(error is Trouble)
            #expect(back.past == JobPast(started: 4, charged: 3, networkFailures: 1, failureIndex: 3, elapsed: .seconds(9)))
            #expect(back.soft == .seconds(4) && back.hard == .zero && back.fault == .unknown)
            #expect(world.bus.pending.isEmpty)
        }
    }

    @Test func theLastDelaySetsTheRangeOfDecorrelatedJitter() async throws {
        try await TestWorld().run { world in
            let spread = policy.backoff(.exponential(initial: .seconds(1)).jitter(.decorrelated))
            var longest = Duration.zero
            for _ in 0..<40 {
                let past = JobPast(started: 1, failureIndex: 1, previousDelay: .seconds(100))
                let end = try await attempt(in: world, spread, past: past) { _ in throw Trouble() }
                guard case .handedBack(let back, _) = end else { return #expect(Bool(false), "\(end)") }
                longest = max(longest, back.soft)
            }
            // Without it no delay is longer than three times the first one.
            #expect(longest > .seconds(3) && longest <= .seconds(300))
        }
    }

    /// As for a job whose attempts are all of one life.
    @Test func reconnectStartsTheBackoffOverAsThePolicySays() async throws {
        let cases: [(RetryPolicy.ReconnectRule, isNetwork: Bool, hasReconnected: Bool, index: Int)] = [
            (.automatic, true, true, 1), (.automatic, false, true, 4), (.automatic, true, false, 4),
            (.resetBackoff, false, true, 1), (.resetBackoff, true, true, 1), (.resetBackoff, false, false, 4),
            (.keepBackoff, true, true, 4), (.keepBackoff, true, false, 4),
        ]
        try await TestWorld().run { world in
            for (rule, isNetwork, hasReconnected, index) in cases {
                var past = JobPast(started: 3, charged: 3, failureIndex: 3)
                (past.isNetworkFailure, past.hasReconnected) = (isNetwork, hasReconnected)
                let policy = policy.giveUpAfter(maxAttempts: nil).onReconnect(rule)
                let end = try await attempt(in: world, policy, past: past) { _ in throw Trouble() }
                guard case .handedBack(let back, _) = end else { return #expect(Bool(false), "\(end)") }
                #expect(back.past.failureIndex == index && back.soft == .seconds(1 << (index - 1)), "\(rule)")
            }
        }
    }

    @Test func aServersDelayIsHandedBackAsHard() async throws {
        try await TestWorld().run { world in
            let busy = policy.classify { _ in .overload(retryAfter: .seconds(60)) }
            let end = try await attempt(in: world, busy) { _ in throw Trouble() }
            guard case .handedBack(let back, _) = end else { return #expect(Bool(false), "\(end)") }
            #expect(back.hard == .seconds(60) && back.fault == .overload(retryAfter: .seconds(60)))
        }
    }

    @Test func earlierAttemptsCountAgainstTheLimit() async throws {
        try await TestWorld().run { world in
            let end = try await attempt(in: world, past: JobPast(started: 3, charged: 3)) { _ in throw Trouble() }
            guard case .gaveUp(let report) = end else { return #expect(Bool(false), "\(end)") }
            #expect(report.reason == .attempts && report.charged == 4 && report.lastError is Trouble)
        }
    }

    @Test func earlierTimeCountsAgainstTheDeadline() async throws {
        try await TestWorld().run { world in
            let short = policy.giveUpAfter(elapsed: .seconds(10))
            let end = try await attempt(in: world, short, past: JobPast(elapsed: .seconds(10))) { _ in 1 }
            guard case .gaveUp(let report) = end else { return #expect(Bool(false), "\(end)") }
            #expect(report.reason == .deadline && report.attempts == 0)
        }
    }

    @Test func aReconnectDuringTheAttemptLeavesNoDelay() async throws {
        try await TestWorld().run { world in
            let end = try await attempt(in: world) { [network = world.network] _ in
                try network.pull("eth0")
                try network.plug("eth0")
                throw Trouble()
            }
            guard case .handedBack(let back, _) = end else { return #expect(Bool(false), "\(end)") }
            #expect(back.soft == .zero && back.fault == .network && back.past.charged == 0 && back.past.networkFailures == 1)
        }
    }

    @Test func aCancelledCallerCancelsTheJob() async throws {
        try await TestWorld().run { world in
            try world.network.pull("eth0")
            let task = world.start { try await attempt(in: world, nil, JobOptions(id: "job")) { _ in 1 } }
            await world.settle()
            #expect(world.bus.pending.count == 1)
            task.cancel()
            guard case .cancelled = try await task.value else { return #expect(Bool(false)) }
            #expect(world.bus.pending.isEmpty)
        }
    }
}
