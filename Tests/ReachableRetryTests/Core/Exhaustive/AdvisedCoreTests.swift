import Glibc
import StateExploration
import TestTraits
import Testing

@testable import ReachableRetry

/// A core that receives any advice at any time: all its invariants hold, and its jobs end.
struct AdvisedWorld: ExplorableWorld {
    enum Step: CustomStringConvertible {
        case core(CoreWorld.Step)
        case advise(SiteAdvice)

        var description: String {
            switch self {
            case .core(let step): step.description
            case .advise(let advice): "advice: \(advice)"
            }
        }
    }

    struct Fingerprint: Hashable {
        var core: CoreFingerprint
        var adviceLeft: Int
        var turns: [Turn]
    }

    /// The facts that the future depends on, relative to now.
    struct Turn: Hashable {
        var until: Int64
        var pausedUntil: Int64
        var reason: SiteDelay
        var hasAnswer: Bool
        var shares: [Int]
        var spent: [Int64]
        var pauseShare: Int
    }

    static let advice: [SiteAdvice] = [.hold(.seconds(60)), .free(after: .zero, share: 1), .free(after: .seconds(60), share: 3)]

    var world: CoreWorld
    var adviceLeft: Int

    init(_ setting: CoreWorld.Setting, advice: Int) {
        world = CoreWorld(setting)
        world.core = RetryBusCore(release: setting.release, maxConcurrent: setting.maxConcurrent, seed: 1, sharesSite: true)
        for (index, scope) in world.scopes.enumerated() {
            _ = world.core.addCondition(
                Level(isSatisfied: scope.isUp), isReachability: index < setting.scopes, unknownUntil: .start)
        }
        adviceLeft = advice
    }

    private var gates: [GateState] { world.core.gates.all(to: "a").map { world.core.gates[$0] } }

    var fingerprint: Fingerprint {
        let now = world.time
        func until(_ time: BusTime) -> Int64 { time <= now ? 0 : time.nanoseconds - now.nanoseconds }
        let turns = gates.map { gate in
            let turn = gate.site
            let (held, turned) = turn.spent(at: now)
            return Turn(
                until: until(turn.until), pausedUntil: until(turn.pausedUntil), reason: turn.reason, hasAnswer: turn.hasAnswer,
                shares: [turn.share, turn.told, min(turn.successes, 8), turn.failures],
                spent: [BusTime(held).nanoseconds, BusTime(turned).nanoseconds], pauseShare: turn.pause?.share ?? 0)
        }
        return Fingerprint(core: world.fingerprint, adviceLeft: adviceLeft, turns: turns)
    }

    func steps() -> [Step] {
        let advice = adviceLeft > 0 && !gates.isEmpty ? Self.advice.map(Step.advise) : []
        return world.steps().map(Step.core) + advice
    }

    mutating func play(_ step: Step) throws {
        switch step {
        case .core(let step): try world.play(step)
        case .advise(let advice):
            adviceLeft -= 1
            try world.apply(world.core.take(advice, for: "a", at: world.time))
            try world.settle()
        }
        _ = world.core.takeSiteReports()
        for gate in gates {
            let turn = gate.site
            let (held, turned) = turn.spent(at: world.time)
            try world.check(held <= .seconds(5) && turned <= .seconds(10), "others delay jobs for \(held) and \(turned)")
            let left = turn.reason == .hold ? .seconds(5) - held : .seconds(10) - turned
            try world.check(turn.until <= world.time + left, "a delay exceeds what is left: \(turn)")
            try world.check(!turn.hasAnswer || turn.until <= world.time, "a delay outlives an answer")
            try world.check(turn.pausedUntil <= world.time + .seconds(60), "a pause is too long")
        }
    }

    var undisturbed: AdvisedWorld {
        var world = self
        world.adviceLeft = 0
        return world
    }

    func stepTowardsTheEnd() throws -> Step? { try world.stepTowardsTheEnd().map(Step.core) }
    func checkEnd() throws { try world.checkEnd() }
}

@Suite(.serialized, .timeLimit(.minutes(60)), .computing) struct AdvisedCoreTests {
    private static let isWhole = getenv("RETRY_EXPLORE_WHOLE") != nil

    private static func setting(_ name: String, _ jobs: [CoreWorld.Setting.Job]) -> CoreWorld.Setting {
        var policy = ReleasePolicy.gated(
            maxInFlight: 2, interactiveBypass: 1, backoff: .milliseconds(500), maximumBackoff: .seconds(1))
        policy.rules.isJittered = false
        return CoreWorld.Setting(
            name: name, release: policy, jobs: jobs, scopes: 1, epochs: 2, retryNows: 0, cancellations: 0,
            failures: [.connectivity, .server], delays: [1000])
    }

    private static let settings = [
        setting("two jobs", [CoreWorld.Setting.Job(destination: "a"), CoreWorld.Setting.Job(destination: "a")]),
        setting(
            "bulk and interactive",
            [
                CoreWorld.Setting.Job(destination: "a", priority: .bulk),
                CoreWorld.Setting.Job(destination: "a", priority: .interactive),
            ]),
    ]

    @Test(arguments: settings.map(\.name)) func invariantsHoldWithAnyAdvice(name: String) throws {
        let setting = try #require(Self.settings.first { $0.name == name })
        let outcome = Exploration.explore(AdvisedWorld(setting, advice: 2), limit: Self.isWhole ? .max : 3000)
        print("\(name), with any advice: \(outcome.summary)")
        #expect(outcome.fault == nil, "\(outcome.fault ?? "")")
        #expect(outcome.isComplete || !Self.isWhole && outcome.states >= 3000)
    }
}
