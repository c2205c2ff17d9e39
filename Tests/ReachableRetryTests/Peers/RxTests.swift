import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// RxSwiftExt's retries, whose own tests count in units of virtual time, and RxReachability's waits.
@Suite(.timeLimit(.minutes(10))) struct RxTests {
    /// Its source fails 230 units after each subscription.
    private static let source = Act.fails(after: .seconds(230))
    private static let own = [10.0, 30, 50, 80]

    private static let cases: [PeerCase] = [
        PeerCase(
            name: "immediate, three", policy: .peer(.immediate, attempts: 3), acts: [source],
            starts: [0, 230, 460], ends: 690, result: "other", reason: .attempts),
        PeerCase(
            name: "no error", policy: .peer(.immediate, attempts: 3), acts: [.ok(after: .seconds(300))], starts: [0], ends: 300),
        PeerCase(
            name: "a predicate that accepts the first error only",
            policy: .peer(.immediate, attempts: 9).retryOnErrors { $0 as? Trouble == .other },
            acts: [source, .fails(Trouble.refused, after: .seconds(230))],
            starts: [0, 230], ends: 460, result: "refused", reason: .permanent),
        PeerCase(
            name: "a predicate that accepts nothing", policy: .peer(.immediate, attempts: 9).retryOnErrors { _ in false },
            acts: [source], starts: [0], ends: 230, result: "other", reason: .permanent),
        PeerCase(
            name: "a predicate that accepts all, and a limit",
            policy: .peer(.immediate, attempts: 2).retryOnErrors { _ in true },
            acts: [source], starts: [0, 230], ends: 460, result: "other", reason: .attempts),
        PeerCase(
            name: "delayed, three by 5", policy: .peer(.constant(.seconds(5)), attempts: 3), acts: [source],
            starts: [0, 235, 470], ends: 700, result: "other", reason: .attempts),
        PeerCase(
            name: "exponential, four from 5", policy: .peer(.exponential(initial: .seconds(5)), attempts: 4), acts: [source],
            starts: [0, 235, 475, 725], ends: 955, result: "other", reason: .attempts),
        PeerCase(
            name: "custom delays, five", policy: .peer(.custom { .seconds(own[min($0, own.count) - 1]) }, attempts: 5),
            acts: [source],
            starts: [0, 240, 500, 780, 1090], ends: 1320, result: "other", reason: .attempts),
    ]

    @Test(arguments: cases) func rxSwiftExtsBehaviorsHaveCounterparts(peer: PeerCase) async throws { try await peer.check() }

    private static let waiting = RetryPolicy.peer(.constant(.seconds(1)), attempts: 2).connectivity(.wait(upTo: .seconds(30)))

    /// RxReachability counts its timeout from the subscription, and throws it instead of the error.
    private static let waits: [PeerCase] = [
        PeerCase(
            name: "a failure offline is repeated at the reconnect", policy: waiting, acts: [.fails(after: .seconds(1)), .ok()],
            changes: [(0.5, .down), (10, .up)], starts: [0, 10], ends: 10.1),
        PeerCase(
            name: "the limit of a wait counts from the wait, not from 0", policy: waiting,
            acts: [.fails(after: .seconds(40)), .ok()], changes: [(39, .down), (60, .up)], starts: [0, 60], ends: 60.1),
        PeerCase(
            name: "a wait that is too long ends with the job's error", policy: waiting, acts: [.fails(after: .seconds(1))],
            changes: [(0.5, .down)], starts: [0], ends: 31, result: "other", reason: .waitLimit),
        PeerCase(
            name: "a job that fails online ends with its own error", policy: waiting, acts: [.fails(after: .seconds(1))],
            starts: [0, 2], ends: 3, result: "other", reason: .attempts),
    ]

    @Test(arguments: waits) func rxReachabilitysWaitsBeginWithTheFailure(peer: PeerCase) async throws { try await peer.check() }
}
