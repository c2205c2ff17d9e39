import Glibc
import Testing

/// `run` at a terminal.
@Suite(.timeLimit(.minutes(10))) struct RunTerminalTests {
    private func run(_ script: String) throws -> PseudoTerminal {
        try PseudoTerminal(["run", "--connectivity", "ignore", "--", "sh", "-c", script])
    }

    @Test func theCommandCanReadFromTheTerminal() throws {
        let terminal = try run("echo ready; read line; echo \"got $line\"")
        _ = terminal.read(until: "ready")
        terminal.type("hello\n")
        #expect(terminal.read(until: "got hello").contains("got hello"))
        #expect(terminal.end() == 0)
    }

    @Test func theCommandAsksAtTheTerminalWhileItsInputIsAPipe() throws {
        let terminal = try PseudoTerminal(
            script: "echo data | \(Self.run) -- sh -c 'echo ready; read key </dev/tty; read line; echo \"got $key and $line\"'")
        _ = terminal.read(until: "ready")
        terminal.type("hello\n")
        #expect(terminal.read(until: "got hello and data").contains("got hello and data"))
        #expect(terminal.end() == 0)
    }

    @Test func itsOutputGoesToAPager() throws {
        // The pager takes its keys from the terminal.
        let terminal = try PseudoTerminal(
            script: "\(Self.run) -- sh -c 'echo page' | sh -c 'cat; read key </dev/tty; echo \"pressed $key\"'")
        _ = terminal.read(until: "page")
        terminal.type("q\n")
        #expect(terminal.read(until: "pressed q").contains("pressed q"))
        #expect(terminal.end() == 0)
    }

    /// A shell with job control, as people have: it starts the command in a job of its own.
    private func job(_ start: String, _ command: String) throws -> PseudoTerminal {
        try PseudoTerminal(script: "set -m; \(Self.run) -- sh -c '\(command)' \(start); fg; echo \"ended $?\"")
    }

    private static let run = "\"$0\" run --connectivity ignore --attempts 1"

    @Test func aStopFromTheKeyboardStopsItUntilItIsContinued() throws {
        let file = "/tmp/reachability-watch-test-\(getpid())-stopped"
        defer { unlink(file) }
        // The shell notices that its job has stopped, perhaps before the command has.
        let wait = "until grep -q \") T \" /proc/$(cat \(file))/stat; do sleep 0.02; done; echo both"
        let terminal = try job("; echo \"stopped $?\"; \(wait); cat", "echo $$ >\(file); echo ready; read line; echo \"got $line\"")
        _ = terminal.read(until: "ready")
        terminal.type("\u{1a}")
        #expect(terminal.read(until: "both").contains("stopped 148"))
        // Ends cat, and the job is in the foreground again.
        terminal.type("\u{4}")
        terminal.type("hello\n")
        #expect(terminal.read(until: "ended 0").contains("got hello"))
        #expect(terminal.end() == 0)
    }

    @Test func itStopsWithACommandThatStopsByItself() throws {
        let terminal = try job("; echo \"stopped $?\"; cat", "kill -STOP $$; echo went on; exit 7")
        #expect(terminal.read(until: "stopped 147").contains("stopped 147"))
        terminal.type("\u{4}")
        #expect(terminal.read(until: "ended 7").contains("went on"))
        #expect(terminal.end() == 0)
    }

    @Test func inTheBackgroundItStopsWhenTheCommandReads() throws {
        let terminal = try job(
            "& until grep -q \") T \" /proc/$!/stat; do sleep 0.02; done; echo ready; cat", "read line; echo \"got $line\"")
        #expect(terminal.read(until: "ready").contains("ready"))
        terminal.type("\u{4}")
        terminal.type("hello\n")
        #expect(terminal.read(until: "ended 0").contains("got hello"))
        #expect(terminal.end() == 0)
    }

    @Test func aLimitEndsTheCommandAndNotItsPipeline() throws {
        let terminal = try PseudoTerminal(
            script: """
                (\(Self.run) --attempt-timeout 300ms -- sh -c 'sleep 100 & exec sleep 100'; echo "ended $?") | cat; echo and $?
                """)
        #expect(terminal.read(until: "and 0").contains("ended 124"))
        #expect(terminal.end() == 0)
    }

    @Test func aHangUpEndsTheCommand() throws {
        let terminal = try PseudoTerminal(["run", "--connectivity", "ignore", "--", "sh", "-c", "echo ready; exec sleep 100"])
        _ = terminal.read(until: "ready")
        #expect(terminal.hangUp() == 129)
    }

    @Test func anInterruptFromTheKeyboardReachesTheCommandOnceAndIsTheEnd() throws {
        let script = "trap 'echo interrupted' INT; echo ready; for i in 1 2 3 4 5 6; do sleep 0.05; done; exit 9"
        let terminal = try run(script)
        _ = terminal.read(until: "ready")
        terminal.type("\u{3}")
        let screen = terminal.read()
        #expect(terminal.end() == 9)
        #expect(screen.split(whereSeparator: \.isNewline).count { $0.hasSuffix("interrupted") } == 1, "\(screen)")
        #expect(!screen.contains("ready"), "no further attempt follows: \(screen)")
    }

    @Test func anInterruptEndsACommandThatDoesNotCatchIt() throws {
        // No shell, which might take the signal between its fork and its exec.
        let terminal = try PseudoTerminal(["run", "--connectivity", "ignore", "--", "cat"])
        terminal.type("ready\n")
        // The terminal's echo comes first.
        _ = terminal.read(until: "ready\r\nready")
        terminal.type("\u{3}")
        _ = terminal.read()
        #expect(terminal.end() == 130)
    }
}
