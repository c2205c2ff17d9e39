import Reachability
import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

/// kean's smart retry, the origin of the merge of timers and reconnects.
@Suite(.timeLimit(.minutes(10))) struct KeanTests {
    private static let growing = Backoff.exponential(initial: .seconds(3), multiplier: 1.5, maximum: .seconds(16))
    private static let instant = Act.fails(after: .zero)

    private static let cases: [PeerCase] = [
        PeerCase(
            name: "delays grow by half", policy: .peer(growing, attempts: 7), acts: [instant],
            starts: [0, 3, 7.5, 14.25, 24.375, 39.563, 55.563], ends: 55.563, result: "other", reason: .attempts),
        PeerCase(
            name: "no delay after the last of three", policy: .peer(.constant(.seconds(1)), attempts: 3), acts: [instant],
            starts: [0, 1, 2], ends: 2, result: "other", reason: .attempts),
        PeerCase(
            name: "a single attempt", policy: .peer(.constant(.seconds(1)), attempts: 1), acts: [instant],
            starts: [0], ends: 0, result: "other", reason: .attempts),
        PeerCase(
            name: "no delay at all", policy: .peer(.immediate, attempts: 4), acts: [.fails()],
            starts: [0, 0.1, 0.2, 0.3], ends: 0.4, result: "other", reason: .attempts),
        PeerCase(
            name: "errors that are not to be retried",
            policy: .peer(.constant(.seconds(1)), attempts: 9).retryOnErrors { _ in false },
            acts: [.fails(after: .seconds(0.5))], starts: [0], ends: 0.5, result: "other", reason: .permanent),
    ]

    @Test(arguments: cases) func delaysAndLimits(peer: PeerCase) async throws { try await peer.check() }

    private static let half = Act.fails(after: .seconds(0.5))
    private static let doubling = Backoff.exponential(initial: .seconds(8), multiplier: 2, maximum: .seconds(64))

    private static func ten(_ connectivity: RetryPolicy.Connectivity) -> RetryPolicy {
        .peer(.constant(.seconds(10)), attempts: 4).connectivity(connectivity)
    }

    /// kean's retry starts offline, keeps timers after an early start, and loses reconnects during an attempt.
    private static let reconnects: [PeerCase] = [
        PeerCase(
            name: "an early start leaves no timer behind: not at 10.5 and 21, too", policy: ten(.accelerate), acts: [half],
            isOnline: false, changes: [(1, .up)], starts: [0, 1, 11.5, 22], ends: 22.5, result: "other", reason: .attempts),
        PeerCase(
            name: "who waits for the network does not start offline", policy: ten(.wait(upTo: nil)), acts: [half],
            isOnline: false, changes: [(1, .up)], starts: [1, 11.5, 22, 32.5], ends: 33, result: "other", reason: .attempts),
        PeerCase(
            name: "growing delays leave no timer behind: not at 9 and 42, too",
            policy: .peer(doubling, attempts: 4).connectivity(.accelerate).onReconnect(.keepBackoff),
            acts: [.fails(after: .seconds(1))], isOnline: false, changes: [(1.5, .up)],
            starts: [0, 1.5, 18.5, 51.5], ends: 52.5, result: "other", reason: .attempts),
        // kean's delays continue to grow. Here they restart, because the earlier failures were the network's fault.
        PeerCase(
            name: "delays restart after an outage", policy: .peer(doubling, attempts: 4).connectivity(.accelerate),
            acts: [.fails(after: .seconds(1))], isOnline: false, changes: [(1.5, .up)],
            starts: [0, 1.5, 10.5, 27.5], ends: 28.5, result: "other", reason: .attempts),
        PeerCase(
            name: "a reconnect during an attempt is remembered: not at 12 and 24", policy: ten(.accelerate),
            acts: [.fails(after: .seconds(2))], isOnline: false, changes: [(1, .up)],
            starts: [0, 2, 14, 26], ends: 28, result: "other", reason: .attempts),
        PeerCase(
            name: "what is said three times starts one attempt", policy: ten(.wait(upTo: nil)), acts: [half, .ok()],
            isOnline: false, changes: [(35, .up), (35.001, .echo), (35.002, .echo)], starts: [35, 45.5], ends: 45.6),
        // Three reconnects, two of them during the attempt: it is uncharged and repeated at once, only once.
        PeerCase(
            name: "a burst of reconnects starts one attempt at a time", policy: ten(.wait(upTo: nil)), acts: [half, half, .ok()],
            isOnline: false, changes: [(35, .up), (35.001, .flap), (35.002, .flap)], starts: [35, 35.5, 46], ends: 46.1),
    ]

    @Test(arguments: reconnects) func reconnectsMergeWithTimers(peer: PeerCase) async throws { try await peer.check() }

    /// Custom delays are computed at each failure, as in kean's; without a gate also for a failure that is the network's.
    @Test(
        arguments: [
            (.keepBackoff, [1, 2, 1, 2, 1, 3, 1, 4, 1]), (.automatic, [1, 2, 1, 1, 2, 1, 3, 1]),
        ] as [(RetryPolicy.ReconnectRule, [Int])])
    func customDelaysAreComputedOnDemand(rule: RetryPolicy.ReconnectRule, expected: [Int]) async throws {
        try await Scenario(release: .immediate).run { scenario in
            let asked = Recorder<Int>()
            let backoff = Backoff.custom { n in
                asked.record(n)
                return .seconds(1)
            }
            await scenario.submit("job", .peer(backoff, attempts: 4).onReconnect(rule), .fails())
            try await scenario.at(.seconds(1.15)) { try $0.pull("eth0") }
            try await scenario.at(.seconds(5)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0, 1.1, 5, 6.1, 7.2] && scenario.result("job") == "other")
            #expect(asked.value == expected)
        }
    }
}
