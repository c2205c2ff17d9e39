#if SQLite
import GRDB
import ReachableJobs
import Synchronization
import TestSupport
import Testing

/// The cost of each statement: none reads through jobs that it does not need.
@Suite(.timeLimit(.minutes(20)))
struct SQLitePlanTests {
    private final class Trace: Sendable {
        let statements = Mutex<Set<String>>([])
    }

    /// Tables with a row per process or queue, and rows that were selected by an index before.
    private static let small = ["reachable_meta", "reachable_workers", "reachable_queues", "CONSTANT ROW", "(subquery"]

    @Test func noStatementReadsJobsInVain() async throws {
        let (bench, trace) = (try SQLiteBench(), Trace())
        try await StoreHistory.check {
            let bench = try SQLiteBench(in: TemporaryFolder.memory)
            let writer = try DatabaseQueue(path: bench.store.path)
            try await writer.writeWithoutTransaction { db in
                db.trace { event in
                    if case .statement(let statement) = event { trace.statements.withLock { _ = $0.insert(statement.sql) } }
                }
            }
            return .init(try SQLiteStore(writer: writer, machine: bench.machine.machine), bench)
        }
        let statements = trace.statements.withLock { $0 }.filter { sql in
            // `find` and `count` are for people.
            ["SELECT", "UPDATE", "DELETE"].contains { sql.hasPrefix($0) } && sql.contains("reachable_")
                && !["ORDER BY jobs.position", "GROUP BY", "sqlite_master"].contains { sql.contains($0) }
        }
        #expect(statements.count > 30)
        try await DatabaseQueue(path: bench.store.path).read { db in
            for sql in statements.sorted() {
                // Any values would do: plans depend on the text.
                let bound = sql.replacing(#/\?\d*/#, with: "1")
                let plan = try Row.fetchAll(db, sql: "EXPLAIN QUERY PLAN " + bound).map { $0["detail"] as String }
                for step in plan {
                    let isSmall = Self.small.contains { step.contains(" \($0)") || step.contains(".\($0)") }
                    let isScan = step.hasPrefix("SCAN ") && !isSmall
                    #expect(!isScan && !step.contains("TEMP B-TREE"), "\(step): \(sql)")
                }
            }
        }
    }
}
#endif
