#if SQLite
import Foundation
import GRDB
import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import TestSupport
import Testing

/// Pushes in the caller's own transaction.
@Suite(.timeLimit(.minutes(20)))
struct SQLiteTransactionTests {
    private struct Rollback: Error {}

    private let directory: TemporaryFolder
    private let pool: DatabasePool
    private let store: SQLiteStore

    init() throws {
        directory = try TemporaryFolder()
        pool = try DatabasePool(path: directory.path + "/app.db")
        try pool.write { try $0.execute(sql: "CREATE TABLE photos (name TEXT)") }
        store = try SQLiteStore(writer: pool, machine: TestMachine().machine)
        try pool.writeWithoutTransaction { try $0.execute(sql: "PRAGMA synchronous = FULL") }
    }

    private var photos: Int { get throws { try pool.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM photos") ?? 0 } } }

    @Test func aQueuePushesInTheCallersTransaction() async throws {
        let bus = RetryBus(ReachabilityMonitor())
        let queue = JobQueue(store, bus: bus)
        let (events, pool) = (queue.events, pool)
        await #expect(throws: Rollback.self) {
            try await pool.write { db -> Void in
                try db.execute(sql: "INSERT INTO photos VALUES ('none')")
                try queue.push(Send("none"), in: db)
                throw Rollback()
            }
        }
        let receipt = try await pool.write { db in
            try db.execute(sql: "INSERT INTO photos VALUES ('a')")
            return try queue.push(Send("a"), unique: .keep("a"), in: db)
        }
        #expect(try await queue.jobs().map(\.id) == [receipt.id])
        let batch = try await pool.write { db in
            try queue.push(["b", "a"].map { Send($0) }, uniqueBy: { .keep($0.text) }, in: db)
        }
        #expect(try photos == 1)
        #expect(batch.map(\.outcome) == [.added, .kept] && batch.last?.id == receipt.id)
        // Only a committed push is an event.
        let pushed = await events.first { _ in true }
        #expect(pushed?.job == receipt.id)
        let other = JobQueue(MemoryStore(), bus: bus)
        let error = await storeError { try await pool.write { db in _ = try other.push(Send("b"), in: db) } }
        #expect(error?.code == .otherDatabase)
    }

    @Test func aRefusedPushLeavesTheTransactionAsItWas() async throws {
        try await pool.write { [store] db in
            try db.execute(sql: "INSERT INTO photos VALUES ('a')")
            #expect(throws: JobStoreError.self) { try store.push([.named("a"), .named("b")], limit: 1, in: db) }
            try store.push([.named("c")], limit: 1, in: db)
        }
        #expect(try await store.find(JobFilter()).map(\.name) == ["c"])
        #expect(try photos == 1)
    }

    @Test func aPushOutsideOfATransactionHasItsOwn() async throws {
        try await pool.writeWithoutTransaction { [store] db in _ = try store.push([.named("a")], in: db) }
        #expect(try await store.find(JobFilter()).map(\.name) == ["a"])
    }

    @Test func anotherDatabaseIsRefused() async throws {
        let other = try DatabaseQueue(path: pool.path)
        let error = await storeError { [store] in
            try await other.write { db in _ = try store.push([.named("a")], in: db) }
        }
        #expect(error?.code == .otherDatabase)
    }

    /// Only the main schema counts: the attached file has locks of its own.
    @Test func attachedStoreIsNotUsed() async throws {
        let other = try SQLiteBench()
        try await other.store.push("other")
        var configuration = Configuration()
        configuration.prepareDatabase { [path = other.store.path] db in
            try db.execute(sql: "ATTACH ? AS other", arguments: [path])
        }
        let queue = try DatabaseQueue(path: directory.path + "/attaching.db", configuration: configuration)
        let own = try SQLiteStore(writer: queue, machine: other.machine.machine)
        let worker = try await own.register()
        #expect(try await own.claim(worker).jobs.isEmpty)
        _ = try await own.push([.named("own")], limit: nil)
        let claimed = try #require(try await own.claim(worker).jobs.first)
        #expect(try await own.start([claimed.ticket], by: worker) == [true])
        #expect(try await own.succeed([claimed], by: worker) == [.recorded])
        #expect(try await own.find(JobFilter()).map(\.name) == ["own"])
        #expect(try await own.count(queue: "default").map(\.state) == [.succeeded])
        other.machine.pass(.seconds(1))
        #expect(try await own.prune(Retention(succeeded: .zero, failed: .zero), limit: 10) == 1)
        #expect(try await other.store.names() == ["other"])
        #expect(try await other.store.workers(of: nil).isEmpty)
    }

    @Test func transactionThatReadTooEarlyIsReported() async throws {
        let other = try DatabaseQueue(path: pool.path)
        let error = await storeError { [pool, store] in
            try await pool.writeWithoutTransaction { db in
                try db.inTransaction(.deferred) {
                    _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM photos")
                    try other.write { try $0.execute(sql: "INSERT INTO photos VALUES ('b')") }
                    _ = try store.push([.named("a")], in: db)
                    return .commit
                }
            }
        }
        #expect(error?.code == .busy && error?.advice.contains("IMMEDIATE") == true)
    }

    @Test func suspendedDatabaseIsReported() async throws {
        var configuration = Configuration()
        configuration.observesSuspensionNotifications = true
        let queue = try DatabasePool(path: directory.path + "/suspended.db", configuration: configuration)
        let store = try SQLiteStore(writer: queue, machine: TestMachine().machine)
        NotificationCenter.default.post(name: Database.suspendNotification, object: nil)
        let error = await storeError { _ = try await store.push([.named("a")], limit: nil) }
        #expect(error?.code == .unavailable && error?.advice.contains("resumeNotification") == true)
        NotificationCenter.default.post(name: Database.resumeNotification, object: nil)
        _ = try await store.push([.named("b")], limit: nil)
        #expect(try await store.find(JobFilter()).map(\.name) == ["b"])
    }

    @Test(arguments: ["OFF", "NORMAL"])
    func aDatabaseThatLosesCommitsIsRefused(level: String) async throws {
        try await pool.writeWithoutTransaction { try $0.execute(sql: "PRAGMA synchronous = \(level)") }
        let error = await storeError { [pool, store] in
            try await pool.write { db in _ = try store.push([.named("a")], in: db) }
        }
        #expect(error?.code == .unsynchronized)
        // The store's own pushes are synchronized, and leave the setting as it was. With OFF, the caller's transactions would
        // damage the database in a power failure.
        let own = await storeError { [store] in _ = try await store.push([.named("b")], limit: nil) }
        #expect(own?.code == (level == "OFF" ? .unsynchronized : nil))
        let value = try await pool.writeWithoutTransaction { try Int.fetchOne($0, sql: "PRAGMA synchronous") }
        #expect(value == (level == "OFF" ? 0 : 1))
    }

    @Test(arguments: ["MEMORY", "OFF"]) func aJournalThatEndsWithTheProcessIsRefused(mode: String) async throws {
        let queue = try DatabaseQueue(path: directory.path + "/other.db")
        try await queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = \(mode)") }
        #expect(await storeError { _ = try SQLiteStore(writer: queue) }?.code == .unsynchronized)
        #expect(try await queue.read { try !$0.tableExists("reachable_meta") })
        for mode in ["TRUNCATE", "PERSIST", "DELETE"] {
            try await queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = \(mode)") }
            _ = try await SQLiteStore(writer: queue).push([.named(mode)], limit: nil)
        }
    }

    @Test func aRollbackJournalNeedsItsDirectorySynchronized() async throws {
        // GRDB's queues keep SQLite's defaults: a rollback journal and FULL.
        let queue = try DatabaseQueue(path: directory.path + "/other.db")
        let store = try SQLiteStore(writer: queue, machine: TestMachine().machine)
        let error = await storeError { try await queue.write { db in _ = try store.push([.named("a")], in: db) } }
        #expect(error?.code == .unsynchronized)
        try await queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA synchronous = EXTRA") }
        try await queue.write { db in _ = try store.push([.named("a")], in: db) }
        #expect(try await store.find(JobFilter()).map(\.name) == ["a"])
    }

    @Test func workersWakeAfterTheCommit() async throws {
        var hints = store.changes().makeAsyncIterator()
        // The first hint comes with the watch itself.
        await hints.next()
        let worker = try await store.register()
        try await pool.write { [store] db in _ = try store.push([.named("a")], in: db) }
        await hints.next()
        #expect(try await store.claim(worker).jobs.map(\.job.name) == ["a"])
    }

    @Test func theDatabaseKeepsItsMode() async throws {
        chmod(pool.path, 0o640)
        _ = try SQLiteStore(writer: pool)
        let mode = try FileManager.default.attributesOfItem(atPath: pool.path)[.posixPermissions] as? Int
        #expect(mode == 0o640)
    }
}
#endif
