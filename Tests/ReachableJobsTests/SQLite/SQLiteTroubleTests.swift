#if SQLite
import Foundation
import GRDB
import ReachableJobs
import Testing

/// Errors are clear, lose nothing, and end with their cause.
@Suite(.timeLimit(.minutes(2)), .serialized)
struct SQLiteTroubleTests {
    @Test func anotherProcessThatKeepsTheLockIsReported() async throws {
        let bench = try SQLiteBench()
        try await bench.store.push("before")
        let stranger = try Stranger(
            """
            db = sqlite3.connect(sys.argv[1], isolation_level=None)
            db.execute("BEGIN IMMEDIATE"); print(flush=True); sys.stdin.readline()
            """, bench.store.path)
        let start = ContinuousClock.now
        #expect(await storeError { try await bench.store.push("refused") }?.code == .busy)
        #expect(ContinuousClock.now - start > .seconds(4))
        #expect(try await bench.store.names() == ["before"])
        stranger.go()
        stranger.wait()
        try await bench.store.push("after")
        #expect(try await bench.store.names() == ["before", "after"])
    }

    @Test func aDamagedPageIsReportedAndItsRepairNoticed() async throws {
        let bench = try SQLiteBench()
        let worker = try await bench.store.register()
        for number in 0..<200 { try await bench.store.push("job \(number) " + String(repeating: "x", count: 1000)) }
        let other = try DatabaseQueue(path: bench.store.path)
        try await other.writeWithoutTransaction { try $0.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)") }
        let page = try await other.read { db in
            try #require(try Int.fetchOne(db, sql: "SELECT rootpage FROM sqlite_master WHERE name = 'reachable_claimable'"))
        }
        try other.close()
        let file = try #require(FileHandle(forUpdatingAtPath: bench.store.path))
        try file.seek(toOffset: UInt64(page - 1) * 4096)
        let good = try #require(try file.read(upToCount: 4096))
        try file.seek(toOffset: UInt64(page - 1) * 4096)
        try file.write(contentsOf: Data(repeating: 0xff, count: 4096))
        // A connection of its own has no page in its cache.
        let peer = try bench.peer()
        let second = try await peer.register()
        #expect(await storeError { _ = try await peer.claim(second) }?.code == .corrupt)
        try file.seek(toOffset: UInt64(page - 1) * 4096)
        try file.write(contentsOf: good)
        #expect(try await peer.claim(second, 200).jobs.count == 200)
        try await bench.store.unregister(worker)
    }

    @Test(arguments: ["state = 9", "priority = 9", "id = 'x'"]) func rowThatCannotBeReadIsReported(change: String) async throws {
        let bench = try SQLiteBench()
        try await bench.store.push("a")
        let other = try DatabaseQueue(path: bench.store.path)
        try await other.write { try $0.execute(sql: "UPDATE reachable_jobs SET \(change)") }
        #expect(await storeError { _ = try await bench.store.names() }?.code == .corrupt)
    }

    @Test(.enabled(if: SmallDisk.mayMount)) func aFullDiskIsReportedAndLosesNothing() async throws {
        let disk = try SmallDisk()
        defer { disk.unmount() }
        let store = try SQLiteStore(path: disk.path + "/jobs.db", machine: TestMachine().machine)
        var pushed: [DurableJobID] = []
        var error: JobStoreError?
        while error == nil, pushed.count < 1000 {
            let job = NewJob.named(String(repeating: "x", count: 10_000))
            error = await storeError { pushed.append(try await store.push([job], limit: nil)[0].id) }
        }
        #expect(error?.code == .diskFull)
        #expect(try await store.find(JobFilter()).map(\.id) == pushed)
        try disk.remount(0, "size=8m")
        pushed.append(try await store.push([.named("more room")], limit: nil)[0].id)
        #expect(try await store.find(JobFilter()).map(\.id) == pushed)
    }

    @Test(.enabled(if: SmallDisk.mayMount)) func aReadOnlyDiskIsReported() async throws {
        let disk = try SmallDisk()
        defer { disk.unmount() }
        let file = disk.path + "/jobs.db"
        try #require(FileManager.default.createFile(atPath: file, contents: nil, attributes: [.posixPermissions: 0o600]))
        try disk.remount(Int(MS_RDONLY))
        #expect(await storeError { _ = try SQLiteStore(path: file) }?.code == .readOnly)
        #expect(await storeError { _ = try SQLiteStore(path: disk.path + "/other.db") }?.code == .readOnly)
        try disk.remount()
        _ = try await SQLiteStore(path: file).push([.named("a")], limit: nil)
    }
}
#endif
