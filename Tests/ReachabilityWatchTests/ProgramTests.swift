import Glibc
import Testing

@testable import reachability_watch

/// The built command, as a shell meets it.
///
/// What it says about this machine's network does not matter here.
@Suite(.timeLimit(.minutes(10)))
struct ProgramTests {
    @Test(arguments: [
        ["--to", "192.0.2.300"], ["--for", "5"], ["frobnicate"], ["--count", "0"], ["--netns", "no-such-namespace"],
        ["status", "--netns", "/no/such/file"],
    ])
    func endsWith64OnAWrongCommandLine(_ arguments: [String]) throws {
        let process = try WatchProcess(arguments)
        #expect(process.output.readAll().isEmpty)
        #expect(!process.errors.readAll().isEmpty)
        #expect(process.end() == 64)
    }

    @Test func showsItsVersionAndHelp() throws {
        let version = try WatchProcess(["--version"])
        #expect(version.output.readAll() == "0.1.0\n")
        #expect(version.end() == 0)
        let help = try WatchProcess(["--help"])
        let text = help.output.readAll()
        for word in ["watch (default)", "status", "wait", "explain", "EXAMPLES", "EXIT CODES"] { #expect(text.contains(word)) }
        #expect(help.end() == 0)
    }

    @Test(arguments: [(SIGTERM, 143), (SIGINT, 130)] as [(Int32, Int32)])
    func endsAtOnceOnASignal(_ signal: Int32, _ code: Int32) throws {
        let process = try WatchProcess(["--format", "json", "--for", "30s"])
        #expect(process.output.readLine().hasPrefix(#"{"event":"baseline""#))
        kill(process.pid, signal)
        #expect(process.end() == code)
    }

    @Test func endsQuietlyWhenItsReaderLeaves() throws {
        let process = try WatchProcess(["--for", "45s"])
        #expect(!process.output.readLine().isEmpty)
        let elapsed = ContinuousClock().measure {
            process.output.closeReadEnd()
            #expect(process.end() == 0)
        }
        #expect(elapsed < .seconds(30), "it ended with --for, not with its reader")
        #expect(process.errors.readAll().isEmpty)
    }

    @Test func endsAfterItsCountOrItsTime() throws {
        let counted = try WatchProcess(["--count", "1", "--for", "30s"])
        #expect(counted.output.readAll().split(separator: "\n").count == 1)
        #expect(counted.end() == 0)
        let timed = try WatchProcess(["--for", "0s"])
        _ = timed.output.readAll()
        #expect(timed.end() == 0)
    }

    @Test(arguments: [["--count", "1"], ["status"], ["explain"]])
    func complainsAboutAFullDisk(_ arguments: [String]) throws {
        let process = try WatchProcess(arguments, outputPath: "/dev/full")
        #expect(process.errors.readAll().contains("No space left on device"))
        #expect(process.end() == 74)
    }

    @Test func waitsInSilence() throws {
        let process = try WatchProcess(["wait", "--interface", "no-such-cable", "--timeout", "10ms"])
        #expect(process.output.readAll().isEmpty)
        #expect(process.errors.readAll().isEmpty)
        #expect(process.end() == 1)
        let opposite = try WatchProcess(["wait", "--interface", "no-such-cable", "--until", "unsatisfied"])
        #expect(opposite.end() == 0)
    }

    @Test func answersWithItsExitCode() throws {
        let process = try WatchProcess(["status", "--interface", "no-such-cable"])
        #expect(process.output.readAll() == "internet%no-such-cable: unsatisfied: no network interface\n")
        #expect(process.end() == 1)
        #expect(try WatchProcess(["status", "--to", "127.0.0.1"]).end() == 0)
    }
}
