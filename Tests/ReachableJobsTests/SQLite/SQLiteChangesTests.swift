#if SQLite
import Foundation
import GRDB
import ReachableJobs
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(20)), .serialized)
struct SQLiteChangesTests {
    private static let commit = """
        db = sqlite3.connect(sys.argv[1], isolation_level=None)
        print(flush=True)
        for line in sys.stdin:
            db.execute("BEGIN IMMEDIATE")
            db.execute("UPDATE reachable_meta SET instant = instant + 1")
            db.execute("COMMIT")
        """

    @Test func aCommitOfAnotherProcessGivesAHint() async throws {
        let bench = try SQLiteBench()
        var hints = bench.store.changes().makeAsyncIterator()
        await hints.next()
        let stranger = try Stranger(Self.commit, bench.store.path)
        for _ in 0..<5 {
            stranger.go()
            await hints.next()
        }
        stranger.kill()
    }

    @Test func aCommitThatWaitsForTheDiskGivesAHint() async throws {
        let bench = try SQLiteBench()
        var hints = bench.store.changes().makeAsyncIterator()
        await hints.next()
        // Its pages go to the log before the commit, because the cache is small; the commit comes with the next line.
        let stranger = try Stranger(
            """
            db = sqlite3.connect(sys.argv[1], isolation_level=None)
            db.execute("PRAGMA cache_size = 1"); db.execute("BEGIN IMMEDIATE")
            db.execute("CREATE TABLE large AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) "
                "SELECT i, zeroblob(1000) AS b FROM n")
            print(flush=True); sys.stdin.readline(); db.execute("COMMIT"); print(flush=True)
            """, bench.store.path)
        stranger.go()
        await hints.next()
        stranger.wait()
    }

    /// No write tells of it, and other workers may take its jobs.
    @Test func endOfAnotherProcessGivesAHint() async throws {
        let bench = try SQLiteBench()
        let stranger = try Stranger(
            "file = open(sys.argv[1], 'r+b'); print(flush=True); time.sleep(60)", bench.store.path + "-workers")
        var hints = bench.store.changes().makeAsyncIterator()
        await hints.next()
        stranger.kill()
        await hints.next()
    }

    /// Otherwise two workers would wake each other for ever.
    @Test func aWorkerThatOnlyLooksGivesNoHint() async throws {
        let bench = try SQLiteBench()
        let (store, worker) = (bench.store, try await bench.store.register())
        try await bench.store.push("a")
        let claims = try await store.claim(worker)
        #expect(claims.jobs.count == 1)
        let lanes = try await store.lanes(worker)
        let request = ClaimRequest(
            worker: worker, limit: 10, lanes: lanes.map { .init(lane: $0.id) }, lastKnownLane: lanes.last?.id ?? 0)
        _ = try await store.claim(request)
        let watcher = try DatabaseQueue(path: store.path)
        func version() throws -> Int? {
            try watcher.read { db in
                // The connection learns of other commits when it reads.
                _ = try Int.fetchOne(db, sql: "SELECT instant FROM reachable_meta")
                return try Int.fetchOne(db, sql: "PRAGMA data_version")
            }
        }
        let before = try version()
        bench.machine.pass(.seconds(1))
        #expect(try await store.expire(queue: "default", limit: 10).jobs.isEmpty)
        #expect(try await store.claim(request).jobs.isEmpty)
        #expect(try version() == before)
        bench.machine.pass(.seconds(1))
        _ = try await store.extend(worker)
        #expect(try version() != before)
    }

    @Test func theEndOfTheLastStreamReleasesDescriptors() async throws {
        let bench = try SQLiteBench()
        func watches() throws -> Int { try openFiles().values.count { $0 == "anon_inode:inotify" } }
        let before = try watches()
        for _ in 0..<20 {
            var hints: AsyncStream<Void>.Iterator? = bench.store.changes().makeAsyncIterator()
            await hints?.next()
            hints = nil
        }
        // Other suites have watches of their own; dispatch closes these a moment later.
        let clock = ContinuousClock()
        let limit = clock.now + .seconds(20)
        while try watches() >= before + 10, clock.now < limit { try await clock.sleep(for: .milliseconds(10)) }
        #expect(try watches() < before + 10)
    }

    @Test func streamsEndWithTheStore() async throws {
        var store: SQLiteStore? = try SQLiteBench().store
        let hints = try #require(store?.changes())
        store = nil
        for await _ in hints {}
        #expect(store == nil)
    }
}
#endif
