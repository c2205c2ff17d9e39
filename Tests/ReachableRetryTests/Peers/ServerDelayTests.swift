import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// The rules of AWS, Smithy, gRPC and Amplify for busy servers, without their retry budgets.
@Suite(.timeLimit(.minutes(10))) struct ServerDelayTests {
    private static let seeds: [UInt64] = [1, 2, 20_260_131]
    private static let base = Backoff.exponential(initial: .milliseconds(50), maximum: .seconds(20))

    private static func failsBusy(_ seconds: Double?) -> Act {
        .fails(Trouble.busy(retryAfter: seconds.map { .seconds($0) }), after: .zero)
    }

    // Smithy obeys a server's delay for at most 5 s beyond its own, AWS' older standard for 20 s in total. Here it is
    // never shortened: set a deadline to limit the wait.
    @Test(arguments: [(0.01, 0.05), (0.44, 0.44), (1.5, 1.5), (3, 3), (10, 10), (30, 30)])
    func serverDelayIsAMinimum(order: Double, expected: Double) async throws {
        try await PeerCase(
            name: "\(order)", policy: .peer(Self.base, attempts: 2), acts: [Self.failsBusy(order)], starts: [0, expected],
            ends: expected, result: "\(Trouble.busy(retryAfter: .seconds(order)))", reason: .attempts
        ).check()
    }

    private static let cases: [PeerCase] = [
        PeerCase(
            name: "502 three times", policy: .peer(base, attempts: 3), acts: [failsBusy(nil)],
            starts: [0, 0.05, 0.15], ends: 0.15, result: "busy(retryAfter: nil)", reason: .attempts),
        PeerCase(
            name: "502 twice", policy: .peer(base, attempts: 3), acts: [failsBusy(nil), failsBusy(nil), .ok(after: .zero)],
            starts: [0, 0.05, 0.15], ends: 0.15),
        PeerCase(
            name: "a cap of .2", policy: .peer(.exponential(initial: .milliseconds(50), maximum: .milliseconds(200)), attempts: 5),
            acts: [failsBusy(nil)], starts: [0, 0.05, 0.15, 0.35, 0.55], ends: 0.55, result: "busy(retryAfter: nil)",
            reason: .attempts),
        // An AWS waiter moves its last attempt to just before its deadline. Here the job ends at its deadline.
        PeerCase(
            name: "a waiter's time",
            policy: .peer(.exponential(initial: .seconds(2), maximum: .seconds(120)), attempts: nil)
                .giveUpAfter(elapsed: .seconds(20)),
            acts: [failsBusy(nil)], starts: [0, 2, 6, 14], ends: 20, result: "busy(retryAfter: nil)", reason: .deadline),
    ]

    @Test(arguments: cases) func delaysDoubleUpToTheirCap(peer: PeerCase) async throws { try await peer.check() }

    private static let tenth = Backoff.exponential(initial: .milliseconds(100), maximum: .seconds(1))

    private static let pushback: [PeerCase] = [
        // In gRPC the delays restart after a pushback, with 0.1 s. Here they continue, because the server is still busy.
        PeerCase(
            name: "delays after an order", policy: .peer(tenth, attempts: 4), acts: [failsBusy(5), failsBusy(nil)],
            starts: [0, 5, 5.2, 5.6], ends: 5.6, result: "busy(retryAfter: nil)", reason: .attempts),
        // In gRPC this means an immediate retry.
        PeerCase(
            name: "an order of nothing leaves the delay", policy: .peer(tenth, attempts: 2), acts: [failsBusy(0)],
            starts: [0, 0.1], ends: 0.1, result: "\(Trouble.busy(retryAfter: .zero))", reason: .attempts),
        PeerCase(
            name: "an order below nothing counts as nothing", policy: .peer(.immediate, attempts: 2), acts: [failsBusy(-1)],
            starts: [0, 0], ends: 0, result: "\(Trouble.busy(retryAfter: .seconds(-1)))", reason: .attempts),
        PeerCase(
            name: "spent attempts win over an order", policy: .peer(tenth, attempts: 1), acts: [failsBusy(5)],
            starts: [0], ends: 0, result: "\(Trouble.busy(retryAfter: .seconds(5)))", reason: .attempts),
        // gRPC's connections count the delay from the start of the previous attempt. Here it starts at the failure.
        PeerCase(
            name: "a delay begins with the failure", policy: .peer(.constant(.seconds(1)), attempts: 2),
            acts: [.fails(Trouble.refused, after: .seconds(0.3))], starts: [0, 1.3], ends: 1.6, result: "refused", reason: .attempts
        ),
        // A call that waits for a connection fails at its deadline.
        PeerCase(
            name: "waiting for a connection has its deadline", policy: .peer(tenth, attempts: 4).giveUpAfter(elapsed: .seconds(7)),
            acts: [.ok()], isOnline: false, starts: [], ends: 7, result: "\(RetryError.deadline)", reason: .deadline),
    ]

    @Test(arguments: pushback) func grpcsPushbackIsAServerDelay(peer: PeerCase) async throws { try await peer.check() }

    /// gRPC spreads by a fifth to both sides: the same range is a third below 1.2 times the delay.
    @Test(arguments: zip(1...7, [0.1, 0.2, 0.4, 0.8, 1, 1, 1])) func grpcsFifthToBothSidesIsAShare(n: Int, nominal: Double) {
        let backoff = Backoff.exponential(initial: .milliseconds(120), maximum: .milliseconds(1200)).jitter(.proportional(1 / 3))
        for (edge, var generator) in zip([0.8, 1, 1.2], [ConstantGenerator.least, .half, .greatest]) {
            let delay = backoff.delay(afterFailure: n, using: &generator) / .seconds(1)
            #expect(abs(delay - edge * nominal) < 1e-9)
        }
        for seed in Self.seeds {
            var generator = SeededGenerator(seed: seed)
            let sample = Sample(values: (0..<20_000).map { _ in backoff.delay(afterFailure: n, using: &generator) / .seconds(1) })
            #expect(abs(sample.mean - nominal) < sample.meanTolerance(0.1155 * nominal), "seed \(seed)")
            #expect(abs(sample.standardDeviation - 0.1155 * nominal) < 0.002 * nominal, "seed \(seed)")
        }
    }

    /// In other libraries jitter shortens a server's delay, or all jobs draw the same.
    @Test(arguments: seeds) func jitterDoesNotShortenServerDelays(seed: UInt64) async throws {
        try await Scenario(seed: seed, release: .immediate).run { scenario in
            let policy = RetryPolicy.peer(.constant(.seconds(60)).jitter(.full), attempts: 2)
            for number in 0..<200 { await scenario.submit("\(number)", policy, Self.failsBusy(30), .ok(after: .zero)) }
            await scenario.advance(to: .seconds(100))
            let starts = (0..<200).map { scenario.starts("\($0)").last ?? 0 }
            #expect(starts.allSatisfy { $0 >= 30 && $0 < 60 }, "seed \(seed)")
            let late = starts.filter { $0 > 30 }
            #expect((70...130).contains(late.count), "seed \(seed): half of the delays are longer than the order")
            #expect(Set(late).count > late.count * 9 / 10, "seed \(seed)")
        }
    }

    /// Amplify's delays double without a cap, and its tests expect the saturated value: seven years.
    @Test func amplifysDelaysDoubleForSevenYears() {
        var generator = ConstantGenerator.least
        let backoff = Backoff.exponential(initial: .milliseconds(200), maximum: .milliseconds(214_748_364_800))
        let delays = [1, 2, 3, 12, 31, 32, .max].map { backoff.delay(afterFailure: $0, using: &generator) / .milliseconds(1) }
        #expect(delays == [200, 400, 800, 409_600, 214_748_364_800, 214_748_364_800, 214_748_364_800])
    }
}
