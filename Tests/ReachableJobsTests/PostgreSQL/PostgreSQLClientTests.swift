#if PostgreSQL
import Foundation
import Glibc
import ReachabilityTesting
import Testing

@testable import ReachableJobs

/// Other clients and other users of the database.
@Suite(.enabled(if: hasPostgreSQL, "run them with Scripts/postgresql"), .timeLimit(.minutes(20)))
struct PostgreSQLClientTests {
    private let bench: PostgreSQLStoreBench
    private let store: PostgreSQLStore
    private let worker: WorkerID

    init() async throws {
        bench = try await PostgreSQLStoreBench()
        store = bench.store
        worker = try await store.register()
    }

    @Test func aJobIsThereWithItsTransaction() async throws {
        var hints = store.changes().makeAsyncIterator()
        try await bench.run("BEGIN")
        let kept = try await bench.run("SELECT reachable_push('upload', '{\"file\":\"a\"}', serial_key => 'a')").text(0, 0)
        #expect(try await store.find(JobFilter()).isEmpty)
        try await bench.run("COMMIT")
        try await bench.run("BEGIN")
        try await bench.run("SELECT reachable_push('upload', '{\"file\":\"b\"}')")
        try await bench.run("ROLLBACK")
        while try await store.find(JobFilter()).isEmpty { await hints.next() }
        let claimed = try await store.claim(worker).jobs
        #expect(claimed.map(\.job.id.description) == [kept])
        #expect(claimed.first.map { String(decoding: $0.job.payload, as: UTF8.self) } == "{\"file\":\"a\"}")
    }

    @Test func anOpenTransactionHoldsUpNothingElse() async throws {
        func push(_ name: String, _ change: (inout NewJob) -> Void = { _ in }) async throws {
            try await store.push(name) {
                $0.kind = "upload"
                change(&$0)
            }
        }
        try await push("first") { $0.serialKey = "a" }
        try await push("old") { $0.unique = .replace("u") }
        // Behind a job that is about to end, a replacement, and a new lane.
        try await bench.run("BEGIN")
        try await bench.run("SELECT reachable_push('upload', 'second', serial_key => 'a')")
        try await bench.run("SELECT reachable_push('upload', 'new', unique_key => 'u', unique_rule => 'replace')")
        try await bench.run("SELECT reachable_push('other', 'third')")
        let first = try await store.claim(worker).jobs
        #expect(first.map(\.job.name) == ["first"])
        try await push("fourth")
        #expect(try await store.succeed(first, by: worker) == [.recorded])
        #expect(try await store.claim(worker).jobs.map(\.job.name) == ["fourth"])
        try await bench.run("COMMIT")
        #expect(try await store.claim(worker).jobs.map(\.job.name).sorted() == ["new", "second", "third"])
    }

    @Test func aReplacementThatIsRolledBackBlocksNoOne() async throws {
        for name in ["first", "second"] {
            try await store.push(name) { ($0.kind, $0.unique, $0.serialKey) = ("upload", .append("u"), "s") }
        }
        // A claim that notes what blocks the second one.
        let first = try await store.claim(worker).jobs
        #expect(try await store.claim(worker).jobs.isEmpty)
        try await bench.run("BEGIN")
        try await bench.run("SELECT reachable_push('upload', 'new', unique_key => 'u', unique_rule => 'replace')")
        #expect(try await store.succeed(first, by: worker) == [.recorded])
        #expect(try await store.claim(worker).jobs.isEmpty)
        try await bench.run("ROLLBACK")
        _ = try await store.extend(worker)
        #expect(try await store.claim(worker).jobs.map(\.job.name) == ["second"])
    }

    /// Neither the start nor the return of a claim waits for the transaction, whose end decides.
    @Test(arguments: ["COMMIT", "ROLLBACK"]) func aClaimedJobIsReplaced(end: String) async throws {
        let names = ["start", "return", "end"]
        for name in names { try await bench.run("SELECT reachable_push('upload', 'old', unique_key => '\(name)')") }
        let tickets = try await store.claim(worker).jobs.map(\.ticket)
        #expect(tickets.count == 3)
        try await bench.run("BEGIN")
        for name in names {
            try await bench.run("SELECT reachable_push('upload', 'new', unique_key => '\(name)', unique_rule => 'replace')")
        }
        #expect(try await store.start([tickets[0]], by: worker) == [false])
        #expect(try await store.finish([.givenBack(tickets[1])], by: worker) == [.recorded])
        try await store.unregister(worker)
        let other = try await store.register()
        #expect(try await store.claim(other).jobs.isEmpty)
        try await bench.run(end)
        let claimed = try await store.claim(other).jobs
        #expect(claimed.map(\.job.name) == Array(repeating: end == "COMMIT" ? "new" : "old", count: 3))
        #expect(try await store.succeed(tickets, by: worker) == [.refused, .refused, .refused])
    }

