import Glibc
import Testing

@testable import ReachableRetry

/// The core in every state that it can be in, within bounds: what the rules promise holds in each.
///
/// With `RETRY_EXPLORE` in the environment, a number of states, there are three jobs and three epochs of each scope; with
/// `RETRY_EXPLORE_ALL` besides also all kinds of failures, nudges and cancellations. That is for builds with optimization: `swift
/// test -c release -Xswiftc -enable-testing`.
@Suite(.serialized, .timeLimit(.minutes(60))) struct CoreExhaustiveTests {
    typealias Setting = CoreWorld.Setting

    /// How many states are looked at of each setting, the nearest first; more than the usual ones with wide bounds.
    private static let wide = getenv("RETRY_EXPLORE").flatMap { Int(String(cString: $0)) }
    private static let usual = 2000
    private static let hasAll = getenv("RETRY_EXPLORE_ALL") != nil

    /// The first two jobs, or all, as the bounds allow.
    private static func setting(
        _ name: String, _ release: ReleasePolicy = .immediate, maxConcurrent: Int? = nil, scopes: Int = 2, jobs: [Setting.Job]
    ) -> Setting {
        if hasAll { return Setting(name: name, release: release, maxConcurrent: maxConcurrent, jobs: jobs, scopes: scopes) }
        return Setting(
            name: name, release: release, maxConcurrent: maxConcurrent, jobs: wide == nil ? Array(jobs.prefix(2)) : jobs,
            scopes: scopes, epochs: wide == nil ? 1 : 3, nudges: 0, cancellations: 0, failures: [.connectivity, .server],
            delays: [1000])
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
        setting(
            "gated", gated(interactiveBypass: 1),
            jobs: [
                Setting.Job(destination: "a"), Setting.Job(variant: Variant(most: 2, elapsed: 1700), destination: "a"),
                Setting.Job(scope: 1),
            ]),
        setting(
            "gated, one scope", gated(interactiveBypass: 1), scopes: 1,
            jobs: [
                Setting.Job(destination: "a"), Setting.Job(destination: "a", priority: .bulk), Setting.Job(priority: .interactive),
            ]),
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

    @Test(arguments: settings.map(\.name)) func whatIsPromisedHoldsInEveryState(name: String) throws {
        let setting = try #require(Self.settings.first { $0.name == name })
        let clock = ContinuousClock()
        let start = clock.now
        let outcome = CoreExploration.explore(
            setting, most: Self.wide ?? Self.usual)
        let time = clock.now - start
        let reach = outcome.isComplete ? "all there are" : "all within \(outcome.depth) steps of the beginning"
        print("\(name): \(outcome.states) states, \(outcome.steps) steps between them, \(reach), in \(time)")
        #expect(outcome.fault == nil, "\(outcome.fault ?? "")")
    }
}
