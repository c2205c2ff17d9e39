#if PostgreSQL
import ReachabilityTesting
import ReachableJobs
import Testing

@Suite(.enabled(if: hasPostgreSQL, "run them with Scripts/postgresql"), .timeLimit(.minutes(20)))
struct PostgreSQLConformanceTests {
    @Test func theStoreMeetsTheRequirements() async throws {
        try await JobStoreConformance(patience: .seconds(600)) {
            let bench = try await PostgreSQLStoreBench()
            return .init(
                bench.store, peer: bench.peer(), passTime: { try await bench.pass($0) },
                // A worker of the same machine looks for processes that have ended.
                crash: { worker in
                    try await bench.endProcess(of: worker)
                    _ = try await bench.peer().register(queue: "another", node: "node")
                })
        }.check()
    }
}
#endif
