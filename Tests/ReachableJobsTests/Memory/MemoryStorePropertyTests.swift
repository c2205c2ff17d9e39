import Glibc
import TestTraits
import Testing

/// Random histories give the answers that the promises demand.
@Suite(.timeLimit(.minutes(20)), .computing)
struct MemoryStorePropertyTests {
    /// STORE_SEEDS is the number of histories, STORE_SEED the first one.
    private static let seeds: Range<UInt64> = {
        func number(_ name: String) -> UInt64? { getenv(name).flatMap { UInt64(String(cString: $0)) } }
        let first = number("STORE_SEED") ?? 1
        return first..<first + (number("STORE_SEEDS") ?? 20)
    }()

    @Test func answersAreThoseOfOracle() async throws {
        for seed in Self.seeds {
            var history = StoreHistory(seed: seed)
            guard let flaw = try await history.run(150) else { continue }
            Issue.record(
                "STORE_SEED=\(seed): \(flaw)\nafter \(history.calls.count) calls:\n\(history.calls.joined(separator: "\n"))")
            return
        }
    }
}
