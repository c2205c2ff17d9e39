#if PostgreSQL
import Foundation
import PostgreSQLSchema
import ReachabilityTesting
import Testing

@testable import ReachableJobs

/// The tables and functions: their versions, their schema, and what other clients may hand to them.
@Suite(.enabled(if: hasPostgreSQL, "run them with Scripts/postgresql"), .timeLimit(.minutes(5)))
struct PostgreSQLSchemaTests {
    // MARK: Versions

    @Test func aDumpOfVersionOneWorksOn() async throws {
        let bench = try await PostgreSQLStoreBench(install: false)
        let dump = try String(contentsOf: Self.fixture("version-1.sql"), encoding: .utf8)
        for statement in PostgreSQLSchema.split(dump.replacing("jobs_v1", with: bench.schema)) { try await bench.run(statement) }
        try await bench.store.install()
        let jobs = try await bench.store.find(JobFilter())
        #expect(jobs.map(\.name) == ["waits", "backs off", "has run", "is bulk", "is blocked"])
        #expect(jobs.map(\.state) == [.available, .available, .succeeded, .available, .available])
        #expect(jobs.map(\.isBlocked) == [false, false, false, false, true])
        #expect(jobs[1].avoidance == .init(node: "a node", bootID: "boot", since: 5, until: 60_000_000_005))
        let worker = try await bench.store.register(queue: "default", node: "another node")
        let tickets = try await bench.store.claim(worker).jobs.map(\.ticket)
        #expect(tickets.map(\.id) == [jobs[1].id, jobs[0].id, jobs[3].id])
        #expect(try await bench.store.start(tickets, by: worker) == [true, true, true])
        #expect(try await bench.store.succeed(tickets, by: worker) == [.recorded, .recorded, .recorded])
        #expect(try await bench.store.claim(worker).jobs.map(\.job.id) == [jobs[4].id])
    }

    private static func fixture(_ name: String) -> URL {
        URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Fixtures/\(name)")
    }

    @Test func installingAgainChangesNothing() async throws {
        let bench = try await PostgreSQLStoreBench()
        let id = try await bench.run("SELECT reachable_push('kind', '{}')").text(0, 0)
        try await bench.store.install()
        #expect(try await bench.store.find(JobFilter()).map(\.id.description) == [id])
        #expect(try await bench.run("SELECT version FROM reachable_versions").int(0, 0) == PostgreSQLSchema.version)
    }

    /// An older program beside newer tables: while it connects, while it works, and while it installs.
    @Test func newerTablesAreRefused() async throws {
        let bench = try await PostgreSQLStoreBench()
        let worker = try await bench.store.register()
        try await bench.run("INSERT INTO reachable_versions (version) VALUES ($1)", [.value(PostgreSQLSchema.version + 1)])
        func expectRefusal(_ body: () async throws -> Void) async throws {
            let error = await #expect(throws: JobStoreError.self) { try await body() }
            #expect(error?.code == .newerSchema && error?.message.contains("has version 2") == true, "\(String(describing: error))")
        }
        try await expectRefusal { _ = try await bench.store.extend(worker) }
        try await expectRefusal { _ = try await bench.peer().count(queue: "default") }
        try await expectRefusal { try await bench.store.install() }
        // A function that has other arguments by now.
        try await bench.run("DROP FUNCTION reachable_count")
        try await expectRefusal { _ = try await bench.store.count(queue: "default") }
    }

    @Test func earlierTablesAreInstalledOrRefused() async throws {
        let bench = try await PostgreSQLStoreBench(install: false)
        try await bench.store.install()
        try await bench.run("UPDATE reachable_versions SET version = 0")
        let error = await #expect(throws: JobStoreError.self) { try await bench.peer().count(queue: "default") }
        #expect(error?.advice.contains("install") == true)
    }

    // MARK: Schemas

