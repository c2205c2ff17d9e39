import Testing

@testable import reachability_watch

struct TextStyleTests {
    @Test(
        arguments: [
            ([:], true, true), ([:], false, false), (["NO_COLOR": "1"], true, false), (["NO_COLOR": ""], true, true),
            (["TERM": "dumb"], true, false), (["TERM": "xterm-256color"], true, true), (["TERM": "xterm"], false, false),
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
