import Glibc
import Testing

@testable import reachability_watch

/// `record` and `replay`, as a shell meets them.
@Suite(.timeLimit(.minutes(10)))
final class RecordingProgramTests {
    private let folder: String

    init() throws {
        var template = Array("/tmp/reachability-XXXXXX".utf8CString)
        folder = try #require(mkdtemp(&template).map { String(cString: $0) })
    }

    deinit {
        _ = system("rm -r \(folder)")
    }

    private func run(_ arguments: String...) throws -> (code: Int32, output: String, errors: String) {
        let process = try WatchProcess(arguments)
        let (output, errors) = (process.output.readAll(), process.errors.readAll())
        return (process.end(), output, errors)
    }

    @Test func aRecordingIsMadeAndReplayed() throws {
        let file = "\(folder)/here.reach"
        let record = try run("record", file, "--to", "127.0.0.1", "--for", "50ms")
        #expect(record.code == 0 && record.output.isEmpty && record.errors.isEmpty)
        let replay = try run("replay", file, "--format", "json")
        #expect(replay.code == 0 && replay.errors.isEmpty)
        #expect(replay.output.hasPrefix(#"{"event":"baseline","sequence":0,"#) && replay.output.contains(#""scope":"127.0.0.1""#))
        #expect(try run("replay", "--speed", "1000", "--format", "json", file).output == replay.output)
        let again = try run("record", file)
        #expect(again.code == 73 && again.errors.contains("exists: choose another name"))
    }

    @Test(arguments: [(SIGTERM, 143), (SIGINT, 130)] as [(Int32, Int32)])
    func aSignalEndsARecordingInOrder(_ signal: Int32, _ code: Int32) throws {
        let file = "\(folder)/ended.reach"
        let record = try WatchProcess(["record", file, "--to", "127.0.0.1"])
        while try run("replay", file).output.isEmpty {}
        let unfinished = try run("replay", file)
        #expect(unfinished.errors.contains("has no end"))
        kill(record.pid, signal)
        #expect(record.end() == code)
        let finished = try run("replay", file)
        #expect(finished.code == 0 && finished.errors.isEmpty && finished.output == unfinished.output)
    }

    @Test func aKilledRecordingIsReplayedUpToThere() throws {
        let file = "\(folder)/killed.reach"
        let record = try WatchProcess(["record", file, "--to", "127.0.0.1"])
        while try run("replay", file).output.isEmpty {}
        kill(record.pid, SIGKILL)
        #expect(record.end() == 1000 + SIGKILL)
        let replay = try run("replay", file)
        #expect(replay.code == 0 && replay.output.contains("online") && replay.errors.contains("has no end"))
    }

    @Test func whatCannotBeReadIsRefused() throws {
        let missing = try run("replay", "\(folder)/none")
        #expect(missing.code == 66 && missing.errors.contains("No such file"))
        let other = try run("replay", "/proc/self/status")
        #expect(other.code == 65 && other.output.isEmpty && other.errors.contains("reachability-watch record"))
    }

    @Test func whatCannotBeWrittenIsToldAtOnce() throws {
        let missing = try run("record", "\(folder)/none/file")
        #expect(missing.code == 73 && missing.errors.contains("No such file"))
        let full = try WatchProcess(["record", "-"], outputPath: "/dev/full")
        #expect(full.errors.readAll().contains("No space left on device"))
        #expect(full.end() == 74)
    }

    @Test(arguments: [["record"], ["replay"], ["record", "x", "--for", "5"], ["replay", "x", "--speed", "fast"]])
    func anIncompleteCommandIsExplained(_ arguments: [String]) throws {
        let process = try WatchProcess(arguments)
        #expect(process.errors.readAll().contains("Usage:"))
        #expect(process.end() == 64)
    }
}
