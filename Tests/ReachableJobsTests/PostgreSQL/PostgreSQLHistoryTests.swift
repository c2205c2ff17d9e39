#if PostgreSQL
import Glibc
import Testing

@testable import ReachableJobs

/// Random histories give the answers that the promises demand.
@Suite(.enabled(if: hasPostgreSQL, "run them with Scripts/postgresql"), .timeLimit(.minutes(20)))
struct PostgreSQLHistoryTests {
    /// STORE_SEEDS is the number of histories, STORE_SEED the first one.
    private static let seeds: Range<UInt64> = {
        func number(_ name: String) -> UInt64? { getenv(name).flatMap { UInt64(String(cString: $0)) } }
        let first = number("STORE_SEED") ?? 1
        return first..<first + (number("STORE_SEEDS") ?? 20)
    }()

    @Test func answersAreThoseOfOracle() async throws {
        for seed in Self.seeds {
            let bench = try await PostgreSQLStoreBench()
            let subject = StoreHistory.Subject(
                store: bench.store, passTime: { try await bench.jump($0) }, notice: { try await bench.notice() },
                crash: { worker in
                    try await bench.endProcess(of: worker)
                    try await bench.run("SELECT reachable_bury('machine', ARRAY[$1])", [.int(worker.rawValue)])
                },
                reboot: {
                    try await bench.run("UPDATE reachable_workers SET heartbeat = -1000000000000")
                    try await bench.notice()
                }, hasOwnNumbers: true)
            var history = StoreHistory(seed: seed, subject)
            guard let flaw = try await history.run(150) else { continue }
            Issue.record(
                "STORE_SEED=\(seed): \(flaw)\nafter \(history.calls.count) calls:\n\(history.calls.joined(separator: "\n"))")
            return
        }
    }
}
#endif
