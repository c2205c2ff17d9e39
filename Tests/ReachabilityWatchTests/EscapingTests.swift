import Reachability
import ReachabilityTesting
import Testing

@testable import reachability_watch

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
    func showsWhatIsInvisible(_ text: String, _ expected: String) {
        #expect(escapedForTerminal(text) == expected)
    }

    @Test(arguments: [3, 1414] as [UInt64])
    func leavesNothingThatATerminalObeys(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<5_000 {
            let text = random.text(of: "ab\u{1b}[\n\r\u{7f}\u{9b}\u{202e}\u{200f}\\\"", length: 30)
            let escaped = escapedForTerminal(text)
            #expect(isHarmless(escaped), "seed \(seed), text \(text.debugDescription)")
            #expect(escapedForTerminal(escaped) == escaped, "seed \(seed), text \(text.debugDescription)")
        }
    }
}
