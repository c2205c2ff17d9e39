import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// swift-retry and ph1ps' retry function, whose tests count calls and sleeps.
@Suite(.timeLimit(.minutes(10))) struct CallCountTests {
    private static let instant = Act.fails(after: .zero)
    private static let cancelled = Act.fails(CancellationError(), after: .zero)
    private static let doubling = Backoff.exponential(initial: .seconds(1), maximum: .seconds(20))
    private static let three = RetryPolicy.peer(doubling, attempts: 3)

    private static let cases: [PeerCase] = [
        PeerCase(name: "success sleeps never", policy: three, acts: [.ok(after: .zero)], starts: [0], ends: 0),
        PeerCase(name: "one failure sleeps once", policy: three, acts: [instant, .ok(after: .zero)], starts: [0, 1], ends: 1),
        PeerCase(
            name: "three failures sleep twice", policy: three, acts: [instant],
            starts: [0, 1, 3], ends: 3, result: "other", reason: .attempts),
        PeerCase(
            name: "three failures without delays", policy: .peer(.immediate, attempts: 3), acts: [instant],
            starts: [0, 0, 0], ends: 0, result: "other", reason: .attempts),
        PeerCase(
            name: "an error to throw sleeps never", policy: three.giveUpOnErrors { _ in true }, acts: [instant],
            starts: [0], ends: 0, result: "other", reason: .permanent),
        PeerCase(
            name: "an error that forbids it is not asked about",
            policy: three.classify { _ in .transient }.giveUpOnErrors { $0 as? Trouble == .other }, acts: [instant],
            starts: [0], ends: 0, result: "other", reason: .permanent),
        // In those libraries any cancellation ends the operation. Here only a cancelled job ends; a CancellationError
        // of other code is an error like any other, unless the policy classifies it.
        PeerCase(
            name: "a cancellation of something else", policy: three, acts: [cancelled, .ok(after: .zero)], starts: [0, 1], ends: 1),
        PeerCase(
            name: "a cancellation that the policy gives up on", policy: three.giveUpOnErrors { $0 is CancellationError },
            acts: [cancelled], starts: [0], ends: 0, result: "CancellationError()", reason: .permanent),
    ]

    @Test(arguments: cases) func callsAndSleepsAreCounted(peer: PeerCase) async throws { try await peer.check() }

    private static func failsBusy(_ seconds: Double) -> Act { .fails(Trouble.busy(retryAfter: .seconds(seconds)), after: .zero) }

    // In swift-retry a server's delay skips the attempts that it covers, and the longest one ends the operation.
    // Here it skips none, and only a deadline ends the job.
    private static let orders: [PeerCase] = [
        PeerCase(
            name: "as long as two delays", policy: three, acts: [failsBusy(3), instant],
            starts: [0, 3, 5], ends: 5, result: "other", reason: .attempts),
        PeerCase(
            name: "longer than all delays", policy: three, acts: [failsBusy(3.001), instant],
            starts: [0, 3.001, 5.001], ends: 5.001, result: "other", reason: .attempts),
        PeerCase(
            name: "up to the deadline", policy: three.giveUpAfter(elapsed: .seconds(3.002)),
            acts: [failsBusy(3.001), .ok(after: .zero)],
            starts: [0, 3.001], ends: 3.001),
        PeerCase(
            name: "beyond the deadline", policy: three.giveUpAfter(elapsed: .seconds(3)), acts: [failsBusy(3.001)],
            starts: [0], ends: 0, result: "\(Trouble.busy(retryAfter: .seconds(3.001)))", reason: .deadline),
    ]

    @Test(arguments: orders) func serverDelaysSkipNoAttempts(peer: PeerCase) async throws { try await peer.check() }

    @Test(arguments: [false, true]) func aCancelledSleepEndsAtOnce(isOnline: Bool) async throws {
        try await Scenario(release: .immediate).run { scenario in
            let task = await scenario.submit("job", Self.three, Self.instant)
            try await scenario.at(.milliseconds(500)) { if !isOnline { try $0.pull("eth0") } }
            task.cancel()
            await task.value
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0] && scenario.ended("job") == 0.5)
            #expect(scenario.result("job") == "CancellationError()")
        }
    }

    @Test func cancelledCallIsTheLast() async throws {
        try await Scenario(release: .immediate).run { scenario in
            let task = await scenario.submit("job", .peer(.immediate, attempts: nil), .ok(after: .seconds(10)))
            await scenario.advance(to: .seconds(1))
            task.cancel()
            await task.value
            #expect(scenario.starts("job") == [0] && scenario.result("job") == "CancellationError()")
        }
    }

    /// The seeded delays of ph1ps' own test, with the random numbers that its generator drew.
    @Test func equalRandomNumbersMakeEqualDelays() {
        let backoff = Backoff.exponential(initial: .seconds(3)).jitter(.full)
        for (n, (random, delay)) in zip(1..., [(0.720963, 2.16289), (0.929023, 5.57414), (0.058285, 0.69942), (0.374532, 8.98877)])
        {
            var generator = ConstantGenerator(UInt64(random * 0x1p64))
            let ours = backoff.delay(afterFailure: n, using: &generator) / .seconds(1)
            #expect(abs(ours - delay) < 0.0001, "\(ours) s and not \(delay) s")
        }
    }
}
