import Reachability
import ReachabilityTesting
import Testing

@testable import CommandKit
@testable import reachability_watch

struct QuotingTests {
    private static let long = String(repeating: "a", count: 50) + String(repeating: "b", count: 50)

    @Test(arguments: [
        ("", ""), ("eth0", "eth0"), ("\u{1b}[31m", #"\x1b[31m"#), (String(long.prefix(64)), String(long.prefix(64))),
        (long, String(repeating: "a", count: 39) + "…" + String(repeating: "b", count: 24)),
    ])
    func quotationsOmitTheMiddle(_ text: String, _ expected: String) {
        #expect(quotation(text) == expected)
    }

    @Test func commandLineWordsAreQuoted() {
        let text = "Error: The value '\(Self.long)' is invalid for '--to'.\nUsage: x"
        let expected = "Error: The value '\(quotation(Self.long))' is invalid for '--to'.\nUsage: x"
        #expect(quotingInput(in: text, words: ["--to", Self.long]) == expected)
        #expect(quotingInput(in: text, words: ["--to=\(Self.long)"]) == expected)
    }

    @Test func onlyLineBreaksOfInputAreEscaped() {
        #expect(quotingInput(in: "bad 'a\nb'\nnext", words: ["a\nb"]) == "bad 'a\\x0ab'\nnext")
        #expect(quotingInput(in: "bad '\n'\nnext", words: ["\n"]) == "bad '\\x0a'\nnext")
    }

    @Test(arguments: [5, 77] as [UInt64])
    func randomQuotationsAreShortAndHarmless(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<2_000 {
            let text = random.text(of: "ab\u{1b}[\n\u{202e}\u{301}…'=\\", length: 100)
            let quoted = quotation(text)
            #expect(quoted.count <= longestQuotation && isHarmless(quoted), "seed \(seed), text \(text.debugDescription)")
            let message = quotingInput(in: "bad '\(text)'\nnext", words: [text])
            #expect(
                message.split(separator: "\n").allSatisfy { isHarmless(String($0)) }, "seed \(seed), text \(text.debugDescription)")
        }
    }
}

struct EscapingTests {
    @Test(arguments: [
        ("eth0", "eth0"), ("grün", "grün"), ("网卡", "网卡"), (#"a\xff\x5c"#, #"a\xff\x5c"#), ("\u{1b}[31mred", #"\x1b[31mred"#),
        ("two\nlines", #"two\x0alines"#), ("del\u{7f}", #"del\x7f"#), ("csi\u{9b}2J", #"csi\u{9b}2J"#),
        ("\u{202e}txt", #"\u{202e}txt"#),
        ("\u{2066}a\u{2069}", #"\u{2066}a\u{2069}"#), ("zero\u{200b}width", #"zero\u{200b}width"#), ("nbsp\u{a0}", #"nbsp\u{a0}"#),
        ("fill\u{3164}er", #"fill\u{3164}er"#), ("\u{e000}", #"\u{e000}"#), ("\u{2028}", #"\u{2028}"#),
        ("\u{e0041}", #"\u{e0041}"#),
        ("nul\0", #"nul\x00"#), ("", ""),
    ])
    func invisibleCharactersAreEscaped(_ text: String, _ expected: String) {
        #expect(escapedForTerminal(text) == expected)
    }

    @Test(arguments: [3, 1414] as [UInt64])
    func randomTextIsHarmlessOnTerminals(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<5_000 {
            let text = random.text(of: "ab\u{1b}[\n\r\u{7f}\u{9b}\u{202e}\u{200f}\\\"", length: 30)
            let escaped = escapedForTerminal(text)
            #expect(isHarmless(escaped), "seed \(seed), text \(text.debugDescription)")
            #expect(escapedForTerminal(escaped) == escaped, "seed \(seed), text \(text.debugDescription)")
        }
    }
}