    /// Another claim is about to take the first one of them.
    @Test func aLockedChainHidesNoOtherJobs() async throws {
        for key in ["chain", "chain", "chain", "chain", nil, nil] {
            try await bench.run("SELECT reachable_push('upload', $1, serial_key => $2)", [.value(key ?? "free"), .value(key)])
        }
        try await bench.run("BEGIN")
        try await bench.run(
            """
            SELECT pg_advisory_xact_lock(1919246594, number)
            FROM unnest(reachable_chain_locks('default', 'upload', 'chain', NULL)) AS number
            """)
        #expect(try await store.claim(worker, 2).jobs.map(\.job.serialKey) == [nil, nil])
        try await bench.run("ROLLBACK")
        #expect(try await store.claim(worker, 2).jobs.map(\.job.serialKey) == ["chain"])
    }

    @Test func aClaimThatCannotBeReadIsGivenBack() async throws {
        let id = try await store.push("a")
        let lane = try #require(try await store.lanes(worker).first)
        let request = ClaimRequest(worker: worker, limit: 1, lanes: [.init(lane: lane.id)], lastKnownLane: lane.id)
        try await bench.run("ALTER TABLE reachable_lanes ALTER scope DROP NOT NULL")
        try await bench.run("UPDATE reachable_lanes SET scope = NULL")
        let error = await #expect(throws: JobStoreError.self) { try await store.claim(request) }
        #expect(error?.code == .inputOutput)
        try await bench.run("UPDATE reachable_lanes SET scope = 'internet'")
        #expect(try await store.claim(request).jobs.map(\.job.id) == [id])
    }

    @Test func rolesHaveTheLeastRightsThatSuffice() async throws {
        try await bench.installRoles()
        func expectDenied(_ role: String, _ sql: String) async throws {
            try await bench.run("SET ROLE \(role)")
            let failure = await #expect(throws: PostgreSQLFailure.self) { try await bench.run(sql) }
            #expect(failure?.sqlstate == "42501", "\(role) may: \(sql)")
            try await bench.run("RESET ROLE")
        }
        for role in ["reachable_pusher", "reachable_worker"] {
            try await bench.run("SET ROLE \(role)")
            try await bench.run("SELECT reachable_push('upload', '{}')")
            try await bench.run("RESET ROLE")
            let tables = try await bench.run(
                "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename LIKE 'reachable%'")
            #expect(tables.rowCount == 10)
            for table in tables.firstTexts {
                try await expectDenied(role, "SELECT 1 FROM \(table)")
                try await expectDenied(role, "DELETE FROM \(table)")
            }
            // What only functions call, such as this one.
            try await expectDenied(role, "SELECT reachable_sweep(0, 0)")
        }
        try await expectDenied("reachable_pusher", "SELECT * FROM reachable_cancel('{}')")
        try await expectDenied(
            "reachable_pusher", "SELECT * FROM reachable_find(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1)")
        // All of a worker's calls, as a user who is nothing else.
        try await JobStoreConformance.check {
            let bench = try await PostgreSQLStoreBench()
            try await bench.installRoles()
            func store() async throws -> PostgreSQLStore { try await bench.store(as: "reachable_worker") }
            return try await .init(store: store(), peer: store(), passTime: { try await bench.pass($0) })
        }
    }

    @Test func workersNameTheirHostsAndProcesses() async throws {
        for store in [store, bench.peer()] { _ = try await store.register(queue: "q", node: "n") }
        try await bench.run(
            """
            UPDATE reachable_workers SET host = NULL, process = '4711:9'
            WHERE number = (SELECT max(number) FROM reachable_workers)
            """)
        let workers = try await store.workers(of: "q")
        #expect(workers.map(\.host) == [Machine.hostName, nil] && workers.map(\.process) == [Int(getpid()), 4711])
    }
}
#endif
