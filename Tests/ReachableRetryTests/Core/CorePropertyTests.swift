import Glibc
import ReachabilityTesting
import ReachableRetry
import Testing

/// The core against a model of the rules, on scripts by chance.
@Suite(.timeLimit(.minutes(10))) struct CorePropertyTests {
    /// How many scripts a seed stands for; more with `RETRY_SCRIPTS` in the environment.
    private static let count = getenv("RETRY_SCRIPTS").flatMap { Int(String(cString: $0)) } ?? 100

    @Test(arguments: [1, 2, 3, 4, 5] as [UInt64]) func theCoreDoesWhatTheRulesSay(seed: UInt64) {
        play(seed) { script throws(CoreRun.Fault) in try CoreRun.play(script) }
    }

    private static let policies = [
        ReleasePolicy.gated, .gated(maxInFlight: 2, interactiveBypass: 1, rate: 2, spread: .seconds(10)),
        .paced(perSecond: 5, burst: 2),
    ]

    @Test(arguments: [6, 7, 8, 9, 10] as [UInt64], policies)
    func gatesHoldTheirLimitsAndLetEverybodyThrough(seed: UInt64, release: ReleasePolicy) {
        play(seed) { script throws(CoreRun.Fault) in try CoreRun.play(script, release) }
        play(seed) { script throws(CoreRun.Fault) in try CoreRun.play(script, release, maxConcurrent: 2) }
    }

    private func play(_ seed: UInt64, _ play: ([CoreStep]) throws(CoreRun.Fault) -> Void) {
        var random = SeededGenerator(seed: seed)
        for number in 0..<Self.count {
            let script = CoreStep.script(Int.random(in: 1...120, using: &random), using: &random)
            do {
                try play(script)
            } catch {
                let (shortest, fault) = Self.shrink(script, error, play)
                let text = shortest.map { "\($0)" }.joined(separator: "\n")
                Issue.record("seed \(seed), script \(number): \(fault)\n\(text)")
                return
            }
        }
    }

    /// The shortest script that still fails, by leaving out steps.
    private static func shrink(
        _ script: [CoreStep], _ fault: CoreRun.Fault, _ play: ([CoreStep]) throws(CoreRun.Fault) -> Void
    ) -> ([CoreStep], CoreRun.Fault) {
        var (best, fault) = (script, fault)
        var size = max(1, best.count / 2)
        while true {
            var hasShrunk = false
            var start = 0
            while start < best.count {
                var shorter = best
                shorter.removeSubrange(start..<min(start + size, best.count))
                do {
                    try play(shorter)
                    start += size
                } catch {
                    (best, fault, hasShrunk) = (shorter, error, true)
                }
            }
            if size == 1, !hasShrunk { return (best, fault) }
            size = max(1, size / 2)
        }
    }
}
