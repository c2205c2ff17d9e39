import Glibc
import Testing

@testable import ReachableRetry

/// The core in every state that it can be in: what the rules promise holds in each.
///
/// There are two jobs and two scopes, which may come and go as often as they like. A second exploration adds one cancellation and
/// one retry now, at any moment. Both look at the nearest states, and at all of them with `RETRY_EXPLORE_WHOLE` in the environment;
/// what is left out is printed. With `RETRY_EXPLORE` there are three jobs; with a number for `RETRY_EXPLORE_ALL` all kinds of
/// failures and three epochs of each scope, and so many of the nearest states, for those have no end that could be waited for.
/// These three are for builds with optimization: `swift test -c release -Xswiftc -enable-testing`.
@Suite(.serialized, .timeLimit(.minutes(60))) struct CoreExhaustiveTests {
    typealias Setting = CoreWorld.Setting

    private static let isWide = getenv("RETRY_EXPLORE") != nil
    private static let isWhole = getenv("RETRY_EXPLORE_WHOLE") != nil
    /// The states that a build without optimization explores in some five seconds, and those with cancellations and retries now
    /// that it explores in about one.
    private static let nearest = (plain: 5000, cancelled: 2000)
    private static let most = getenv("RETRY_EXPLORE_ALL").flatMap { Int(String(cString: $0)) }

    /// The first two jobs, or all.
    private static func setting(
        _ name: String, _ release: ReleasePolicy = .immediate, maxConcurrent: Int? = nil, scopes: Int = 2, jobs: [Setting.Job]
    ) -> Setting {
        if most != nil { return Setting(name: name, release: release, maxConcurrent: maxConcurrent, jobs: jobs, scopes: scopes) }
        return Setting(
            name: name, release: release, maxConcurrent: maxConcurrent, jobs: isWide ? jobs : Array(jobs.prefix(2)),
            scopes: scopes, epochs: nil, retryNows: 0, cancellations: 0, failures: [.connectivity, .server], delays: [1000])
    }

    private static func gated(interactiveBypass: Int, rate: Double? = nil) -> ReleasePolicy {
        var policy = ReleasePolicy.gated(
            maxInFlight: 2, interactiveBypass: interactiveBypass, rate: rate, backoff: .milliseconds(500),
            maximumBackoff: .seconds(1))
        policy.rules.isJittered = false
        return policy
    }

    private static let settings = [
        setting(
            "immediate",
            jobs: [
                Setting.Job(variant: Variant(most: 2, elapsed: 1700)), Setting.Job(scope: 1),
                Setting.Job(variant: Variant(mode: .accelerate, most: 2)),
            ]),
        setting(
            "immediate, other conditions",
            jobs: [
                Setting.Job(others: [1]), Setting.Job(variant: Variant(most: 2, elapsed: 1200, waitLimit: 700), scope: 1),
                Setting.Job(variant: Variant(mode: .ignore, most: 2), scope: 1),
            ]),
        setting("gated", gated(interactiveBypass: 1), jobs: [Setting.Job(), Setting.Job(scope: 1), Setting.Job()]),
        setting(
            "gated, one destination", gated(interactiveBypass: 1), scopes: 1,
            jobs: [Setting.Job(destination: "a"), Setting.Job(destination: "a"), Setting.Job(destination: "a")]),
        setting(
            "gated, with a deadline", gated(interactiveBypass: 1), scopes: 1,
            jobs: [Setting.Job(destination: "a"), Setting.Job(variant: Variant(most: 2, elapsed: 1700), destination: "a")]),
        setting(
            "gated, bulk", gated(interactiveBypass: 1), scopes: 1,
            jobs: [Setting.Job(priority: .bulk), Setting.Job(priority: .interactive)]),
        setting(
            "gated, with a bypass", gated(interactiveBypass: 1), scopes: 1,
            jobs: [Setting.Job(), Setting.Job(priority: .interactive), Setting.Job(priority: .interactive)]),
        setting(
            "gated, without a bypass", gated(interactiveBypass: 0), scopes: 1,
            jobs: [Setting.Job(variant: Variant(most: 2, grace: 0)), Setting.Job(priority: .interactive), Setting.Job()]),
        setting(
            "gated, at a rate", gated(interactiveBypass: 1, rate: 1), scopes: 1,
            jobs: [Setting.Job(), Setting.Job(), Setting.Job()]),
        setting(
            "gated, one at a time", gated(interactiveBypass: 1), maxConcurrent: 1,
            jobs: [Setting.Job(), Setting.Job(scope: 1), Setting.Job()]),
        setting(
            "paced", .paced(perSecond: 1), scopes: 1, jobs: [Setting.Job(), Setting.Job(priority: .interactive), Setting.Job()]),
    ]

    @Test(arguments: settings.map(\.name)) func invariantsHoldInEveryState(name: String) throws {
        let setting = try #require(Self.settings.first { $0.name == name })
        let isWhole = Self.isWhole || Self.isWide
        let outcome = try explore(setting, most: isWhole ? .max : Self.most ?? Self.nearest.plain)
        #expect(outcome.isComplete || !isWhole)
        #expect(outcome.states >= Self.most ?? Self.nearest.plain || outcome.isComplete)
    }

    @Test(arguments: settings.map(\.name)) func invariantsHoldWithCancellationsAndRetryNow(name: String) throws {
        var setting = try #require(Self.settings.first { $0.name == name })
        (setting.name, setting.retryNows, setting.cancellations) = ("\(name), cancelled and retried now", 1, 1)
        let outcome = try explore(setting, most: Self.isWhole ? .max : Self.most ?? Self.nearest.cancelled)
        #expect(outcome.isComplete || !Self.isWhole)
        #expect(outcome.depth >= 5, "a job has begun, failed, waited, and was cancelled or retried within so many steps")
    }

    private func explore(_ setting: Setting, most: Int) throws -> CoreExploration.Outcome {
        let clock = ContinuousClock()
        let start = clock.now
        let outcome = CoreExploration.explore(setting, most: most)
        let time = clock.now - start
        let reach = outcome.isComplete ? "all there are" : "all within \(outcome.depth) steps of the beginning"
        print("\(setting.name): \(outcome.states) states, \(outcome.steps) steps between them, \(reach), in \(time)")
        if !outcome.isComplete {
            print("\(setting.name): left out: what follows from \(outcome.unexplored) of these states")
        }
        #expect(outcome.fault == nil, "\(outcome.fault ?? "")")
        return outcome
    }
}
