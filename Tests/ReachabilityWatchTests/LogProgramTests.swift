import Glibc
import TestSupport
import Testing

/// `watch --log`, run from a shell.
@Suite(.timeLimit(.minutes(10)), .blocking) struct LogProgramTests {
    private let folder: TemporaryFolder
    private var file: String { "\(folder.path)/log" }

    init() throws { folder = try TemporaryFolder() }

    /// Returns the names of the events in a file.
    private func events(_ name: String = "log") -> [String] {
        folder.read(name).split(separator: "\n").map { line in
            line.hasSuffix("}") ? line.split(separator: "\"").dropFirst(3).first.map(String.init) ?? "?" : "incomplete"
        }
    }

    /// Starts a watch and waits until its log has an event.
    private func start(_ words: String..., after shell: String? = nil) throws -> WatchProcess {
        let changes = try FolderChanges(folder.path)
        let process = try WatchProcess(["--to", "127.0.0.1", "--log", file] + words, after: shell)
        while events().isEmpty { try changes.next() }
        return process
    }

    @Test(arguments: [(SIGTERM, 143), (SIGINT, 130)] as [(Int32, Int32)])
    func aSignalIsAnEnd(_ signal: Int32, _ code: Int32) throws {
        let process = try start()
        #expect(process.output.readLine().contains("● online   via lo"))
        kill(process.pid, signal)
        #expect(process.end() == code)
        #expect(events() == ["baseline", "end"])
    }

    @Test func aKilledWatchHasNoEnd() throws {
        let process = try start()
        kill(process.pid, SIGKILL)
        #expect(process.end() == 1000 + SIGKILL)
        #expect(events() == ["baseline"])
    }

    @Test func aHangupOpensTheLogAgain() throws {
        let process = try start()
        rename(file, "\(folder.path)/moved")
        let changes = try FolderChanges(folder.path)
        kill(process.pid, SIGHUP)
        while events().isEmpty { try changes.next() }
        kill(process.pid, SIGTERM)
        #expect(process.end() == 143)
        #expect(events("moved") == ["baseline"] && events() == ["baseline", "end"])
        #expect(folder.read("log").contains(#""continued":true"#) && !folder.read("moved").contains("continued"))
    }

    @Test func withoutALogAHangupKills() throws {
        let process = try WatchProcess(["--for", "30s"])
        _ = process.output.readLine()
        kill(process.pid, SIGHUP)
        #expect(process.end() == 1000 + SIGHUP)
    }

    @Test func anIgnoredHangupStaysIgnored() throws {
        let process = try start(after: "trap '' HUP")
        rename(file, "\(folder.path)/moved")
        kill(process.pid, SIGHUP)
        kill(process.pid, SIGTERM)
        #expect(process.end() == 143)
        #expect(folder.names == ["moved"] && events("moved") == ["baseline", "end"])
    }

    @Test func countAndTimeAreEnds() throws {
        for words in [["--count", "1"], ["--for", "1s"]] {
            let process = try WatchProcess(["--to", "127.0.0.1", "--log", file] + words)
            #expect(process.end() == 0)
        }
        #expect(events() == ["baseline", "end", "baseline", "end"])
    }

    @Test func aReaderThatLeavesIsAnEnd() throws {
        let process = try start()
        process.output.closeReadEnd()
        #expect(process.end() == 0)
        #expect(events() == ["baseline", "end"])
    }

    @Test func aLogThatCannotGrowEndsNothing() throws {
        // In sh(1) the unit of a file's size is 512 bytes: the second baseline is too much.
        let process = try start("--to", "127.0.0.2", "--to", "127.0.0.3", "--count", "3", after: "ulimit -f 1")
        #expect(process.output.readAll().split(separator: "\n").count == 3)
        #expect(process.end() == 0)
        let errors = process.errors.readAll().split(separator: "\n")
        #expect(
            errors == [
                "reachability-watch: \(file) cannot be written: File too large (errno 27); "
                    + "next: raise the file size limit, e.g. `ulimit -f unlimited`; the log continues when it can"
            ])
        #expect(events() == ["baseline"], "an end needs the states before it")
    }

    @Test func aRefusedLogEndsTheCommand() throws {
        for (path, mode, code) in [("log", 0o666, 77), ("none/log", 0o600, 73)] as [(String, mode_t, Int32)] {
            if path == "log" { try folder.write("", to: "log", mode: mode) }
            let process = try WatchProcess(["--log", "\(folder.path)/\(path)"])
            #expect(process.output.readAll().isEmpty)
            #expect(process.errors.readAll().contains("; next: "))
            #expect(process.end() == code)
        }
        let process = try WatchProcess(["--log", folder.path])
        #expect(process.end() == 73)
    }
}
