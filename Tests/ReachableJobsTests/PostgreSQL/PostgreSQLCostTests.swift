#if PostgreSQL
import Foundation
import Testing

@testable import ReachableJobs

/// The costs of pushes, claims and starts, as the server counts them.
@Suite(.enabled(if: hasPostgreSQL, "run them with Scripts/postgresql"), .timeLimit(.minutes(5)))
struct PostgreSQLCostTests {
    private let bench: PostgreSQLStoreBench
    private let store: PostgreSQLStore
    private let worker: WorkerID

    init() async throws {
        bench = try await PostgreSQLStoreBench()
        store = bench.store
        worker = try await store.register()
    }

    /// A kind at its limit has thousands of jobs before another kind's.
    @Test(arguments: [1, 0])
    func jobsOfAFullLaneArePassedOver(limit: Int) async throws {
        // The first claim of a session plans its statements.
        try await push(2, "free")
        _ = try await pagesOfClaim()
        try await push(20_000, "limited")
        try await push(2, "free")
        let pages = try await pagesOfClaim(limiting: "limited", to: limit)
        // A look at each job of the full lane alone would be twenty thousand.
        #expect(pages < 1000, "\(pages) pages")
        let claimed = try await store.find(JobFilter(states: [.running])).map(\.kind)
        #expect(claimed == ["free", "free"] + (limit == 0 ? ["free", "free"] : ["limited", "free"]))
    }

    /// The session has planned its statements when there were no jobs.
    @Test func waitingJobsAreNotRead() async throws {
        // No new statistics: they would let the server plan once more.
        try await bench.run("ALTER TABLE reachable_jobs SET (autovacuum_enabled = off)")
        try await push(8, "kind")
        _ = try await pagesOfClaim()
        let before = try await pagesOfClaim()
        try await push(60_000, "kind", delay: .seconds(1000))
        let after = try await pagesOfClaim()
        #expect(after < before + 150, "\(before) pages, and \(after) with the waiting jobs")
    }

    /// A second version of each row would make the table larger by half.
    @Test(arguments: ["bulk", "normal"])
    func jobsWithKeysAreWrittenOnce(priority: String) async throws {
        // Inside a transaction the server's counters grow by what the push does alone.
        _ = try await bench.run("BEGIN")
        let (updates, inserts) = try await rowsWritten()
        for number in 0..<10 {
            try await bench.run(
                """
                SELECT reachable_push('kind', '', serial_key => 's\(number)', unique_key => 'u\(number)', priority => $1,
                    delay => $2::text::interval)
                """,
                [.value(priority), .value(number < 5 ? nil : "1 hour")])
        }
        #expect(try await rowsWritten() == (updates, inserts + 10))
        _ = try await bench.run("COMMIT")
    }

    /// Another version of a job has an entry in each index, and a claim's starts are many.
    @Test func startsWriteNoJobs() async throws {
        try await push(8, "kind")
        let tickets = try await store.claim(worker).jobs.map(\.ticket)
        _ = try await bench.run("BEGIN")
        let before = try await rowsWritten()
        try await bench.run(
            "SELECT * FROM reachable_start($1, $2, $3)",
            [.value(worker.rawValue), .array(tickets.map(\.id)), .array(tickets.map(\.claim))])
        #expect(try await rowsWritten() == before)
        _ = try await bench.run("COMMIT")
        #expect(tickets.count == 8)
        #expect(try await store.find(JobFilter()).map(\.counters.started) == Array(repeating: 1, count: 8))
    }

    @Test func startsAreForgottenWhenTheirClaimsHaveEnded() async throws {
        func starts() async throws -> Int64? { try await bench.run("SELECT count(*) FROM reachable_starts").int(0, 0) }
        var tickets: [JobTicket] = []
        for _ in 0..<3 {
            try await push(2, "kind")
            let claimed = try await store.claim(worker).jobs.map(\.ticket)
            #expect(try await store.start(claimed, by: worker) == [true, true])
            tickets += claimed
        }
        // All of the first claim, and half of the second one.
        _ = try await store.succeed(Array(tickets.prefix(3)), by: worker)
        #expect(try await starts() == 3)
        _ = try await store.extend(worker)
        #expect(try await starts() == 2)
        let running = try await store.find(JobFilter(states: [.running]))
        #expect(running.map(\.counters.started) == [1, 1, 1])
        try await store.unregister(worker)
        #expect(try await starts() == 0)
        #expect(try await store.find(JobFilter(states: [.available])).map(\.counters.started) == [1, 1, 1])
    }

    /// The rows of the table of jobs that the session has updated, and those that it has inserted.
    private func rowsWritten() async throws -> (Int64, Int64) {
        let counts = try await bench.run(
            """
            SELECT pg_stat_get_xact_tuples_updated(oid), pg_stat_get_xact_tuples_inserted(oid)
            FROM pg_class WHERE oid = 'reachable_jobs'::regclass
            """)
        return (try #require(counts.int(0, 0)), try #require(counts.int(0, 1)))
    }

    /// Adds jobs; each has a delay of its own.
    private func push(_ count: Int, _ kind: String, delay: Duration? = nil) async throws {
        // A statement has 15 s.
        for start in stride(from: 0, to: count, by: 5000) {
            let jobs = (start..<min(start + 5000, count)).map { number in
                var job = NewJob(queue: "default", kind: kind, payload: Data())
                job.delay = delay.map { $0 + .milliseconds(number) }
                return job
            }
            _ = try await store.push(jobs, limit: nil)
        }
    }

    /// Claims two jobs of all lanes; returns the number of pages that the server looked at.
    private func pagesOfClaim(limiting kind: String = "", to limit: Int = 0) async throws -> Int {
        // New lanes get their numbers.
        _ = try await store.lanes(worker)
        let lanes = try await bench.run(
            """
            SELECT string_agg(number::text, ',' ORDER BY number),
                   string_agg(CASE kind WHEN $1 THEN $2::bigint ELSE 16 END::text, ',' ORDER BY number),
                   string_agg('0', ',') FROM reachable_lanes
            """, [.value(kind), .value(Int64(limit))])
        func list(_ column: Int) -> String { "'{\(lanes.text(0, column) ?? "")}'" }
        // Inside a transaction the server's counters grow by what the claim does alone.
        _ = try await bench.run("BEGIN")
        let before = try await pagesRead()
        _ = try await bench.run(
            """
            SELECT * FROM reachable_claim(
                \(worker.rawValue), 1, 1, 2, \(list(0)), \(list(1)), \(list(2)), 0, 1000)
            """)
        let after = try await pagesRead()
        _ = try await bench.run("COMMIT")
        return after - before
    }

    /// The pages of our tables and indexes that the session has looked at; those of the catalog are left out, which the server
    /// reads again whenever another session changes something there.
    private func pagesRead() async throws -> Int {
        let sum = try await bench.run(
            """
            SELECT sum(pg_stat_get_xact_blocks_fetched(oid))::bigint FROM pg_class
            WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'i')
            """)
        return Int(try #require(sum.int(0, 0)))
    }
}
#endif
