#if SQLite
import Foundation
import GRDB
import ReachabilityTesting
import TestSupport
import Testing

@testable import ReachableJobs

@Suite(.timeLimit(.minutes(20)))
struct SQLiteFileTests {
    private let directory: TemporaryFolder
    private var path: String { directory.path + "/jobs.db" }

    init() throws { directory = try TemporaryFolder() }

    private func mode(_ path: String) throws -> Int {
        try #require(FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int)
    }

    private func openError(_ path: String? = nil, mounts: String? = nil) -> JobStoreError.Code? {
        var machine = SQLiteMachine.kernel
        if let mounts { machine.mounts = { mounts } }
        do {
            _ = try SQLiteStore(path: path ?? self.path, machine: machine)
            return nil
        } catch {
            return error.code
        }
    }

    @Test func onlyTheUserMayReadTheFiles() throws {
        let path = directory.path + "/state/jobs.db"
        let store = try SQLiteStore(path: path)
        #expect(try mode(directory.path + "/state") == 0o700)
        for file in [path, path + "-wal", path + "-shm", path + "-workers"] { #expect(try mode(file) == 0o600) }
        withExtendedLifetime(store) {}
    }

    /// Otherwise a power failure may take the directory with all that is in it.
    @Test func newDirectoryIsWrittenToTheDisk() throws {
        let path = directory.path + "/state//jobs.db"
        let written = Recorder<String>()
        var machine = SQLiteMachine.kernel
        machine.synchronize = { path in
            written.record(path)
            return EIO
        }
        let error = #expect(throws: JobStoreError.self) { try SQLiteStore(path: path, machine: machine) }
        #expect(error?.code == .inputOutput)
        // The first try has left the directory and an empty file.
        machine.synchronize = { path in
            written.record(path)
            return 0
        }
        _ = try SQLiteStore(path: path, machine: machine)
        #expect(written.value == [directory.path, directory.path])
        _ = try SQLiteStore(path: path, machine: machine)
        #expect(written.value.count == 2)
        #expect(try mode(directory.path + "/state") == 0o700)
    }

    @Test func directoryThatCannotBeListedIsNoError() throws {
        for error in [EACCES, EINVAL] {
            var machine = SQLiteMachine.kernel
            machine.synchronize = { _ in error }
            _ = try SQLiteStore(path: directory.path + "/\(error)/jobs.db", machine: machine)
        }
        #expect(SQLiteMachine.kernel.synchronize(directory.path) == 0)
        #expect(SQLiteMachine.kernel.synchronize(directory.path + "/none") == ENOENT)
    }

    @Test func directoriesOfPathsAreFound() {
        let cases = [
            ("/jobs.db", "/"), ("//jobs.db", "/"), ("jobs.db", "."), ("/a/jobs.db", "/a"), ("/a//b///jobs.db", "/a//b"), ("/", "/"),
        ]
        for (path, directory) in cases { #expect(SQLiteFile(path: path).directory == directory) }
    }

    @Test func aRelativePathIsMadeAbsolute() throws {
        let name = "reachable-jobs-\(UUID().uuidString).db"
        defer { for end in ["", "-wal", "-shm", "-workers"] { try? FileManager.default.removeItem(atPath: name + end) } }
        #expect(try SQLiteStore(path: name).path == FileManager.default.currentDirectoryPath + "/" + name)
    }

    @Test(arguments: [0o620, 0o602, 0o666])
    func aFileThatOthersMayWriteIsRefused(mode: Int) throws {
        _ = try SQLiteStore(path: path)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        #expect(openError() == .insecure)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
        #expect(openError() == nil)
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: directory.path)
        #expect(openError() == .insecure)
    }

    @Test(.enabled(if: geteuid() == 0)) func aFileOfAnotherUserIsRefused() throws {
        _ = try SQLiteStore(path: path)
        try #require(chown(path, 12_345, 12_345) == 0)
        #expect(openError() == .insecure)
    }

    /// Expects that a file is refused, and not changed.
    private func expectRefusal(_ code: JobStoreError.Code, _ path: String) throws {
        let file = URL(fileURLWithPath: path)
        let before = try Data(contentsOf: file)
        #expect(openError(path) == code)
        #expect(try Data(contentsOf: file) == before)
    }

    @Test func filesOfOthersAreRefusedAndNotChanged() throws {
        let path = directory.path + "/other.db"
        let other = try DatabaseQueue(path: path)
        try other.write { try $0.execute(sql: "CREATE TABLE notes (text TEXT)") }
        try other.close()
        chmod(path, 0o600)
        try expectRefusal(.foreign, path)
        let text = Data(repeating: UInt8(ascii: "x"), count: 5000)
        try #require(FileManager.default.createFile(atPath: path, contents: text, attributes: [.posixPermissions: 0o600]))
        try expectRefusal(.foreign, path)
        #expect(openError(directory.path) == .foreign)
    }

    @Test func aFileThatWasCutIsReportedAndNotChanged() throws {
        _ = try SQLiteStore(path: path)
        let size = try Data(contentsOf: URL(fileURLWithPath: path)).count
        try #require(truncate(path, off_t(size - 4096)) == 0)
        try expectRefusal(.corrupt, path)
    }

    @Test func aNewerSchemaIsRefused() async throws {
        let bench = try SQLiteBench()
        let other = try DatabaseQueue(path: bench.store.path)
        try await other.write { try $0.execute(sql: "UPDATE reachable_meta SET schema = 2") }
        #expect(openError(bench.store.path) == .newerSchema)
        // A program that was running at the update, too.
        #expect(await storeError { try await bench.store.push("a") }?.code == .newerSchema)
        #expect(throws: JobStoreError.self) { try SQLiteStore(writer: other) }
    }

    @Test func olderTablesAreChangedOnOpening() async throws {
        let bench = try SQLiteBench()
        try await bench.store.push("a")
        let other = try DatabaseQueue(path: bench.store.path)
        // As the next version will.
        let (machine, step) = (bench.machine.machine, "ALTER TABLE main.reachable_jobs ADD COLUMN more INTEGER;")
        try await other.write { db in
            try SQLiteSchema.prepare(db, machine, migrations: [step])
            #expect(try Int.fetchOne(db, sql: "SELECT count(more IS NULL) FROM reachable_jobs") == 1)
            #expect(try SQLiteSchema.storedVersion(db) == SQLiteSchema.version + 1)
        }
        // A worker of this version, which runs beside it.
        #expect(await storeError { _ = try await bench.store.names() }?.code == .newerSchema)
    }

    @Test func pruningShrinksAFileOfOurOwnOnly() async throws {
        let bench = try SQLiteBench()
        let app = try DatabasePool(path: bench.directory.path + "/app.db")
        for store in [bench.store, try SQLiteStore(writer: app, machine: bench.machine.machine)] {
            let jobs = (0..<100).map { _ in NewJob.named(String(repeating: "x", count: 20_000)) }
            _ = try await store.cancel(store.push(jobs, limit: nil).map(\.id))
            let reader = try DatabaseQueue(path: store.path)
            func pages() throws -> Int { try reader.read { try Int.fetchOne($0, sql: "PRAGMA page_count") ?? 0 } }
            let before = try pages()
            bench.machine.pass(.seconds(1))
            #expect(try await store.prune(Retention(failed: .zero), limit: 1000) == 100)
            #expect(try (pages() < before / 2) == (store === bench.store))
        }
    }

    /// A line of mountinfo (proc_pid_mountinfo(5)) for the file system of the directory.
    private func mount(_ type: String) throws -> String {
        var info = stat()
        try #require(stat(directory.path, &info) == 0)
        let (major, minor) = ((info.st_dev >> 8) & 0xfff, info.st_dev & 0xff | (info.st_dev >> 12) & ~0xff)
        return "36 35 \(major):\(minor) / /mnt rw,noatime master:1 - \(type) server:/share rw"
    }

    @Test(arguments: ["nfs4", "cifs", "9p", "fuse.sshfs"]) func aNetworkFileSystemIsRefused(type: String) throws {
        #expect(
            openError(mounts: "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n" + (try mount(type))) == .networkFileSystem)
        #expect(!FileManager.default.fileExists(atPath: path))
        #expect(openError(mounts: try mount("fuse.fuse-overlayfs")) == nil)
    }

