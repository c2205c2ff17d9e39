#if PostgreSQL
import ReachabilityTesting
import Testing

@testable import ReachableJobs

/// The requirements of all stores, and random histories that give the answers of the memory store.
@Suite(.enabled(if: hasPostgreSQL, "run them with Scripts/postgresql"), .timeLimit(.minutes(20)))
struct PostgreSQLConformanceTests {
    @Test func theStoreMeetsTheRequirements() async throws {
        try await JobStoreConformance.check {
            let bench = try await PostgreSQLStoreBench()
            return .init(
                store: bench.store, peer: bench.peer(), passTime: { try await bench.pass($0) },
                // A worker of the same machine looks for processes that have ended.
                crash: { worker in
                    try await bench.endProcess(of: worker)
                    _ = try await bench.peer().register(queue: "another", node: "node")
                })
        }
    }

    @Test func answersAreThoseOfOracle() async throws {
        try await StoreHistory.check {
            let bench = try await PostgreSQLStoreBench()
            return StoreHistory.Subject(
                store: bench.store, passTime: { try await bench.jump($0) }, notice: { try await bench.notice() },
                crash: { worker in
                    try await bench.endProcess(of: worker)
                    try await bench.run(
                        "SELECT reachable_remove_ended($1, $2)", [.value(Machine.processSpace), .array([worker.rawValue])])
                },
                reboot: { try await bench.reboot() })
        }
    }
}
#endif
