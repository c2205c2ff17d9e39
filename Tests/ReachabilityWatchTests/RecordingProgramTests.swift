import Glibc
import TestSupport
import Testing

@testable import CommandKit
@testable import reachability_watch

/// `record` and `replay`, run from a shell.
@Suite(.timeLimit(.minutes(10)), .blocking) struct RecordingProgramTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func run(_ arguments: String...) throws -> Outcome { try WatchProcess.run(arguments) }

    /// Starts a recording, and returns it with its replay once the file has a verdict.
    ///
    /// - Parameter shell: Commands of sh(1) to run first, in the same process.
    private func startRecording(
        to file: String, after shell: String? = nil
    ) throws -> (record: WatchProcess, replay: Outcome) {
        let changes = try FolderChanges(folder.path)
        let record = try WatchProcess(["record", file, "--to", "127.0.0.1"], after: shell)
        while true {
            try changes.next()
            let replay = try run("replay", file)
            if !replay.output.isEmpty { return (record, replay) }
        }
    }

    @Test func aRecordingIsMadeAndReplayed() throws {
        let file = "\(folder.path)/here.reach"
        let record = try run("record", file, "--to", "127.0.0.1", "--for", "2s")
        #expect(record.code == 0 && record.output.isEmpty && record.errors.isEmpty)
        let replay = try run("replay", file, "--format", "json")
        #expect(replay.code == 0 && replay.errors.isEmpty)
        #expect(replay.output.hasPrefix(#"{"event":"baseline","sequence":0,"#) && replay.output.contains(#""scope":"127.0.0.1""#))
        #expect(try run("replay", "--speed", "1000", "--format", "json", file).output == replay.output)
        let again = try run("record", file)
        #expect(again.code == 73 && again.errors.contains("exists already; next: choose another name"))
    }

    @Test(arguments: [(SIGTERM, 143), (SIGINT, 130), (SIGHUP, 129)] as [(Int32, Int32)])
    func signalsEndRecordingsInOrder(_ signal: Int32, _ code: Int32) throws {
        let file = "\(folder.path)/ended.reach"
        let (record, unfinished) = try startRecording(to: file)
        #expect(unfinished.errors.contains("has no end"))
        kill(record.pid, signal)
        #expect(record.end() == code)
        let finished = try run("replay", file)
        #expect(finished.code == 0 && finished.errors.isEmpty)
        // The machine's own network may have changed before the signal.
        #expect(finished.output.hasPrefix(unfinished.output), "\(unfinished.output)\n\(finished.output)")
    }

    @Test func inheritedIgnoredSignalsStayIgnored() throws {
        let file = "\(folder.path)/nohup.reach"
        let (record, _) = try startRecording(to: file, after: "trap '' HUP INT")
        // The first signal that is not ignored makes the exit code.
        for signal in [SIGHUP, SIGINT, SIGTERM] { kill(record.pid, signal) }
        #expect(record.end() == 143)
        let replay = try run("replay", file)
        #expect(replay.code == 0 && replay.errors.isEmpty && !replay.output.isEmpty)
    }

    @Test func aFileSizeLimitEndsTheRecording() throws {
        let file = "\(folder.path)/limited.reach"
        let record = try WatchProcess(["record", file, "--for", "60s"], after: "ulimit -f 1")
        let text = record.errors.readAll()
        #expect(text.contains("has reached the file size limit") && text.contains("next: raise the limit"), "\(text)")
        #expect(record.end() == 74)
        let replay = try run("replay", file)
        #expect(replay.code == 0 && replay.errors.contains("in the middle of an entry at byte "), "\(replay.errors)")
    }

    @Test func aKilledRecordingIsReplayedToItsEnd() throws {
        let file = "\(folder.path)/killed.reach"
        let (record, _) = try startRecording(to: file)
        kill(record.pid, SIGKILL)
        #expect(record.end() == 1000 + SIGKILL)
        let replay = try run("replay", file)
        #expect(replay.code == 0 && replay.output.contains("online") && replay.errors.contains("has no end"))
    }

    @Test func unreadableFilesAreRejected() throws {
        let missing = try run("replay", "\(folder.path)/none")
        #expect(missing.code == 66 && missing.errors.contains("No such file"))
        let other = try run("replay", "/proc/self/status")
        #expect(other.code == 65 && other.output.isEmpty && other.errors.contains("reachability-watch record"))
    }

    @Test(arguments: ["", "\u{89}", "RCHS"]) func aFileWithoutAHeaderIsRejected(_ text: String) throws {
        let file = try folder.write(text.unicodeScalars.map { UInt8($0.value) }, to: "made")
        for arguments in [["replay", file], ["replay", file, "--speed", "10"]] {
            let process = try WatchProcess(arguments)
            #expect(process.errors.readAll().contains(text == "" ? "the file is empty" : "reading the"))
            #expect(process.end() == 65)
        }
    }

    /// The first bytes of `abc`, compressed by these programs.
    @Test(
        arguments: [
            ("gzip", [0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0, 3, 0x4b, 0x4c]), ("xz", [0xfd, 0x37, 0x7a, 0x58, 0x5a, 0, 0, 4]),
            ("zstd", [0x28, 0xb5, 0x2f, 0xfd, 4, 0x58, 0x19]), ("bzip2", [0x42, 0x5a, 0x68, 0x39, 0x31, 0x41, 0x59]),
        ] as [(String, [UInt8])])
    func aCompressedRecordingIsNamed(_ program: String, _ bytes: [UInt8]) throws {
        let replay = try run("replay", try folder.write(bytes, to: "made"))
        #expect(replay.code == 65 && replay.output.isEmpty)
        #expect(replay.errors.contains("is compressed with \(program); next: "), "\(replay.errors)")
    }

    @Test func unwritableFilesAreReportedAtOnce() throws {
        let missing = try run("record", "\(folder.path)/none/file")
        #expect(missing.code == 73 && missing.errors.contains("No such file"))
        let full = try WatchProcess(["record", "-"], outputPath: "/dev/full")
        #expect(full.errors.readAll().contains("No space left on device"))
        #expect(full.end() == 74)
    }

    @Test(arguments: [["record"], ["replay"], ["record", "x", "--for", "5"], ["replay", "x", "--speed", "fast"]])
    func incompleteCommandsShowTheirUsage(_ arguments: [String]) throws {
        let process = try WatchProcess(arguments)
        #expect(process.errors.readAll().contains("Usage:"))
        #expect(process.end() == 64)
    }
}
