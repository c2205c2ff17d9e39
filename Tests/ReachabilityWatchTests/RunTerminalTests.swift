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
