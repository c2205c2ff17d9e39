#if SQLite
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import ReachableJobs

/// The clocks of a machine that a test can suspend and reboot.
final class TestMachine: Sendable {
    private struct State {
        var boots = 1
        var boot: Int64 = 0
        var monotonic: Int64 = 0
        var wall: Int64 = 1_767_225_600_000_000_000

        mutating func pass(_ duration: Duration, isSuspended: Bool) {
            boot += duration.nanoseconds
            wall += duration.nanoseconds
            if !isSuspended { monotonic += duration.nanoseconds }
        }
    }

    private let state = Mutex(State())

    var machine: SQLiteMachine {
        SQLiteMachine(
            reading: { [self] in
                state.withLock { StoreClock.Reading(bootID: "\($0.boots)", boot: $0.boot, wall: $0.wall) }
            },
            monotonic: { [self] in state.withLock { $0.monotonic } }, mounts: { "" })
    }

    func pass(_ duration: Duration) { state.withLock { $0.pass(duration, isSuspended: false) } }

    func suspend(_ duration: Duration) { state.withLock { $0.pass(duration, isSuspended: true) } }

    func reboot() {
        endBoot()
        state.withLock { $0.wall += 60_000_000_000 }
    }

    /// Reboots in no time.
    func endBoot() {
        state.withLock { state in
            state.boots += 1
            (state.boot, state.monotonic) = (0, 0)
        }
    }

    /// Goes on from a snapshot of an earlier time, as a virtual machine does.
    func restore(by duration: Duration) {
        state.withLock { state in
            state.boot -= duration.nanoseconds
            state.monotonic -= duration.nanoseconds
        }
    }

    func setWall(_ nanoseconds: Int64) { state.withLock { $0.wall = nanoseconds } }
}

/// A store in a directory of its own, and short calls.
struct SQLiteBench {
    let directory: TemporaryFolder
    let machine = TestMachine()
    let store: SQLiteStore

    init(in parent: String = TemporaryFolder.disk) throws {
        directory = try TemporaryFolder(in: parent)
        store = try SQLiteStore(path: directory.path + "/jobs.db", machine: machine.machine)
    }

    /// Another store of the same file, as another process has it.
    func peer() throws -> SQLiteStore { try SQLiteStore(path: store.path, machine: machine.machine) }
}

/// A file system of 1 MiB in memory, for users that may mount one.
struct SmallDisk {
    private let directory: TemporaryFolder
    var path: String { directory.path }

    static let mayMount: Bool = {
        guard geteuid() == 0, let directory = try? TemporaryFolder() else { return false }
        guard mount("tmpfs", directory.path, "tmpfs", 0, "size=1m") == 0 else { return false }
        return umount2(directory.path, Int32(MNT_DETACH)) == 0
    }()

    init() throws {
        directory = try TemporaryFolder()
        try #require(mount("tmpfs", directory.path, "tmpfs", 0, "size=1m,mode=700") == 0)
    }

    /// Unmounts it, also while files are open.
    func unmount() { umount2(path, Int32(MNT_DETACH)) }

    /// Mounts it again with other options.
    func remount(_ flags: Int = 0, _ options: String? = nil) throws {
        try #require(mount("tmpfs", path, nil, UInt(MS_REMOUNT | flags), options) == 0)
    }
}

/// A python process: a stranger that uses the same files.
final class Stranger: Sendable {
    private let process: Process
    private let input = Pipe()
    private let output = Pipe()

    /// Starts a script with `sys`, `sqlite3`, `fcntl`, `struct` and `time` imported, and waits until it prints a line.
    init(_ script: String, _ arguments: String...) throws {
        process = Process(["python3", "-c", "import sys, sqlite3, fcntl, struct, time\n" + script] + arguments)
        (process.standardInput, process.standardOutput) = (input, output)
        try process.run()
        _ = output.fileHandleForReading.readLine()
    }

    /// Lets the script read a line.
    func go() { input.fileHandleForWriting.write(Data("\n".utf8)) }

    func kill() { process.kill() }

    func wait() { process.waitUntilExit() }
}
#endif
