import ReachableRetry
import TestSupport
import Testing

/// Compares the core with a naive oracle on random scripts.
///
/// Jitter is included: both draw from the same random sequence.
@Suite(.timeLimit(.minutes(10)), .computing) struct CoreOracleTests {
    /// Fewer scripts than elsewhere, because the oracle is slow.
    private static let count = 40

    private static let settings: [OracleRun.Setting] = [
        .init(name: "immediate", release: .immediate, budget: .throttle(capacity: 5, ratio: 500)),
        .init(name: "immediate, two at a time", release: .immediate, maxConcurrent: 2),
        .init(name: "gated", release: .gated, budget: .bucket(capacity: 12, cost: 5, timeoutCost: 10, reward: 1)),
        .init(name: "gated, three at a time", release: .gated, maxConcurrent: 3),
        .init(name: "gated, six at a time, two of a destination", release: .gated, maxConcurrent: 6, maxPerDestination: 2),
        .init(name: "immediate, six at a time", release: .immediate, maxConcurrent: 6),
        .init(
            name: "gated, narrow, slow and spread",
            release: .tuned(maxInFlight: 3, interactiveBypass: 1, rate: 2, spread: .seconds(10))),
        .init(name: "paced", release: .paced(perSecond: 5, burst: 2)),
        .init(name: "paced, two at a time", release: .paced(perSecond: 5, burst: 2), maxConcurrent: 2),
        .init(name: "spread", release: .spread(over: .seconds(10))),
        .init(name: "gated, one of ten machines", release: .gated, fleetSize: 10),
        .init(name: "gated, one of two thousand", release: .tuned(maxInFlight: 6, interactiveBypass: 1), fleetSize: 2000),
    ]

    @Test(arguments: settings) func coreAgreesWithTheOracle(setting: OracleRun.Setting) {
        ScriptPlayer.play(seed: 11, count: Self.count) { script throws(OracleRun.Fault) in
            try OracleRun.play(script, setting, seed: 7)
        }
    }

    @Test(arguments: settings) func coreReleasesCrowdsLikeTheOracle(setting: OracleRun.Setting) {
        ScriptPlayer.play(seed: 12, count: 15, isCrowd: true) { script throws(OracleRun.Fault) in
            try OracleRun.play(script, setting, seed: 8)
        }
    }
}
