import Reachability
import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

/// Libraries that delay each failure, including the last: Donny Wals' retry of publishers, and RepetitiveTask.
@Suite(.timeLimit(.minutes(10))) struct DelayedFailureTests {
    private static let threeSeconds = RetryPolicy.peer(.constant(.seconds(3)), attempts: 3)
        .giveUpOnErrors { $0 as? Trouble == .refused }
    private static let busy = Act.fails(Trouble.busy(retryAfter: nil), after: .zero)
    private static let refused = Act.fails(Trouble.refused, after: .zero)

    private static let donnys: [PeerCase] = [
        // Donny Wals' last failure arrives at 9 s; with another operator there are six requests instead of three.
        PeerCase(
            name: "all fail", policy: threeSeconds, acts: [busy],
            starts: [0, 3, 6], ends: 6, result: "busy(retryAfter: nil)", reason: .attempts),
        PeerCase(name: "the second succeeds", policy: threeSeconds, acts: [busy, .ok(after: .zero)], starts: [0, 3], ends: 3),
        PeerCase(
            name: "the first is beyond help", policy: threeSeconds, acts: [refused],
            starts: [0], ends: 0, result: "refused", reason: .permanent),
        PeerCase(
            name: "the latest error decides, not the first", policy: threeSeconds, acts: [busy, refused],
            starts: [0, 3], ends: 3, result: "refused", reason: .permanent),
    ]

    @Test(arguments: donnys) func donnysRequestsKeepTheirTimes(peer: PeerCase) async throws { try await peer.check() }

    /// Shared publishers replay the first error: each attempt must run the operation again.
    @Test func eachAttemptHasThePreviousError() async throws {
        let errors = [Trouble.other, .busy(retryAfter: nil), .refused]
        let previousFailures = Recorder<Trouble?>()
        let bus = RetryBus(ReachabilityMonitor())
        let thrown = await #expect(throws: Trouble.self) {
            try await bus.retry(.peer(.immediate, attempts: 3)) { attempt in
                previousFailures.record(attempt.previousFailure as? Trouble)
                throw errors[min(attempt.number, errors.count) - 1]
            }
        }
        #expect(previousFailures.value == [nil, .other, .busy(retryAfter: nil)] && thrown == .refused)
    }

    private static func failsBusy(_ seconds: Double) -> Act { .fails(Trouble.busy(retryAfter: .seconds(seconds)), after: .zero) }

    /// In RepetitiveTask the operation sleeps for the delay, even after the last failure; one version never stops.
    private static let repetitive: [PeerCase] = [
        PeerCase(
            name: "three retries, delays of 5: over at 15 and not at 20", policy: .peer(.immediate, attempts: 4),
            acts: [failsBusy(5)],
            starts: [0, 5, 10, 15], ends: 15, result: "\(Trouble.busy(retryAfter: .seconds(5)))", reason: .attempts),
        PeerCase(
            name: "another delay each time", policy: .peer(.immediate, attempts: 4),
            acts: [failsBusy(2), failsBusy(7), failsBusy(1), failsBusy(9)],
            starts: [0, 2, 9, 10], ends: 10, result: "\(Trouble.busy(retryAfter: .seconds(9)))", reason: .attempts),
        PeerCase(
            name: "no retry", policy: .peer(.immediate, attempts: 1), acts: [failsBusy(5)],
            starts: [0], ends: 0, result: "\(Trouble.busy(retryAfter: .seconds(5)))", reason: .attempts),
        PeerCase(
            name: "a failure without a delay", policy: threeSeconds, acts: [failsBusy(5), refused],
            starts: [0, 5], ends: 5, result: "refused", reason: .permanent),
    ]

    @Test(arguments: repetitive) func hardDelaysOfTheOperationAreKept(peer: PeerCase) async throws { try await peer.check() }

    @Test(arguments: 1...5) func attemptsEndAtTheLimit(most: Int) async throws {
        try await PeerCase(
            name: "\(most)", policy: .peer(.immediate, attempts: most), acts: [.fails(after: .seconds(1))],
            starts: (0..<most).map(Double.init), ends: Double(most), result: "other", reason: .attempts
        ).check()
    }

    /// RepetitiveTask's error has the count, but not the cause.
    @Test func reportHasCauseAndCount() async throws {
        try await Scenario(release: .immediate).run { scenario in
            let reports = Recorder<GiveUp>()
            let policy = RetryPolicy.peer(.immediate, attempts: 4).onGiveUp { report in reports.record(report) }
            await scenario.submit("job", policy, Self.failsBusy(5))
            await scenario.advance(to: .seconds(60))
            let report = try #require(reports.value.first)
            #expect(report.attempts == 4 && report.charged == 4 && report.elapsed == .seconds(15))
            #expect(report.lastError as? Trouble == .busy(retryAfter: .seconds(5)))
        }
    }
}
