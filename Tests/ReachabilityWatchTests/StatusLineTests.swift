import Reachability
import Testing

@testable import CommandKit
@testable import reachability_watch

struct StyledTextTests {
    @Test(
        arguments: [
            ("", 0), ("eth0", 4), ("grün", 4), ("gru\u{308}n", 4), ("网卡", 4), ("한글", 4), ("●○◌…", 4), ("👍", 2), ("ｗ", 2),
            ("\u{1b}[31m", 8),
        ] as [(String, Int)])
    func columnsAreThoseOfATerminal(_ text: String, _ columns: Int) {
        #expect(StyledText(text).columns == columns)
    }

    @Test(
        arguments: [
            ("online", 6, "online"), ("online", 5, "onli…"), ("online", 1, "…"), ("online", 0, ""), ("网卡网卡", 8, "网卡网卡"),
            ("网卡网卡", 7, "网卡网…"), ("网卡网卡", 6, "网卡…"), ("网卡网卡", 2, "…"), ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
        ] as [(String, Int, String)])
    func longLinesAreCutBetweenCharacters(_ text: String, _ columns: Int, _ expected: String) {
        let fitted = StyledText(text).fitted(to: columns, TextStyle())
        #expect(fitted.plain == expected && fitted.columns <= columns)
    }

    @Test(arguments: [(6, "online"), (5, "on..."), (2, "..")]) func theMarkOfACutCanBeASCII(_ columns: Int, _ expected: String) {
        #expect(StyledText("online").fitted(to: columns, TextStyle(hasUnicode: false)).plain == expected)
    }

    @Test func aCutKeepsColours() {
        let text = StyledText([.init("a "), .init("● online", .satisfied), .init(" 5s")])
        let style = TextStyle(hasColor: true)
        #expect(text.rendered(style) == "a \u{1b}[32m● online\u{1b}[0m 5s")
        #expect(text.fitted(to: 6, style).rendered(style) == "a \u{1b}[32m● o\u{1b}[0m…")
        #expect(text.fitted(to: 6, style).rendered(TextStyle()) == "a ● o…")
    }
}

struct StatusLineTests {
    /// Returns the screen after a line was replaced in turn by others.
    private func screen(_ lines: [String?], columns: Int = 20) -> TerminalScreen {
        var screen = TerminalScreen(columns: columns, "before\r\n")
        for (old, new) in zip([nil] + lines, lines) { screen.write(StatusLine.replacing(old, by: new)) }
        return screen
    }

    @Test func aLineReplacesTheOneBefore() {
        #expect(screen(["a long line", "short"]).rows == ["before", "short"])
        #expect(screen(["short", "a long line"]).rows == ["before", "a long line"])
        #expect(screen(["short", nil]).rows == ["before", ""])
        #expect(screen([nil]).rows == ["before", ""])
    }

    @Test func theCursorRestsAtTheBeginning() {
        let shown = screen(["short"]).cursor
        #expect(shown == (1, 0))
        let gone = screen(["short", nil]).cursor
        #expect(gone == (1, 0))
    }

    @Test func aWiderLineThanExpectedStaysInItsRow() {
        let wide = screen([String(repeating: "x", count: 50), "short"])
        #expect(wide.rows == ["before", "short"])
        var next = screen([String(repeating: "x", count: 50)])
        #expect(next.rows.count == 2)
        // Other output is broken into rows as before.
        next.write(StatusLine.replacing("x", by: nil) + String(repeating: "y", count: 25))
        #expect(next.rows == ["before", String(repeating: "y", count: 20), "yyyyy"])
    }

    @Test func nothingIsErasedWithoutALine() {
        var screen = TerminalScreen(columns: 20, "no line end")
        screen.write(StatusLine.replacing(nil, by: nil))
        #expect(screen.rows == ["no line end"])
    }
}
