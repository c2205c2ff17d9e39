import Glibc
import StateExploration
import TestSupport
import Testing

@testable import ReachableRetry

/// Checks the invariants in every reachable state of the core.
///
/// Two jobs and two scopes, or a scope and a condition of the program, which may change any number of times. A second exploration
/// adds one cancellation and one call to retry now, at any moment. Both explore the nearest states and print how many they left
/// out. Environment variables widen them:
///
/// - `RETRY_EXPLORE_WHOLE`: all states.
/// - `RETRY_EXPLORE`: three jobs.
/// - `RETRY_EXPLORE_ALL`, a number: this many states, with all failures and three epochs of each scope, because that exploration
///   takes too long to finish.
///
/// Use these three with optimization: `swift test -c release -Xswiftc -enable-testing`.
@Suite(.serialized, .timeLimit(.minutes(60)), .computing) struct CoreExhaustiveTests {
    typealias Setting = CoreWorld.Setting

    private static let isWide = getenv("RETRY_EXPLORE") != nil
    private static let isWhole = getenv("RETRY_EXPLORE_WHOLE") != nil
    /// The number of states to explore: without optimization about 2 s, and half a second with cancellations and retry now.
    private static let nearest = (plain: 2000, cancelled: 1000)
    private static let statesFromEnvironment = getenv("RETRY_EXPLORE_ALL").flatMap { Int(String(cString: $0)) }

    /// Returns a setting with the first two jobs, or with all.
    private static func setting(
        _ name: String, _ release: ReleasePolicy = .immediate, maxConcurrent: Int? = nil, scopes: Int = 2, sources: Int = 0,
        jobs: [Setting.Job]
    ) -> Setting {
        if statesFromEnvironment != nil {
            return Setting(
                name: name, release: release, maxConcurrent: maxConcurrent, jobs: jobs, scopes: scopes, sources: sources)
        }
        return Setting(
            name: name, release: release, maxConcurrent: maxConcurrent, jobs: isWide ? jobs : Array(jobs.prefix(2)),
            scopes: scopes, sources: sources, epochs: nil, retryNows: 0, cancellations: 0, failures: [.connectivity, .server],
            delays: [1000])
    }

    /// Returns a setting with all of its jobs, because some wait for others.
    private static func nested(
        _ name: String, _ release: ReleasePolicy, maxConcurrent: Int? = nil, jobs: [Setting.Job]
    ) -> Setting {
        var setting = setting(name, release, maxConcurrent: maxConcurrent, jobs: jobs)
        setting.jobs = jobs
        return setting
    }

    private static func gated(interactiveBypass: Int, rate: Double? = nil) -> ReleasePolicy {
        var policy = ReleasePolicy.tuned(
            maxInFlight: 2, interactiveBypass: interactiveBypass, rate: rate, backoff: .milliseconds(500),
            maximumBackoff: .seconds(1))
        policy.rules.isJittered = false
        return policy
    }

    private static let settings = [
        setting(
            "immediate",
            jobs: [
                Setting.Job(variant: Variant(maxAttempts: 2, elapsed: 1700)), Setting.Job(scope: 1),
                Setting.Job(variant: Variant(mode: .accelerate, maxAttempts: 2)),
            ]),
        setting(
            "immediate, other conditions",
            jobs: [
                Setting.Job(others: [1]), Setting.Job(variant: Variant(maxAttempts: 2, elapsed: 1200, waitLimit: 700), scope: 1),
                Setting.Job(variant: Variant(mode: .ignore, maxAttempts: 2), scope: 1),
            ]),
        setting(
            "immediate, a condition of the program", scopes: 1, sources: 1,
            jobs: [
                Setting.Job(others: [1]), Setting.Job(variant: Variant(mode: .ignore, maxAttempts: 2), others: [1]),
                Setting.Job(variant: Variant(mode: .accelerate, maxAttempts: 2), others: [1]),
            ]),
        setting(
            "gated, a condition of the program", gated(interactiveBypass: 1), scopes: 1, sources: 1,
            jobs: [Setting.Job(others: [1]), Setting.Job(others: [1]), Setting.Job()]),
        setting("gated", gated(interactiveBypass: 1), jobs: [Setting.Job(), Setting.Job(scope: 1), Setting.Job()]),
        setting(
            "gated, one destination", gated(interactiveBypass: 1), scopes: 1,
            jobs: [Setting.Job(destination: "a"), Setting.Job(destination: "a"), Setting.Job(destination: "a")]),
        setting(
            "gated, with a deadline", gated(interactiveBypass: 1), scopes: 1,
            jobs: [Setting.Job(destination: "a"), Setting.Job(variant: Variant(maxAttempts: 2, elapsed: 1700), destination: "a")]),
        setting(
            "gated, bulk", gated(interactiveBypass: 1), scopes: 1,
            jobs: [Setting.Job(priority: .bulk), Setting.Job(priority: .interactive)]),
        setting(
            "gated, with a bypass", gated(interactiveBypass: 1), scopes: 1,
            jobs: [Setting.Job(), Setting.Job(priority: .interactive), Setting.Job(priority: .interactive)]),
        setting(
            "gated, without a bypass", gated(interactiveBypass: 0), scopes: 1,
            jobs: [Setting.Job(variant: Variant(maxAttempts: 2, grace: 0)), Setting.Job(priority: .interactive), Setting.Job()]),
        setting(
            "gated, at a rate", gated(interactiveBypass: 1, rate: 1), scopes: 1,
            jobs: [Setting.Job(), Setting.Job(), Setting.Job()]),
        setting(
            "gated, one at a time", gated(interactiveBypass: 1), maxConcurrent: 1,
            jobs: [Setting.Job(), Setting.Job(scope: 1), Setting.Job()]),
        nested(
            "nested, one at a time", gated(interactiveBypass: 1), maxConcurrent: 1,
            jobs: [
                Setting.Job(variant: Variant(mode: .accelerate, maxAttempts: 2)), Setting.Job(scope: 1, parent: 0),
                Setting.Job(joiners: [0, 1]),
            ]),
        nested(
            "nested, two at once", .immediate, maxConcurrent: 2,
            jobs: [
                Setting.Job(variant: Variant(mode: .accelerate, maxAttempts: 2)), Setting.Job(scope: 1, parent: 0),
                Setting.Job(scope: 1, parent: 0),
            ]),
        nested(
            "nested, with a destination", gated(interactiveBypass: 1),
            jobs: [
                Setting.Job(destination: "a"), Setting.Job(destination: "a", parent: 0),
                Setting.Job(scope: 1, destination: "a", parent: 1, joiners: [0]),
            ]),
        nested(
            "joined in a chain", gated(interactiveBypass: 1), maxConcurrent: 1,
            jobs: [Setting.Job(), Setting.Job(scope: 1, joiners: [0]), Setting.Job(joiners: [0, 1])]),
        setting(
            "paced", .paced(perSecond: 1), scopes: 1, jobs: [Setting.Job(), Setting.Job(priority: .interactive), Setting.Job()]),
    ]

    @Test(arguments: settings.map(\.name)) func invariantsHoldInEveryState(name: String) throws {
        let setting = try #require(Self.settings.first { $0.name == name })
        let isWhole = Self.isWhole || Self.isWide
        let outcome = try explore(setting, limit: isWhole ? .max : Self.statesFromEnvironment ?? Self.nearest.plain)
        #expect(outcome.isComplete || !isWhole)
        #expect(outcome.states >= Self.statesFromEnvironment ?? Self.nearest.plain || outcome.isComplete)
    }

    @Test(arguments: settings.map(\.name)) func invariantsHoldWithCancellationsAndRetryNow(name: String) throws {
        var setting = try #require(Self.settings.first { $0.name == name })
        (setting.name, setting.retryNows, setting.cancellations) = ("\(name), cancelled and retried now", 1, 1)
        let nearest = Self.nearest.cancelled * max(1, setting.jobs.count - 1)
        let outcome = try explore(setting, limit: Self.isWhole ? .max : Self.statesFromEnvironment ?? nearest)
        #expect(outcome.isComplete || !Self.isWhole)
        #expect(outcome.depth >= 5, "within this many steps a job starts, fails, waits, and is cancelled or retried now")
    }

    private func explore(_ setting: Setting, limit: Int) throws -> Exploration<CoreWorld>.Outcome {
        let clock = ContinuousClock()
        let start = clock.now
        let outcome = Exploration.explore(CoreWorld(setting), limit: limit)
        print("\(setting.name): \(outcome.summary), in \(clock.now - start)")
        #expect(outcome.fault == nil, "\(outcome.fault ?? "")")
        return outcome
    }
}
