import Glibc
import TestSupport
import Testing

@testable import CommandKit
@testable import reachability_watch

/// The built command, run from a shell.
///
/// The verdicts about this machine's network do not matter here.
@Suite(.timeLimit(.minutes(10)), .blocking)
struct ProgramTests {
    @Test(arguments: [
        ["--to", "192.0.2.300"], ["--for", "5"], ["frobnicate"], ["--count", "0"], ["--netns", "no-such-namespace"],
        ["status", "--netns", "/no/such/file"], ["status", "--interface", String(repeating: "x", count: 128)],
    ])
    func aWrongCommandLineExits64(_ arguments: [String]) throws {
        let process = try WatchProcess(arguments)
        #expect(process.output.readAll().isEmpty)
        #expect(!process.errors.readAll().isEmpty)
        #expect(process.end() == 64)
    }

    @Test(arguments: [
        (["staus"], "'staus' is not a command; next: try 'status'"),
        (["wiat", "--timeout", "5s"], "'wiat' is not a command; next: try 'wait'\nUsage: reachability-watch <subcommand>"),
        (["recrod", "x.reach"], "'recrod' is not a command; next: try 'record'"),
        (["--format", "json", "expalin"], "'expalin' is not a command; next: try 'explain'"),
        (["--to", "192.0.2.1", "status"], "'status' is a command, but not the first word; next: write it first"),
        (["nas.example.org"], "'nas.example.org' is not a command; next: reachability-watch --help lists the commands"),
        (["status", "--fromat", "json"], "Did you mean '--format'?"),
    ])
    func misspeltCommandsGetASuggestion(_ arguments: [String], _ text: String) throws {
        let process = try WatchProcess(arguments)
        #expect(process.errors.readAll().contains(text))
        #expect(process.output.readAll().isEmpty)
        #expect(process.end() == 64)
    }

    @Test(
        arguments: [
            { ["--to", $0] }, { ["--to=\($0)"] }, { ["--netns", $0] }, { [$0] }, { ["--\($0)"] }, { ["replay", $0] },
            { ["record", "/no/such/folder/\($0)"] }, { ["wait", "--until", $0] }, { ["status", $0] },
            { ["simulate", $0] }, { ["simulate", "/dev/null", "--format", $0] },
        ] as [@Sendable (String) -> [String]])
    func messagesQuoteAtMost64Characters(_ arguments: @Sendable (String) -> [String]) throws {
        let process = try WatchProcess(arguments("a\u{1b}[31m" + String(repeating: "x", count: 2000)))
        let text = process.errors.readAll()
        #expect(!text.isEmpty && text.split(separator: "\n").allSatisfy { isHarmless(String($0)) }, "\(text)")
        #expect(!text.contains(String(repeating: "x", count: longestQuotation)), "\(text)")
        #expect([64, 66, 73].contains(process.end()))
    }

