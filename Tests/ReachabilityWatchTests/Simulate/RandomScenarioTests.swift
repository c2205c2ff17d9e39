import Glibc
import ReachabilityTesting
import TestSupport
import Testing

@testable import CommandKit
@testable import reachability_watch

/// Scenarios with extreme values and random mistakes.
@Suite(.timeLimit(.minutes(10)), .computing) struct RandomScenarioTests {
    /// The statements: one of each line, or none.
    private static let statements = """
        network eth0 192.0.2.10/24 via 192.0.2.1 unplugged|network eth0 192.0.2.10/24 via 192.0.2.1
        network wlan0 2001:db8::1/64 via fe80::1|network wlan0 198.51.100.10/24 via 198.51.100.1
        at 5s pull eth0|at 5s down eth0|at 1s default none
        at 0s plug eth0|at 6s plug eth0|at 3s up eth0
        at 36500d default wlan0|at 4s default wlan0
        at 4s suspend 36500d|at 7s suspend 8h
        at 1ms retry-now
        server photos answers 503 retry-after 36500d from 1s to 3d|server photos answers 503 retry-after 1s from 1s to 3d
        server photos refuses from 0s to 1s|server photos answers 500 from 0s to 1m
        server photos drops|server photos unreachable from 0s to 1h
        policy p --backoff exponential:1s..30s --jitter decorrelated --attempts 3|policy p --deadline 0s --attempt-timeout 1ms
        policy default --backoff linear:0s+1d --connectivity accelerate --attempts 20|policy default --backoff immediate
        job a at 36500d to photos policy p takes 36500d|job a to photos policy p
        job b
        jobs 20 c every 36500d priority bulk takes 0s|jobs 50 c every 1ms priority bulk to photos
        jobs 3 d at 1s to photos priority interactive
        release paced 0.001|release spread 36500d|release immediate
        timeout 36500d|timeout 1ms
        until 36500d|until 1ms|until 1h
        """.split(separator: "\n").map { $0.split(separator: "|").map(String.init) }

    private func scenario(seed: UInt64) -> String {
        var random = SeededGenerator(seed: seed)
        let words = Self.statements.joined().flatMap { $0.split(separator: " ") }
        let lines = Self.statements.shuffled(using: &random).compactMap { alternatives -> String? in
            let isLeftOut = Int.random(in: 0..<3, using: &random) == 0
            guard !isLeftOut, let line = alternatives.randomElement(using: &random) else { return nil }
            var parts = line.split(separator: " ")
            if Int.random(in: 0..<64, using: &random) == 0, let word = words.randomElement(using: &random) {
                parts[Int.random(in: parts.indices, using: &random)] = word
            }
            return parts.joined(separator: " ")
        }
        return lines.joined(separator: "\n")
    }

    /// `SIMULATE_SCENARIOS` sets their number, and `SIMULATE_SEED` the seed of the first one.
    @Test func everyScenarioEnds() async throws {
        let (first, count): (UInt64, UInt64) = (variable("SIMULATE_SEED") ?? 1, variable("SIMULATE_SCENARIOS") ?? 40)
        var understood = 0
        for seed in first..<first + count {
            let text = scenario(seed: seed)
            guard let scenario = try? ScenarioParser.parse(Array(text.utf8)) else { continue }
            understood += 1
            let simulation = try await Simulation(scenario, name: "x", seed: seed, mostAttempts: 300)
            let lines =
                SimulationText(simulation: simulation).lines + SimulationJSON(simulation: simulation).lines.map(\.description)
            #expect(lines.allSatisfy(isHarmless) && SimulationPicture(simulation).svg.hasSuffix("</svg>"), "seed \(seed):\n\(text)")
            for (_, record) in simulation.runs {
                let isOrdered = zip(record.attempts, record.attempts.dropFirst()).allSatisfy { $0.start <= $1.start }
                let isWithin = record.attempts.allSatisfy { $0.start <= $0.end && $0.end <= record.end }
                #expect(isOrdered && isWithin && record.attempts.count <= 300 + scenario.jobs.count, "seed \(seed):\n\(text)")
            }
        }
        #expect(understood * 4 >= count, "most of them have a mistake")
    }
}
