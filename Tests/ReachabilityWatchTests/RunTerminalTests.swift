import Glibc
import TestSupport
import Testing

/// `run` on a terminal.
@Suite(.timeLimit(.minutes(10)), .blocking) struct RunTerminalTests {
    private func run(_ script: String) throws -> PseudoTerminal {
        try PseudoTerminal(["run", "--connectivity", "ignore", "--", "sh", "-c", script])
    }

    @Test func theCommandReadsFromTheTerminal() throws {
        let terminal = try run("echo ready; read line; echo \"got $line\"")
        _ = terminal.read(until: "ready")
        terminal.type("hello\n")
        #expect(terminal.read(until: "got hello").contains("got hello"))
        #expect(terminal.end() == 0)
    }

    @Test func promptsWorkWhileInputIsAPipe() throws {
        let terminal = try PseudoTerminal(
            script: "echo data | \(Self.run) -- sh -c 'echo ready; read key </dev/tty; read line; echo \"got $key and $line\"'")
        _ = terminal.read(until: "ready")
        terminal.type("hello\n")
        #expect(terminal.read(until: "got hello and data").contains("got hello and data"))
        #expect(terminal.end() == 0)
    }

    @Test func outputReachesAPager() throws {
        // The pager reads keys from the terminal.
        let terminal = try PseudoTerminal(
            script: "\(Self.run) -- sh -c 'echo page' | sh -c 'cat; read key </dev/tty; echo \"pressed $key\"'")
        _ = terminal.read(until: "page")
        terminal.type("q\n")
        #expect(terminal.read(until: "pressed q").contains("pressed q"))
        #expect(terminal.end() == 0)
    }

    /// Runs the command as a job of an interactive shell.
    private func job(_ start: String, _ command: String) throws -> PseudoTerminal {
        try PseudoTerminal(script: "set -m; \(Self.run) -- sh -c '\(command)' \(start); fg; echo \"ended $?\"")
    }

    private static let run = "\"$0\" run --connectivity ignore --attempts 1"

    @Test func ctrlZStopsUntilContinued() throws {
        let folder = try TemporaryFolder()
        let file = "\(folder.path)/stopped"
        // The shell may notice the stop before the command does.
        let wait = "until grep -q \") T \" /proc/$(cat \(file))/stat; do sleep 0.02; done; echo both"
        let terminal = try job("; echo \"stopped $?\"; \(wait); cat", "echo $$ >\(file); echo ready; read line; echo \"got $line\"")
        _ = terminal.read(until: "ready")
        terminal.type("\u{1a}")
        #expect(terminal.read(until: "both").contains("stopped 148"))
        // Ctrl-D ends cat, and `fg` follows.
        terminal.type("\u{4}")
        terminal.type("hello\n")
        #expect(terminal.read(until: "ended 0").contains("got hello"))
        #expect(terminal.end() == 0)
    }

    @Test func runStopsWithItsCommand() throws {
        let terminal = try job("; echo \"stopped $?\"; cat", "kill -STOP $$; echo went on; exit 7")
        #expect(terminal.read(until: "stopped 147").contains("stopped 147"))
        terminal.type("\u{4}")
        #expect(terminal.read(until: "ended 7").contains("went on"))
        #expect(terminal.end() == 0)
    }

    @Test func readingInTheBackgroundStops() throws {
        let terminal = try job(
            "& until grep -q \") T \" /proc/$!/stat; do sleep 0.02; done; echo ready; cat", "read line; echo \"got $line\"")
        #expect(terminal.read(until: "ready").contains("ready"))
        terminal.type("\u{4}")
        terminal.type("hello\n")
        #expect(terminal.read(until: "ended 0").contains("got hello"))
        #expect(terminal.end() == 0)
    }

    @Test func aLimitSparesThePipeline() throws {
        let terminal = try PseudoTerminal(
            script: """
                (\(Self.run) --attempt-timeout 300ms -- sh -c 'sleep 100 & exec sleep 100'; echo "ended $?") | cat; echo and $?
                """)
        #expect(terminal.read(until: "and 0").contains("ended 124"))
        #expect(terminal.end() == 0)
    }

    @Test func aHangupEndsTheCommand() throws {
        let terminal = try PseudoTerminal(["run", "--connectivity", "ignore", "--", "sh", "-c", "echo ready; exec sleep 100"])
        _ = terminal.read(until: "ready")
        #expect(terminal.hangUp() == 129)
    }

    @Test func ctrlCReachesTheCommandOnceAndEndsRun() throws {
        let interruption = "trap 'echo interrupted; key=c' INT; echo ready; until [ $key ]; do sleep 0.05; done"
        let script = "\(interruption); for i in 1 2 3 4 5 6; do sleep 0.05; done; exit 9"
        let terminal = try run(script)
        _ = terminal.read(until: "ready")
        terminal.type("\u{3}")
        let screen = terminal.read()
        #expect(terminal.end() == 9)
        #expect(screen.split(whereSeparator: \.isNewline).count { $0.hasSuffix("interrupted") } == 1, "\(screen)")
        #expect(!screen.contains("ready"), "no further attempt follows: \(screen)")
    }

    @Test func ctrlCEndsACommandWithoutAHandler() throws {
        // No shell: it might take the signal between its fork and its exec.
        let terminal = try PseudoTerminal(["run", "--connectivity", "ignore", "--", "cat"])
        terminal.type("ready\n")
        // The first "ready" is the terminal's echo.
        _ = terminal.read(until: "ready\r\nready")
        terminal.type("\u{3}")
        _ = terminal.read()
        #expect(terminal.end() == 130)
    }

    /// Runs the command with a line for its waits.
    private func shown(_ words: String, _ settings: String = "TERM=xterm") throws -> PseudoTerminal {
        try PseudoTerminal(script: "stty cols 120; \(settings) LC_ALL=C.UTF-8 exec \"$0\" run \(words)")
    }

    private static let nowhere = "waits for a path to internet%no-cable: there is no interface named no-cable (noInterface)"

    @Test func theLastLineShowsTheMissingPath() throws {
        let terminal = try shown("--interface no-cable -- true")
        var screen = TerminalScreen(columns: 120, terminal.read(until: "s so far"))
        let message = "reachability-watch: no path to internet%no-cable (there is no interface named no-cable): waiting for it"
        #expect(screen.rows.count == 2 && screen.rows[0] == message, "\(screen.rows)")
        #expect(screen.rows[1].hasPrefix("\(Self.nowhere); ") && screen.rows[1].hasSuffix("s so far"), "\(screen.rows)")
        terminal.type("\u{3}")
        screen.write(terminal.read())
        #expect(screen.rows == [message, ""])
        #expect(terminal.end() == 130)
    }

    @Test func theLastLineCountsDownAndIsGoneDuringAttempts() throws {
        let terminal = try shown(
            "--connectivity ignore --attempts 2 --backoff constant:10s --jitter none -- sh -c 'echo attempt; read line; exit 7'")
        var screen = TerminalScreen(columns: 120, terminal.read(until: "attempt\r\n"))
        terminal.type("\n")
        screen.write(terminal.read(until: "(attempt 2 of 2)"))
        let texts = [
            "attempt", "", "reachability-watch: attempt 1 failed: exit code 7", "reachability-watch: next attempt in 10s",
        ]
        #expect(screen.rows.dropLast() == texts[...] && screen.rows.count == 5, "\(screen.rows)")
        #expect(screen.rows.last?.wholeMatch(of: /next attempt in \d+s \(attempt 2 of 2\)/) != nil, "\(screen.rows)")
        // The word is also in the last line.
        screen.write(terminal.read(until: "attempt\r\n"))
        #expect(screen.rows.dropFirst(4).allSatisfy { !$0.contains("next") }, "\(screen.rows)")
        terminal.type("\n")
        screen.write(terminal.read())
        #expect(screen.rows.prefix(6) == (texts + ["attempt", ""])[...])
        #expect(terminal.end() == 7)
    }

    @Test(arguments: [("--quiet", "TERM=xterm"), ("", "TERM=dumb"), ("", "TERM=")]) func noLineIsShown(
        _ option: String, _ setting: String
    ) throws {
        let terminal = try shown("--connectivity ignore --attempts 2 --backoff constant:500ms \(option) -- false", setting)
        #expect(!terminal.read().contains("\u{1b}"))
        #expect(terminal.end() == 1)
    }

    @Test func aPagerKeepsTheScreen() throws {
        let terminal = try PseudoTerminal(
            script: "TERM=xterm \"$0\" run --connectivity ignore --attempts 2 --backoff constant:500ms -- false | cat")
        #expect(!terminal.read().contains("\u{1b}"))
        #expect(terminal.end() == 0)
    }

    @Test func ctrlZLeavesNoLineBehind() throws {
        let terminal = try PseudoTerminal(
            script: "stty cols 120; export TERM=xterm; set -m; \"$0\" run --interface no-cable -- true; echo \"stopped $?\"; fg; "
                + "echo \"ended $?\"")
        var screen = TerminalScreen(columns: 120, terminal.read(until: "so far"))
        try terminal.stopAndContinue(&screen, "so far")
        terminal.type("\u{3}")
        screen.write(terminal.read())
        #expect(screen.rows.contains("ended 130") && !screen.rows.contains { $0.contains("so far") }, "\(screen.rows)")
        #expect(terminal.end() == 0)
    }
}
