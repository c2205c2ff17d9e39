import Testing

@testable import reachability_watch

struct TextStyleTests {
    @Test(
        arguments: [
            ([:], true, false), ([:], false, false), (["TERM": ""], true, false), (["TERM": "dumb"], true, false),
            (["TERM": "xterm-256color"], true, true), (["TERM": "xterm"], false, false), (["TERM": "vt100"], true, true),
            (["TERM": "xterm", "NO_COLOR": "1"], true, false), (["TERM": "xterm", "NO_COLOR": ""], true, true),
            (["TERM": "xterm", "NO_COLOR": "0"], true, false), (["NO_COLOR": ""], true, false),
        ] as [([String: String], Bool, Bool)])
    func coloursOnlyOnATerminalThatWantsIt(_ environment: [String: String], _ isTerminal: Bool, _ expected: Bool) {
        #expect(TextStyle(environment: { environment[$0] }, isTerminal: isTerminal).hasColor == expected)
    }

    @Test(
        arguments: [
            ([:], false), (["LANG": "de_DE.UTF-8"], true), (["LANG": "C.utf8"], true),
            (["LANG": "de_DE.UTF-8", "LC_ALL": "C"], false),
            (["LANG": "C", "LC_CTYPE": "C.UTF-8"], true), (["LANG": "en_US.UTF-8", "LC_ALL": ""], true),
        ] as [([String: String], Bool)])
    func showsSignsThatTheLocaleHas(_ environment: [String: String], _ expected: Bool) {
        #expect(TextStyle(environment: { environment[$0] }, isTerminal: false).hasUnicode == expected)
    }
}
