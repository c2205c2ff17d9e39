#if PostgreSQL
import Synchronization
import TestSupport
import Testing

@testable import ReachableJobs

/// Pushes of other clients at all isolation levels, which the database's default sets.
@Suite(.enabled(if: hasPostgreSQL, "run them with Scripts/postgresql"), .timeLimit(.minutes(60)))
struct PostgreSQLIsolationTests {
    private static let levels = ["read committed", "repeatable read", "serializable"]
    /// The pushes of each client; `STORE_PUSHES=10000` for a longer run.
    private static let pushes = variable("STORE_PUSHES") ?? 1000

    private let bench: PostgreSQLStoreBench
    private let store: PostgreSQLStore
    private let worker: WorkerID

    init() async throws {
        bench = try await PostgreSQLStoreBench()
        store = bench.store
        worker = try await store.register()
    }

    @Test(arguments: levels.dropFirst())
    func conflictsWithCommitsAfterTheSnapshotAreRefused(level: String) async throws {
        let client = try await bench.client(level)
        let others = try await bench.client("read committed")
        /// Pushes with a snapshot from before `change`, which others commit.
        func push(_ arguments: String, after change: () async throws -> Void) async throws -> String? {
            _ = try await client.query("BEGIN")
            _ = try await client.query("SELECT 1")
            try await change()
            let failure = await postgreSQLFailure { try await client.query("SELECT reachable_push('kind', '{}', \(arguments))") }
            _ = try await client.query(failure == nil ? "COMMIT" : "ROLLBACK")
            return failure?.sqlstate
        }
        func pushOther(_ arguments: String) async throws {
            _ = try await others.query("SELECT reachable_push('kind', '{}', \(arguments))")
        }
        func runAll() async throws {
            let tickets = try await store.claim(worker).jobs.map(\.ticket)
            _ = try await store.start(tickets, by: worker)
            _ = try await store.succeed(tickets, by: worker)
        }
        // A key that another push has taken, and a successor of it.
        #expect(try await push("unique_key => 'u'") { try await pushOther("unique_key => 'u'") } == "40001")
        #expect(
            try await push("unique_key => 'v'") {
                try await pushOther("unique_key => 'v'")
                try await pushOther("unique_key => 'v', unique_rule => 'append'")
            } == "40001")
        // The holder has ended, was claimed, or was replaced.
        try await runAll()
        try await pushOther("unique_key => 'w'")
        #expect(try await push("unique_key => 'w'") { try await runAll() } == "40001")
        try await pushOther("unique_key => 'w'")
        #expect(
            try await push("unique_key => 'w', unique_rule => 'replace'") { _ = try await store.claim(worker) } == "40001")
        try await pushOther("unique_key => 'x'")
        #expect(
            try await push("unique_key => 'x', unique_rule => 'replace'") {
                try await pushOther("unique_key => 'x', unique_rule => 'replace'")
            } == "40001")
        // A lane that was deleted.
        try await runAll()
        try await pushOther("destination => 'd'")
        #expect(
            try await push("destination => 'd'") {
                try await runAll()
                _ = try await store.prune(Retention(succeeded: .zero, failed: .zero), limit: 100)
            } == "40001")
        // The last place of a queue.
        #expect(try await push("maximum => 2") { try await pushOther("maximum => 2") } == "40001")
        // What others have pushed without a limit, and other keys, are no conflict.
        #expect(try await push("unique_key => 'y'") { try await pushOther("unique_key => 'z'") } == nil)
        #expect(try await push("serial_key => 's'") { try await pushOther("serial_key => 's'") } == nil)
    }

    /// A started attempt changes no job, and the snapshot cannot show it.
    @Test func aStartedJobIsNotReplacedThroughAnOldSnapshot() async throws {
        let client = try await bench.client("repeatable read")
        try await bench.run("SELECT reachable_push('kind', 'old', unique_key => 'u')")
        let tickets = try await store.claim(worker).jobs.map(\.ticket)
        let replace = "SELECT reachable_push('kind', 'new', unique_key => 'u', unique_rule => 'replace')"
        _ = try await client.query("BEGIN")
        _ = try await client.query("SELECT 1")
        #expect(try await store.start(tickets, by: worker) == [true])
        let failure = await postgreSQLFailure { try await client.query(replace) }
        #expect(failure?.sqlstate == "40001")
        _ = try await client.query("ROLLBACK")
        _ = try await client.query(replace)
        #expect(try await store.find(JobFilter()).map(\.name) == ["old", "new"])
    }

    /// The push answers with the job that is there, and locks nothing.
    @Test(arguments: levels) func aKeptJobEndsWhileTheTransactionIsOpen(level: String) async throws {
        let client = try await bench.client(level)
        let push = "SELECT reachable_push('kind', '{}', unique_key => 'u')"
        let first = try await client.query(push).text(0, 0)
        let tickets = try await store.claim(worker).jobs.map(\.ticket)
        #expect(try await store.start(tickets, by: worker) == [true])
        _ = try await client.query("BEGIN")
        #expect(try await client.query(push).text(0, 0) == first)
        #expect(try await store.succeed(tickets, by: worker) == [.recorded])
        _ = try await client.query("COMMIT")
    }

    @Test func onlyPushesMayBeCalledAboveReadCommitted() async throws {
        let client = try await bench.client("serializable")
        let failure = await postgreSQLFailure { try await client.query("SELECT * FROM reachable_cancel('{}')") }
        #expect(failure?.sqlstate == "25001")
        #expect(try await client.query("SELECT * FROM reachable_count('default')").rowCount == 0)
        // The store's own sessions do not take the database's default.
        let store = PostgreSQLStore("\(bench.conninfo)\\ -cdefault_transaction_isolation=serializable")
        _ = try await store.cancel([DurableJobID()])
    }

    /// The observations of clients and workers.
    private final class Record: Sendable {
        /// The answers of pushes that were committed.
        let accepted = Mutex<Set<DurableJobID>>([])
        let conflicts = Atomic<Int>(0)
        let isDone = Atomic<Bool>(false)
    }

    private static let limit = 40

    /// Pushes one after the other, and repeats what is refused as a conflict.
    ///
    /// Half of the snapshots are older than the push.
    private static func push(_ client: PostgreSQLConnection, number: Int, _ record: Record) async throws {
        for index in 0..<pushes {
            let arguments = [
                "destination => 'd\(index % 7)'", "unique_key => 'k\(index % 3)'",
                "unique_key => 'r\(index % 3)', unique_rule => 'replace'", "serial_key => 's\(index % 2)'",
                "queue => 'bounded', maximum => \(limit)",
            ][(index + number) % 5]
            let statement = "SELECT reachable_push('kind', '{}', \(arguments))"
            var isDone = false
            while !isDone {
                do throws(PostgreSQLFailure) {
                    if index % 2 == 0 { for begin in ["BEGIN", "SELECT 1"] { _ = try await client.query(begin) } }
                    let id = try await client.query(statement).text(0, 0).flatMap { DurableJobID($0) }
                    if index % 2 == 0 { _ = try await client.query("COMMIT") }
                    if let id { record.accepted.withLock { _ = $0.insert(id) } }
                    isDone = true
                } catch {
                    if index % 2 == 0 { _ = try? await client.query("ROLLBACK") }
                    isDone = error.sqlstate == "RE002"
                    if !isDone { try #require(["40001", "40P01"].contains(error.sqlstate), "\(error)") }
                    record.conflicts.add(1, ordering: .relaxed)
                }
            }
        }
    }

    /// Eight clients push beside workers and prunes.
    @Test(arguments: levels) func nothingIsLostDoubledOrBeyondTheLimit(level: String) async throws {
        let record = Record()
        let pushing = Task {
            defer { record.isDone.store(true, ordering: .relaxed) }
            try await withThrowingTaskGroup { group in
                for number in 0..<8 {
                    group.addTask { try await Self.push(try await bench.client(level), number: number, record) }
                }
                try await group.waitForAll()
            }
        }
        let pruning = Task {
            while !record.isDone.load(ordering: .relaxed) {
                _ = try await store.prune(Retention(succeeded: .zero, failed: .zero), limit: 1000)
            }
        }
        var finished: [DurableJobID] = []
        var workers: [(queue: String, id: WorkerID)] = []
        for queue in ["default", "bounded"] { workers.append((queue, try await store.register(queue: queue, node: "node"))) }
        while true {
            let wasDone = record.isDone.load(ordering: .relaxed)
            let flaws = try await bench.run(
                """
                SELECT queue, unique_key, count(*) FROM reachable_jobs WHERE state < 2
                GROUP BY queue, CASE WHEN queue = 'default' THEN unique_key END, unique_key
                HAVING unique_key LIKE 'k%' AND count(*) > 1 OR unique_key LIKE 'r%' AND count(*) > 2
                    OR queue = 'bounded' AND count(*) > \(Self.limit)
                """)
            #expect(flaws.rowCount == 0, "\(flaws.text(0, 0) ?? "") \(flaws.text(0, 1) ?? ""): \(flaws.int(0, 2) ?? 0)")
            var count = 0
            for (_, worker) in workers {
                let tickets = try await store.claim(worker, 50).jobs.map(\.ticket)
                count += tickets.count
                let started = zip(tickets, try await store.start(tickets, by: worker)).filter(\.1).map(\.0)
                let outcomes = try await store.succeed(started, by: worker)
                finished += zip(started, outcomes).filter { $1 == .recorded }.map(\.0.id)
            }
            if wasDone, count == 0 { break }
        }
        try await pushing.value
        try await pruning.value
        #expect(Set(finished).count == finished.count, "no job ran twice")
        #expect(record.accepted.withLock { $0 } == Set(finished))
        #expect(try await store.count(queue: "default").allSatisfy { $0.state == .succeeded })
        print("\(level): \(8 * Self.pushes) pushes, \(finished.count) jobs, \(record.conflicts.load(ordering: .relaxed)) conflicts")
    }
}
#endif
