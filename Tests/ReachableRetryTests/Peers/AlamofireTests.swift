import Reachability
import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

/// Alamofire's retry policy, its retrier for outages, and its chains of retriers.
@Suite(.timeLimit(.minutes(10))) struct AlamofireTests {
    private static let instant = Act.fails(after: .zero)

    /// 0.5 s, doubled; Alamofire's limit counts retries, this one attempts.
    private static func policy(retries: Int) -> RetryPolicy {
        .peer(.exponential(initial: .milliseconds(500)), attempts: retries + 1)
    }

    private static let cases: [PeerCase] = [
        PeerCase(
            name: "two retries", policy: policy(retries: 2), acts: [instant],
            starts: [0, 0.5, 1.5], ends: 1.5, result: "other", reason: .attempts),
        PeerCase(
            name: "four retries", policy: policy(retries: 4), acts: [instant],
            starts: [0, 0.5, 1.5, 3.5, 7.5], ends: 7.5, result: "other", reason: .attempts),
        PeerCase(
            name: "base 3, scale 1", policy: .peer(.exponential(initial: .seconds(1), multiplier: 3), attempts: 5),
            acts: [instant], starts: [0, 1, 4, 13, 40], ends: 40, result: "other", reason: .attempts),
        PeerCase(
            name: "only what is listed", policy: policy(retries: 2).retryOnErrors { $0 as? Trouble == .other },
            acts: [instant, .fails(Trouble.refused, after: .zero)],
            starts: [0, 0.5], ends: 0.5, result: "refused", reason: .permanent),
    ]

    @Test(arguments: cases) func delaysAndLimitsAreTheSame(peer: PeerCase) async throws { try await peer.check() }

    private static let five = policy(retries: 0).connectivity(.wait(upTo: .seconds(5)))
    private static let lost = Act.fails(Trouble.unreachable)

    private static let outages: [PeerCase] = [
        PeerCase(
            name: "a request offline goes when the path is there", policy: five, acts: [.ok()], isOnline: false,
            changes: [(3, .up)], starts: [3], ends: 3.1),
        PeerCase(
            name: "a request that broke off is repeated when the path is back", policy: five, acts: [lost, .ok()],
            changes: [(0.05, .down), (3, .up)], starts: [0, 3], ends: 3.1),
        PeerCase(
            name: "the path comes too late", policy: policy(retries: 0).connectivity(.wait(upTo: .milliseconds(1))),
            acts: [.ok()], isOnline: false, changes: [(1, .up)],
            starts: [], ends: 0.001, result: "\(RetryError.waitLimit)", reason: .waitLimit),
        PeerCase(
            name: "an error that is no outage's is not waited for", policy: five, acts: [.fails()],
            changes: [(1, .down), (3, .up)], starts: [0], ends: 0.1, result: "other", reason: .attempts),
        PeerCase(
            name: "each wait has five seconds", policy: five, acts: [lost, lost, .ok()],
            changes: [(0.05, .down), (4, .up), (4.05, .down), (8, .up)], starts: [0, 4, 8], ends: 8.1),
        // On a satisfied path OfflineRetrier retries at once and without end. Here the job backs off, uncharged as well.
        PeerCase(
            name: "an outage on a path that is there",
            policy: policy(retries: 0).classify { _ in .network }
                .giveUpAfter(elapsed: .seconds(6)),
            acts: [.fails(Trouble.unreachable, after: .zero)],
            starts: [0, 0.5, 1.5, 3.5], ends: 6, result: "unreachable", reason: .deadline),
    ]

    @Test(arguments: outages) func jobsWaitOutOutages(peer: PeerCase) async throws { try await peer.check() }

    /// OfflineRetrier uses up the limit of the policy beside it.
    @Test func outagesChargeNoAttempts() async throws {
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

    /// OfflineRetrier's requests share the first one's timer, so later ones have a shorter limit.
    @Test func eachWaiterHasItsOwnLimit() async throws {
        try await Scenario(release: .immediate).run { scenario in
            await scenario.submit("a", Self.five, Self.lost)
            await scenario.submit("b", Self.five, .fails(after: .seconds(4)))
            try await scenario.at(.milliseconds(50)) { try $0.pull("eth0") }
            await scenario.advance(to: .seconds(20))
            #expect(scenario.ended("a") == 5.1 && scenario.result("a") == "unreachable")
            #expect(scenario.ended("b") == 9 && scenario.result("b") == "other")
        }
    }

    @Test func manyRequestsStartAtEachReconnect() async throws {
        try await Scenario(online: false, release: .immediate).run { scenario in
            for round in 0..<2 {
                let names = (0..<4).map { "\(round).\($0)" }
                for name in names { await scenario.submit(name, Self.five, .ok()) }
                let time = Double(2 * round + 1)
                try await scenario.at(.seconds(time)) { try $0.plug("eth0") }
                try await scenario.at(.seconds(time + 0.5)) { try $0.pull("eth0") }
                for name in names { #expect(scenario.starts(name) == [time] && scenario.result(name) == "ok") }
            }
            #expect(scenario.bus.usage == [0, 0, 0, 0, 0])
        }
    }

    @Test func manyRequestsRunOutOfTime() async throws {
        try await Scenario(online: false, release: .immediate).run { scenario in
            for number in 1...4 { await scenario.submit("\(number)", Self.five, .ok()) }
            await scenario.advance(to: .seconds(20))
            for number in 1...4 {
                #expect(scenario.starts("\(number)").isEmpty && scenario.ended("\(number)") == 5)
                #expect(scenario.result("\(number)") == "\(RetryError.waitLimit)")
            }
            #expect(scenario.bus.usage == [0, 0, 0, 0, 0] && scenario.bus.nextWakeUp == nil)
        }
    }

    @Test func aCancelledRequestIsNotRepeated() async throws {
        try await Scenario(release: .immediate).run { scenario in
            let giveUps = Counter()
            let policy = RetryPolicy.peer(.immediate, attempts: nil).onGiveUp { _ in giveUps.add() }
            let task = await scenario.submit("job", policy, .fails(after: .seconds(10)))
            await scenario.advance(to: .seconds(1))
            task.cancel()
            await task.value
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0] && scenario.ended("job") == 1)
            #expect(scenario.result("job") == "CancellationError()" && giveUps.value == 0)
        }
    }

    /// The first decision counts, and later classifiers are not called.
    @Test func firstDecisionInAChainCounts() async throws {
        try await Scenario(release: .immediate).run { scenario in
            let asked = Recorder<String>()
            func retrier(_ name: String, _ answer: AttemptFailure?) -> @Sendable (any Error) -> AttemptFailure? {
                { _ in
                    asked.record(name)
                    return answer
                }
            }
            let policy = RetryPolicy(.immediate).giveUpAfter(maxAttempts: 2)
                .classify(retrier("A", nil)).classify(retrier("B", .overload(retryAfter: .seconds(2))))
                .classify(retrier("C", .permanent))
            await scenario.submit("job", policy, Self.instant)
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0, 2] && asked.value == ["A", "B", "A", "B"])
        }
    }

    // In Alamofire a chain may replace the error, and an empty chain retries nothing. Here the operation's error
    // is thrown, and unclassified errors are retried.
    private static let chains: [PeerCase] = [
        PeerCase(
            name: "a chain that gives up", policy: policy(retries: 2).classify { _ in .permanent }, acts: [instant],
            starts: [0], ends: 0, result: "other", reason: .permanent),
        PeerCase(
            name: "no chain", policy: RetryPolicy(.constant(.seconds(1))).giveUpAfter(maxAttempts: 2), acts: [instant],
            starts: [0, 1], ends: 1, result: "other", reason: .attempts),
    ]

    @Test(arguments: chains) func callerGetsTheOperationsError(peer: PeerCase) async throws { try await peer.check() }
}