    @Test func aCallersDatabaseOnANetworkFileSystemIsRefused() throws {
        let writer = try DatabaseQueue(path: directory.path + "/app.db")
        var machine = SQLiteMachine.kernel
        let line = try mount("nfs4")
        machine.mounts = { line }
        let refusing = machine
        #expect(throws: JobStoreError.self) { try SQLiteStore(writer: writer, machine: refusing) }
        #expect(try writer.read { try !$0.tableExists("reachable_meta") })
        _ = try SQLiteStore(writer: writer)
        #expect(try writer.read { try $0.tableExists("reachable_meta") })
    }

    @Test func errorsNameNoPayload() async throws {
        let bench = try SQLiteBench()
        var errors: [JobStoreError?] = []
        errors.append(await storeError { try await bench.store.push(String(repeating: "secret", count: 200_000)) })
        errors.append(await storeError { _ = try await bench.store.push([.named("secret")], limit: 0) })
        let other = try DatabaseQueue(path: bench.store.path)
        try await other.write { db in
            try db.execute(
                sql: """
                    CREATE TRIGGER refusal BEFORE INSERT ON reachable_payloads BEGIN SELECT raise(ABORT, 'refused'); END
                    """)
        }
        errors.append(await storeError { try await bench.store.push("secret") })
        #expect(errors.map { $0?.code } == [.tooLarge, .full, .unavailable])
        #expect(errors.compactMap { $0 }.allSatisfy { !"\($0)".contains("secret") })
    }

    @Test func aMissingDirectoryOfADirectoryIsAnError() throws {
        #expect(openError(directory.path + "/a/b/jobs.db") == .unavailable)
    }

    @Test func aDatabaseInMemoryIsRefused() throws {
        let queue = try DatabaseQueue()
        #expect(throws: JobStoreError.self) { try SQLiteStore(writer: queue) }
    }

    @Test(arguments: [
        (ResultCode.SQLITE_FULL, JobStoreError.Code.diskFull), (.SQLITE_READONLY, .readOnly), (.SQLITE_PERM, .readOnly),
        (.SQLITE_CORRUPT, .corrupt), (.SQLITE_NOTADB, .foreign), (.SQLITE_BUSY, .busy), (.SQLITE_LOCKED, .busy),
        (.SQLITE_BUSY_SNAPSHOT, .busy), (.SQLITE_ABORT, .unavailable), (.SQLITE_INTERRUPT, .unavailable),
        (.SQLITE_IOERR, .inputOutput), (.SQLITE_IOERR_SHMSIZE, .diskFull), (.SQLITE_CANTOPEN, .unavailable),
        (.SQLITE_READONLY_DBMOVED, .readOnly), (.SQLITE_MISUSE, .unavailable),
    ])
    func resultCodesHaveTheirErrors(code: ResultCode, expected: JobStoreError.Code) {
        let error = JobStoreError(sqlite: DatabaseError(resultCode: code, message: "reason"), path: "/jobs.db")
        #expect(error.code == expected)
        #expect(error.message.contains("/jobs.db"))
        #expect(!error.advice.isEmpty)
    }
}
#endif