    /// Another store gets the old name.
    @Test func aRenamedSchemaKeepsItsStore() async throws {
        let bench = try await PostgreSQLStoreBench()
        let quoted = "\"\(bench.schema)\"\" x.reachable_\""
        try await bench.run("SELECT reachable_push('kind', 'first')")
        try await bench.run("ALTER SCHEMA \(bench.schema) RENAME TO \(quoted)")
        try await bench.run("CREATE SCHEMA \(bench.schema)")
        let other = bench.peer()
        try await other.install()
        // A session that knows the old name is refused, and a new one is not.
        let known = await #expect(throws: PostgreSQLFailure.self) {
            try await bench.run("SELECT \(quoted).reachable_push('kind', 'second')")
        }
        #expect(known?.sqlstate == "RE004")
        let client = try await bench.client("read committed")
        _ = try await client.query("SELECT \(quoted).reachable_push('kind', 'second')")
        _ = try await client.query("SET search_path TO \(quoted)")
        _ = try await client.query("SELECT reachable_push('kind', 'third')")
        let names = "SELECT string_agg(convert_from(payload, 'UTF8'), ' ' ORDER BY position) FROM"
        #expect(try await client.query("\(names) \(quoted).reachable_jobs").text(0, 0) == "first second third")
        #expect(try await other.find(JobFilter()).isEmpty)
        try await bench.run("DROP SCHEMA \(quoted) CASCADE")
    }

    @Test func schemasMayNeedQuotes() async throws {
        let bench = try await PostgreSQLStoreBench(install: false)
        try await bench.run("CREATE SCHEMA \"A\(bench.schema)\"")
        let store = PostgreSQLStore("options=-csearch_path=\"A\(bench.schema)\"")
        try await store.install()
        _ = try await store.push([NewJob(queue: "default", kind: "kind", payload: Data())], limit: nil)
        #expect(try await store.find(JobFilter()).count == 1)
        try await bench.run("DROP SCHEMA \"A\(bench.schema)\" CASCADE")
    }

    @Test func strangersTablesAreNotInTheWay() async throws {
        let bench = try await PostgreSQLStoreBench()
        // A function that belongs to the owner must not read what a caller puts before it.
        for table in try await tables(bench) { try await bench.run("CREATE TEMPORARY TABLE \(table) (position int)") }
        try await bench.run("SET search_path = pg_temp, \(bench.schema)")
        try await bench.run("SELECT reachable_push('upload', '{}', unique_key => 'u')")
        #expect(try await bench.store.find(JobFilter()).count == 1)
    }

    private func tables(_ bench: PostgreSQLStoreBench) async throws -> [String] {
        let sql = "SELECT tablename FROM pg_tables WHERE schemaname = $1 AND tablename LIKE 'reachable%'"
        return try await bench.run(sql, [.value(bench.schema)]).firstTexts
    }

    // MARK: Arguments

    @Test(arguments: [
        "kind", "payload", "queue", "scope", "priority", "version", "repeatable", "continues", "unique_rule", "notify",
    ])
    func nullsAreRefusedByName(argument: String) async throws {
        let bench = try await PostgreSQLStoreBench()
        let others = [("kind", "'kind'"), ("payload", "'secret'")].filter { $0.0 != argument }.map { "\($0) => \($1)" }
        let push = "SELECT reachable_push(\((others + ["unique_key => 'u'", "\(argument) => NULL"]).joined(separator: ", ")))"
        let failure = await #expect(throws: PostgreSQLFailure.self) { try await bench.run(push) }
        #expect(failure?.sqlstate == "22004" && failure?.message.contains("argument \(argument) is null") == true)
    }

    @Test func durationsSaturate() async throws {
        let bench = try await PostgreSQLStoreBench()
        try await bench.run("SELECT reachable_push('kind', '', delay => '1000 years', time_limit => '170000000 years')")
        try await bench.run("SELECT reachable_push('kind', '', delay => '-170000000 years')")
        var job = NewJob(queue: "default", kind: "kind", payload: Data())
        (job.delay, job.timeLimit) = (.seconds(1000 * 365.25 * 86_400), .seconds(1e18))
        _ = try await bench.store.push([job], limit: nil)
        let jobs = try await bench.store.find(JobFilter())
        #expect(jobs[0].notBefore == jobs[2].notBefore && jobs[0].deadline == jobs[2].deadline)
        #expect(jobs[1].notBefore ?? jobs[1].pushed < jobs[1].pushed)
    }

    // MARK: Transactions

    @Test func aPreparedTransactionPushesWithoutNotice() async throws {
        let bench = try await PostgreSQLStoreBench()
        guard try await bench.run("SHOW max_prepared_transactions").text(0, 0) != "0" else { return }
        try await bench.run("BEGIN")
        try await bench.run("SELECT reachable_push('kind', '{}', unique_key => 'u', notify => false)")
        try await bench.run("PREPARE TRANSACTION '\(bench.schema)'")
        #expect(try await bench.store.find(JobFilter()).isEmpty)
        try await bench.run("COMMIT PREPARED '\(bench.schema)'")
        #expect(try await bench.store.find(JobFilter()).count == 1)
    }

    /// A table without a primary key could not be updated.
    @Test func aReplicatedStoreWorks() async throws {
        let bench = try await PostgreSQLStoreBench()
        for table in try await tables(bench) {
            let sql = "SELECT FROM pg_index WHERE indrelid = $1::regclass AND indisprimary"
            #expect(try await bench.run(sql, [.value(table)]).rowCount == 1, "\(table) has no primary key")
        }
        // In a database of its own: the publication is of all tables.
        let name = "d" + bench.schema
        try await bench.run("CREATE DATABASE \(name)")
        let store = PostgreSQLStore("dbname=\(name)", installsTables: true)
        // On a busy machine that takes longer than a call waits.
        while (try? await store.count(queue: "q")) == nil {}
        let owner = try await PostgreSQLBench("dbname=\(name)")
        try await owner.query("CREATE PUBLICATION everything FOR ALL TABLES")
        var job = NewJob(queue: "q", kind: "kind", payload: Data())
        (job.unique, job.serialKey) = (.replace("u"), "s")
        for _ in 0..<2 {
            job.id = DurableJobID()
            _ = try await store.push([job], limit: 10)
        }
        let worker = try await store.register(queue: "q", node: "node")
        for outcome in [AttemptResult.Outcome.again(soft: .milliseconds(1), isNetwork: false, hard: nil), .succeeded] {
            var tickets: [JobTicket] = []
            while tickets.isEmpty { tickets = try await store.claim(worker).jobs.map(\.ticket) }
            #expect(try await store.start(tickets, by: worker) == [true])
            let results = tickets.map { AttemptResult($0, outcome, counters: .init(), holdsDestination: .milliseconds(1)) }
            #expect(try await store.finish(results, by: worker) == [.recorded])
            _ = try await store.extend(worker)
        }
        try await store.setPaused(true, queue: "q")
        try await store.setPaused(false, queue: "q")
        try await store.unregister(worker)
        while try await store.prune(Retention(succeeded: .zero, failed: .zero), limit: 10) == 0 {}
        store.close()
        try await owner.close()
        try await bench.run("DROP DATABASE \(name) WITH (FORCE)")
    }
}
#endif
