import Synchronization
import TestSupport
import Testing

/// After any burst of changes the monitor agrees with the kernel, and its transitions follow the rules.
///
/// `FUZZ_SEEDS` sets the seeds: numbers separated by commas, or `FIRST-LAST`. `FUZZ_BURSTS` sets the number of bursts per seed,
/// and `FUZZ_REDUCTION` the number of seconds for reducing a failure.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(120)), .serialized)
struct FuzzTests {
    @Test(arguments: Limits.seeds)
    func monitorMatchesKernelAfterEveryBurst(seed: UInt64) async throws {
        var generator = ChangeGenerator(seed: seed)
        let history = FuzzHistory((0..<Limits.bursts).map { _ in generator.burst() })
        let outcome = try await history.play()
        print("Fuzzing, seed \(seed): \(outcome)")
        guard let divergence = outcome.divergence else {
            #expect(outcome.transitions > 0, "seed \(seed): nothing ever happened")
            return
        }
        let shortened = try await history.upTo(outcome.bursts).reduced(within: .seconds(Limits.reduction))
        Issue.record(
            """
            seed \(seed), burst \(outcome.bursts): \(divergence)
            \(shortened.isReproduced ? "Reproduced by:" : "Not reproduced. The whole history:")
            \(shortened.history)
            With: \(shortened.isReproduced ? try await shortened.history.play().divergence ?? "agreement this time" : "-")
            """)
    }

    enum Limits {
        static let bursts = variable("FUZZ_BURSTS") ?? 50
        static let reduction = variable("FUZZ_REDUCTION") ?? 60
        static let seeds = NamespaceTests.seeds("FUZZ_SEEDS")
    }
}
