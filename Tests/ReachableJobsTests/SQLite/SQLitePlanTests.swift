#if SQLite
import Foundation
import GRDB
import ReachableRetry
import Synchronization
import Testing

@testable import ReachableJobs

/// The cost of each statement: none reads through jobs that it does not need.
@Suite(.timeLimit(.minutes(20)))
struct SQLitePlanTests {
    private final class Trace: Sendable {
        let statements = Mutex<Set<String>>([])
    }

    /// Tables with a row per process or queue, and rows that were selected by an index before.
    private static let small = ["reachable_meta", "reachable_workers", "reachable_queues", "CONSTANT ROW", "(subquery"]

    @Test func noStatementReadsJobsInVain() async throws {
        let bench = try SQLiteBench()
        let trace = Trace()
        let queue = try DatabaseQueue(path: bench.store.path)
        try await queue.writeWithoutTransaction { db in
            db.trace { event in
                if case .statement(let statement) = event { trace.statements.withLock { _ = $0.insert(statement.sql) } }
            }
        }
        // Its writer is traced.
        let store = try SQLiteStore(writer: queue, machine: bench.machine.machine)
        try await use(store, bench.machine)
        let statements = trace.statements.withLock { $0 }.filter { sql in
            // `find` and `count` are for people.
            ["SELECT", "UPDATE", "DELETE"].contains { sql.hasPrefix($0) } && sql.contains("reachable_")
                && !["ORDER BY jobs.position", "sqlite_master"].contains { sql.contains($0) }
        }
        #expect(statements.count > 30)
        try await queue.read { db in
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

    /// Calls every operation that writes, in a way that reaches their branches.
    private func use(_ store: SQLiteStore, _ machine: TestMachine) async throws {
        let worker = try await store.register()
        let lost = try await store.register()
        func push(_ change: (inout NewJob) -> Void) async throws -> DurableJobID {
            try await store.push([SQLiteBench.job("a", change)], limit: 1000)[0].id
        }
        for unique in [JobQueue.Unique.keep("a"), .keep("a"), .replace("a"), .append("a")] {
            _ = try await push { ($0.unique, $0.serialKey, $0.priority) = (unique, "a", .bulk) }
        }
        _ = try await push { $0.delay = .seconds(1) }
        #expect(try await store.explain(store.find(JobFilter()).map(\.id)).contains { $0?.blockers.count == 2 })
        #expect(try await store.workers(of: nil).map(\.id) == [worker, lost])
        for outcome in [
            AttemptResult.Outcome.again(soft: .seconds(1), isNetwork: true, hard: nil),
            .again(soft: .seconds(10), isNetwork: true, hard: .seconds(5)), .failed(reason: "attempts"), .succeeded, .cancelled,
        ] {
            _ = try await push { _ in }
            let claims = try await store.claim(worker)
            _ = try await store.start(claims.jobs.map(\.ticket), by: worker)
            let results = claims.jobs.dropFirst().map {
                AttemptResult($0.ticket, outcome, counters: $0.job.counters, holdsDestination: .nanoseconds(1))
            }
            _ = try await store.finish(results, by: worker)
            try await store.giveBack(claims.jobs.prefix(1).map(\.ticket), by: worker)
            machine.pass(.seconds(2))
            _ = try await store.extend(worker)
        }
        machine.pass(.seconds(40))
        _ = try await store.extend(worker)
        #expect(await storeError { _ = try await store.extend(lost) } != nil)
        _ = try await push { $0.timeLimit = .seconds(1) }
        machine.pass(.seconds(2))
        #expect(try await store.expire(queue: "queue", limit: 10).jobs.count == 1)
        let ids = try await store.find(JobFilter()).map(\.id)
        #expect(try await store.find(JobFilter(ids: Set(ids.prefix(2)))).count == 2)
        _ = try await store.endBackoff(ids)
        _ = try await store.claim(worker, 1)
        _ = try await store.cancel(ids)
        try await store.unregister(worker)
        _ = try await store.retry(ids, limit: 1000)
        _ = try await store.cancel(ids)
        try await store.setPaused(true, queue: "queue")
        #expect(try await store.prune(Retention(succeeded: .zero, failed: .zero), limit: 1000) > 0)
    }
}
#endif
