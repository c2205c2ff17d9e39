#if PostgreSQL
import Testing

@testable import ReachableJobs

/// Random histories give the answers that the promises demand.
@Suite(.enabled(if: hasPostgreSQL, "run them with Scripts/postgresql"), .timeLimit(.minutes(20)))
struct PostgreSQLHistoryTests {
    @Test func answersAreThoseOfOracle() async throws {
        try await StoreHistory.check {
            let bench = try await PostgreSQLStoreBench()
            return StoreHistory.Subject(
                store: bench.store, passTime: { try await bench.jump($0) }, notice: { try await bench.notice() },
                crash: { worker in
                    try await bench.endProcess(of: worker)
                    try await bench.run("SELECT reachable_remove_ended('machine', ARRAY[$1])", [.int(worker.rawValue)])
                },
                reboot: { try await bench.reboot() })
        }
    }
}
#endif