    @Test func versionAndHelpExit0() throws {
        let version = try WatchProcess(["--version"])
        #expect(version.output.readAll() == "0.1.0\n")
        #expect(version.end() == 0)
        let help = try WatchProcess(["--help"])
        let text = help.output.readAll()
        for word in ["watch (default)", "status", "wait", "explain", "EXAMPLES", "EXIT CODES"] { #expect(text.contains(word)) }
        #expect(help.end() == 0)
    }

    @Test(arguments: [(SIGTERM, 143), (SIGINT, 130)] as [(Int32, Int32)])
    func aSignalEndsWatchAtOnce(_ signal: Int32, _ code: Int32) throws {
        let process = try WatchProcess(["--format", "json", "--for", "30s"])
        #expect(process.output.readLine().hasPrefix(#"{"event":"baseline""#))
        kill(process.pid, signal)
        #expect(process.end() == code)
    }

    @Test(arguments: [
        ["--for", "30s"], ["wait", "--interface", "no-such-cable", "--timeout", "30s", "--verbose"], ["record", "-"],
        ["run", "--connectivity", "ignore", "--", "sh", "-c", "echo ready >&2; exec sleep 60 2>/dev/null"],
    ]) func sigquitHasItsDefaultAction(_ arguments: [String]) throws {
        // Prevents a core dump in the working directory.
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
        limit.rlim_cur = 0
        setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
        let process = try WatchProcess(arguments)
        let first = arguments[0] == "run" ? process.errors : process.output
        if arguments[0] != "wait" { #expect(!first.available().isEmpty) }
        kill(process.pid, SIGQUIT)
        #expect(process.end() == 1000 + SIGQUIT)
        #expect(!process.errors.readAll().contains("Signal"), "no backtrace")
    }

    @Test func longInterfaceNamesAreReported() throws {
        let process = try WatchProcess(["status", "--interface", String(repeating: "x", count: 128)])
        #expect(process.errors.readAll().contains("an interface name has at most 127 bytes"))
        #expect(process.end() == 64)
    }

    @Test(arguments: [
        ["watch", "--count", "1", "--for", "10s"], ["status"], ["wait", "--timeout", "100ms"], ["explain"],
        ["record", "-", "--for", "10ms"], ["replay", "/dev/null"], ["status", "--to", "localhost"], ["simulate", "/dev/null"],
        ["run", "--", "true"],
    ])
    func aShortageOfDescriptorsIsReported(_ arguments: [String]) throws {
        for limit in [4, 5, 7, 10, 13, 16] {
            let process = try WatchProcess(arguments, after: "ulimit -n \(limit)")
            #expect(process.output.readAll().isEmpty)
            let errors = process.errors.readAll()
            #expect(errors.contains("free, and 20 are needed; next: raise the limit"), "\(limit): \(errors)")
            #expect(process.end() == 2, "\(limit)")
        }
    }

    @Test func watchEndsQuietlyWithoutAReader() throws {
        let process = try WatchProcess(["--for", "45s"])
        #expect(!process.output.readLine().isEmpty)
        let elapsed = ContinuousClock().measure {
            process.output.closeReadEnd()
            #expect(process.end() == 0)
        }
        #expect(elapsed < .seconds(30), "it ended with --for, not with its reader")
        #expect(process.errors.readAll().isEmpty)
    }

    @Test func watchEndsAfterItsCountOrTime() throws {
        let counted = try WatchProcess(["--count", "1", "--for", "30s"])
        #expect(counted.output.readAll().split(separator: "\n").count == 1)
        #expect(counted.end() == 0)
        let timed = try WatchProcess(["--for", "0s"])
        _ = timed.output.readAll()
        #expect(timed.end() == 0)
    }

    @Test(arguments: [["--count", "1"], ["status"], ["explain"]])
    func aFullDiskIsReported(_ arguments: [String]) throws {
        let process = try WatchProcess(arguments, outputPath: "/dev/full")
        #expect(process.errors.readAll().contains("No space left on device"))
        #expect(process.end() == 74)
    }

    @Test func aFileSizeLimitIsAWriteError() throws {
        let folder = try TemporaryFolder()
        let terminal = try PseudoTerminal(script: "ulimit -f 0; \"$0\" --count 1 >\(folder.path)/limited; echo \"ended $?\"")
        let screen = terminal.read()
        #expect(screen.contains("File too large") && screen.contains("ended 74"), "\(screen)")
        #expect(terminal.end() == 0)
    }

    @Test func waitIsSilent() throws {
        let process = try WatchProcess(["wait", "--interface", "no-such-cable", "--timeout", "10ms"])
        #expect(process.output.readAll().isEmpty)
        #expect(process.errors.readAll().isEmpty)
        #expect(process.end() == 1)
        let opposite = try WatchProcess(["wait", "--interface", "no-such-cable", "--until", "unsatisfied"])
        #expect(opposite.end() == 0)
    }

    @Test func statusAnswersWithItsExitCode() throws {
        let process = try WatchProcess(["status", "--interface", "no-such-cable"])
        #expect(process.output.readAll() == "internet%no-such-cable: unsatisfied: there is no interface named no-such-cable\n")
        #expect(process.end() == 1)
        #expect(try WatchProcess(["status", "--to", "127.0.0.1"]).end() == 0)
    }
}
