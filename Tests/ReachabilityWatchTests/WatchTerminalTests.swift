import Glibc
import TestSupport
import Testing

/// `watch` on a terminal.
@Suite(.timeLimit(.minutes(10)), .blocking) struct WatchTerminalTests {
    /// Runs a watch of an interface that does not exist, so that the verdict is that of any machine.
    private func watch(_ words: String = "", _ settings: String = "TERM=xterm", columns: Int = 100) throws -> PseudoTerminal {
        try PseudoTerminal(
            script: "stty cols \(columns); unset NO_COLOR; export LC_ALL=C.UTF-8 \(settings); exec \(Self.command) \(words)")
    }

    private static let command = "\"$0\" --interface no-cable"
    private static let reason = "there is no interface named no-cable"
    /// Lets the terminal wrap lines again, after the last line was written.
    private static let endOfRedraw = "\u{1b}[?7h"

    /// Returns the row of a screen that a transition has left, without its time, and all rows below it.
    private func rows(_ screen: TerminalScreen) -> [String] {
        screen.rows.enumerated().map { $0.offset == 0 ? String($0.element.dropFirst(25)) : $0.element }
    }

    @Test(arguments: [("\u{3}", 130), ("", 143)] as [(String, Int32)])
    func theLastLineShowsTheAgeAndVanishes(_ key: String, _ code: Int32) throws {
        let terminal = try watch()
        var screen = TerminalScreen(columns: 100, terminal.read(until: ": \(Self.reason)"))
        let first = screen.rows.last
        while screen.rows.last == first {
            let redraw = terminal.read(until: Self.endOfRedraw)
            try #require(!redraw.isEmpty)
            screen.write(redraw)
        }
        #expect(rows(screen).count == 2 && rows(screen)[0] == "○ offline  \(Self.reason)", "\(screen.rows)")
        #expect(screen.rows[1].wholeMatch(of: /○ offline at least \d+s: there is no interface named no-cable/) != nil)
        #expect(screen.hasColor)
        if key.isEmpty { kill(terminal.pid, SIGTERM) } else { terminal.type(key) }
        screen.write(terminal.read())
        #expect(rows(screen) == ["○ offline  \(Self.reason)", ""])
        #expect(terminal.end() == code)
    }

    @Test(arguments: [
        ("", "TERM=dumb"), ("", "TERM="), ("--format json", "TERM=xterm"), ("2>/dev/null", "TERM=xterm NO_COLOR=1"),
        ("| cat", "TERM=xterm"), ("--color never 2>/dev/null", "TERM=xterm"),
    ])
    func noSequencesAreWritten(_ words: String, _ settings: String) throws {
        let terminal = try watch("--count 1 \(words)", settings)
        let text = terminal.read()
        #expect(!text.contains("\u{1b}") && text.contains("no-cable"), "\(text.debugDescription)")
        #expect(terminal.end() == 0)
    }

    @Test(
        arguments: [
            ("", "TERM=xterm", true), ("", "TERM=xterm NO_COLOR=1", false), ("--color never", "TERM=xterm", false),
            ("--color always", "TERM=xterm NO_COLOR=1", true), ("", "TERM=xterm NO_COLOR=", true),
        ])
    func colourIsAChoice(_ words: String, _ settings: String, _ hasColor: Bool) throws {
        let terminal = try watch("--count 1 \(words)", settings)
        let text = terminal.read()
        // The last line is there in any case.
        #expect(text.contains("\u{1b}[?7l"))
        #expect(TerminalScreen(columns: 100, text).hasColor == hasColor, "\(text.debugDescription)")
        #expect(text.contains("○ offline"))
        #expect(terminal.end() == 0)
    }

    @Test func colourNeedsNoTerminalIfItIsAlwaysWanted() throws {
        let terminal = try watch("--count 1 --color always | cat", "TERM=dumb")
        #expect(terminal.read().contains("\u{1b}[31m○ offline\u{1b}[0m"))
        #expect(terminal.end() == 0)
    }

    @Test func theLineFitsTheWidthAndFollowsIt() throws {
        let terminal = try watch(columns: 40)
        _ = terminal.read(until: "at least")
        _ = terminal.read(until: Self.endOfRedraw)
        let screen = TerminalScreen(columns: 40, terminal.read(until: Self.endOfRedraw))
        #expect(screen.rows.count == 1 && screen.rows[0].wholeMatch(of: /○ offline at least \d+s/) != nil, "\(screen.rows)")
        terminal.resize(columns: 90)
        #expect(terminal.read(until: Self.reason).contains("s: \(Self.reason)"))
        terminal.resize(columns: 15)
        #expect(TerminalScreen(columns: 15, terminal.read(until: "…")).rows.last == "○ offline at …")
        terminal.type("\u{3}")
        _ = terminal.read()
        #expect(terminal.end() == 130)
    }

    @Test func ctrlZLeavesNoLineBehind() throws {
        let terminal = try PseudoTerminal(
            script: "stty cols 100; export LC_ALL=C.UTF-8 TERM=xterm; set -m; \(Self.command); echo \"stopped $?\"; fg; "
                + "echo \"ended $?\"")
        var screen = TerminalScreen(columns: 100, terminal.read(until: "at least"))
        try terminal.stopAndContinue(&screen, "at least")
        terminal.type("\u{3}")
        screen.write(terminal.read())
        #expect(screen.rows.contains("ended 130") && !screen.rows.contains { $0.contains("at least") }, "\(screen.rows)")
        #expect(terminal.end() == 0)
    }

    @Test func theLineIsGoneWhileAHookRuns() throws {
        let folder = try TemporaryFolder()
        let hook = "\(folder.path)/hook"
        // Written by the shell: an open file of this process would get into children of other tests, and keep it busy (execve(2)).
        let terminal = try PseudoTerminal(
            script: """
                printf '%s\\n' '#!/bin/sh' 'echo begin; sleep 1.5; echo end' >\(hook); chmod 755 \(hook)
                stty cols 100; export LC_ALL=C.UTF-8 TERM=xterm; exec \(Self.command) --exec \(hook)
                """)
        var text = terminal.read(until: "end\r\n")
        // The transition may come meanwhile.
        let during = try #require(text.firstRange(of: "begin\r\n").map { text[$0.upperBound...] })
        #expect(!during.prefix(upTo: try #require(during.firstRange(of: "end\r\n")).lowerBound).contains("at least"), "\(text)")
        text += terminal.read(until: ": \(Self.reason)")
        let rows = TerminalScreen(columns: 100, text).rows
        #expect(rows.count == 4 && rows.contains("begin") && rows.contains("end"), "\(rows)")
        #expect(rows.contains { $0.hasSuffix("○ offline  \(Self.reason)") }, "\(rows)")
        #expect(rows.last?.hasPrefix("○ offline at least") == true, "\(rows)")
        terminal.type("\u{3}")
        _ = terminal.read()
        #expect(terminal.end() == 130)
    }

    @Test func aJobInTheBackgroundShowsNoLine() throws {
        let terminal = try PseudoTerminal(
            script: "unset NO_COLOR; export TERM=xterm; set -m; \(Self.command) --for 1500ms & wait; echo \"ended $?\"")
        let text = terminal.read(until: "ended 0")
        #expect(!text.contains("\u{1b}[?7l") && text.contains("\u{1b}[31m"), "\(text.debugDescription)")
        #expect(terminal.end() == 0)
    }

    @Test func aHangupEndsWatchAndItsLog() throws {
        let folder = try TemporaryFolder()
        let terminal = try watch("--log \(folder.path)/log")
        func awaitLines(_ count: Int) throws {
            while folder.read("log").split(separator: "\n").count < count {
                try #require(!terminal.read(until: Self.endOfRedraw).isEmpty)
            }
        }
        try awaitLines(1)
        // With a log this signal opens it again, unless the terminal is gone.
        kill(terminal.pid, SIGHUP)
        try awaitLines(2)
        #expect(terminal.hangUp() == 129)
        let events = folder.read("log").split(separator: "\n").compactMap { $0.split(separator: "\"").dropFirst(3).first }
        #expect(events == ["baseline", "baseline", "end"])
    }
}
