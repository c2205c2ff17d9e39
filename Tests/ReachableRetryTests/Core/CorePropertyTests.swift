import ReachableRetry
import TestTraits
import Testing

/// Compares the core with a model of the rules on random scripts.
@Suite(.timeLimit(.minutes(10)), .computing) struct CorePropertyTests {
    @Test(arguments: [1, 2, 3, 4, 5] as [UInt64]) func coreFollowsTheModel(seed: UInt64) {
        ScriptPlayer.play(seed: seed) { script throws(CoreRun.Fault) in try CoreRun.play(script) }
    }

    private static let policies = [
        ReleasePolicy.gated, .gated(maxInFlight: 2, interactiveBypass: 1, rate: 2, spread: .seconds(10)),
        .paced(perSecond: 5, burst: 2),
    ]

    @Test(arguments: [6, 7, 8, 9, 10] as [UInt64], policies)
    func gatesKeepTheirLimitsAndReleaseEveryJob(seed: UInt64, release: ReleasePolicy) {
        ScriptPlayer.play(seed: seed, count: 30) { script throws(CoreRun.Fault) in try CoreRun.play(script, release) }
        ScriptPlayer.play(seed: seed, count: 30) { script throws(CoreRun.Fault) in
            try CoreRun.play(script, release, maxConcurrent: 2)
        }
    }
}
