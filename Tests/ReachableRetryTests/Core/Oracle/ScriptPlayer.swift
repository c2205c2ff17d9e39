import Glibc
import ReachabilityTesting
import Testing

/// Plays random scripts, and shrinks a failing one.
enum ScriptPlayer {
    typealias Play = ([CoreStep]) throws(OracleRun.Fault) -> Void

    /// The number of scripts for a seed, from `RETRY_SCRIPTS` in the environment.
    private static let countFromEnvironment = getenv("RETRY_SCRIPTS").flatMap { Int(String(cString: $0)) }

    static func play(seed: UInt64, count: Int = 100, isCrowd: Bool = false, _ play: Play) {
        var random = SeededGenerator(seed: seed)
        for number in 0..<(countFromEnvironment ?? count) {
            let length = Int.random(in: 1...120, using: &random)
            let script = isCrowd ? CoreStep.crowd(length, using: &random) : CoreStep.script(length, using: &random)
            do {
                try play(script)
            } catch {
                let (shortest, fault) = shrink(script, error, play)
                let text = shortest.map { "\($0)" }.joined(separator: "\n")
                Issue.record("seed \(seed), script \(number): \(fault)\n\(text)")
                return
            }
        }
    }

    /// Returns a shorter script that still fails, found by leaving out steps.
    private static func shrink(_ script: [CoreStep], _ fault: OracleRun.Fault, _ play: Play) -> ([CoreStep], OracleRun.Fault) {
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
