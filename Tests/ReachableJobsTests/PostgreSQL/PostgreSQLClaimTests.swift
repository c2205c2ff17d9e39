#if PostgreSQL
import Foundation
import Testing

@testable import ReachableJobs

/// The cost of claims, in rows that the server reads.
@Suite(.enabled(if: hasPostgreSQL, "run them with Scripts/postgresql"), .timeLimit(.minutes(5)))
struct PostgreSQLClaimTests {
    /// A kind at its limit has thousands of jobs before another kind's.
    @Test(arguments: [1, 0])
    func jobsOfAFullLaneArePassedOver(limit: Int64) async throws {
        let bench = try await PostgreSQLStoreBench()
        let worker = try await bench.store.register(queue: "default", node: "node")
        for (kind, count) in [("limited", 5000), ("free", 3)] {
            let jobs = (0..<count).map { _ in NewJob(queue: "default", kind: kind, payload: Data()) }
            _ = try await bench.store.push(jobs, limit: nil)
        }
        // Before the transaction whose reads count: new lanes get their numbers.
        _ = try await bench.store.claim(ClaimRequest(worker: worker, limit: 0, lanes: [], lastKnownLane: 0))
        try await bench.run("BEGIN")
        let claimed = try await bench.run(
            """
            SELECT c.kind FROM (
                SELECT array_agg(number ORDER BY kind) AS numbers, max(number) AS last FROM reachable_lanes) AS l,
            LATERAL reachable_claim($1, 1, '{}', 2, l.numbers, ARRAY[16, $2], ARRAY[NULL, NULL]::bigint[], l.last) AS c ORDER BY 1
            """, [.int(worker.rawValue), .int(limit)])
        let read = try await bench.run(
            """
            SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_xact_user_tables
            WHERE schemaname = current_schema() AND relname = 'reachable_jobs'
            """)
        try await bench.run("COMMIT")
        #expect(claimed.firstTexts == (limit == 0 ? ["free", "free"] : ["free", "limited"]))
        let rows = try #require(read.int(0, 0))
        #expect(rows < 500, "\(rows) rows read")
    }
}
#endif
