#if PostgreSQL
import Foundation
import Testing

@testable import ReachableJobs

/// The cost of claims, in rows that the server reads.
@Suite(.enabled(if: hasPostgreSQL, "run them with Scripts/postgresql"), .timeLimit(.minutes(5)))
struct PostgreSQLClaimTests {
    /// A kind at its limit has thousands of jobs before another kind's.
    @Test func jobsOfAFullLaneArePassedOver() async throws {
        let bench = try await PostgreSQLStoreBench()
        let worker = try await bench.store.register(queue: "default", node: "node")
        func push(_ kind: String, _ count: Int) async throws {
            _ = try await bench.store.push(
                (0..<count).map { _ in NewJob(queue: "default", kind: kind, payload: Data()) }, limit: nil)
        }
        try await push("limited", 5000)
        try await push("free", 3)
        _ = try await bench.store.claim(ClaimRequest(worker: worker, limit: 0, lanes: [], lastKnownLane: 0))
        for (call, limit) in [(2, 1), (3, 0)] {
            try await bench.run("BEGIN")
            let claimed = try await bench.run(
                """
                SELECT l.kind FROM (
                    SELECT array_agg(number ORDER BY kind) AS numbers, max(number) AS last FROM reachable_lanes) AS lanes,
                LATERAL reachable_claim($1, $2, '{}', 2, numbers, ARRAY[16, $3], ARRAY[NULL, NULL]::bigint[], last) AS l ORDER BY 1
                """, [.int(worker.rawValue), .int(Int64(call)), .int(Int64(limit))])
            let read = try await bench.run(
                """
                SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_xact_user_tables
                WHERE schemaname = current_schema() AND relname = 'reachable_jobs'
                """)
            try await bench.run("COMMIT")
            #expect(claimed.firstTexts == (limit == 0 ? ["free", "free"] : ["free", "limited"]))
            let rows = try #require(read.int(0, 0))
            #expect(rows < 500, "\(rows) rows read, with a limit of \(limit)")
        }
    }
}
#endif
