import ReachabilityTesting
import Testing

@testable import reachability_watch

struct QuotingTests {
    private static let long = String(repeating: "a", count: 50) + String(repeating: "b", count: 50)

    @Test(arguments: [
        ("", ""), ("eth0", "eth0"), ("\u{1b}[31m", #"\x1b[31m"#), (String(long.prefix(64)), String(long.prefix(64))),
        (long, String(repeating: "a", count: 39) + "…" + String(repeating: "b", count: 24)),
    ])
    func leavesOutTheMiddleOfALongText(_ text: String, _ expected: String) {
        #expect(quotation(text) == expected)
    }

    @Test func replacesTheWordsOfTheCommandLine() {
        let text = "Error: The value '\(Self.long)' is invalid for '--to'.\nUsage: x"
        let expected = "Error: The value '\(quotation(Self.long))' is invalid for '--to'.\nUsage: x"
        #expect(quotingInput(in: text, words: ["--to", Self.long]) == expected)
        #expect(quotingInput(in: text, words: ["--to=\(Self.long)"]) == expected)
    }

    @Test func keepsItsOwnLineBreaksAndEscapesThoseOfTheInput() {
        #expect(quotingInput(in: "bad 'a\nb'\nnext", words: ["a\nb"]) == "bad 'a\\x0ab'\nnext")
        #expect(quotingInput(in: "bad '\n'\nnext", words: ["\n"]) == "bad '\\x0a'\nnext")
    }

    @Test(arguments: [5, 77] as [UInt64])
    func isShortAndHarmlessForAnyText(_ seed: UInt64) {
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

struct CommandSuggestionTests {
    private let suggestion = ReachabilityWatch.suggestion

    @Test(arguments: [
        ("staus", "status"), ("STATUS", "status"), ("wiat", "wait"), ("wtach", "watch"), ("explan", "explain"), ("expl", "explain"),
        ("recrod", "record"), ("rply", "replay"), ("runn", "run"), ("hlep", "help"), ("stauts", "status"),
    ])
    func findsTheNearestCommand(_ word: String, _ name: String) {
        #expect(suggestion.nearest(to: word) == name)
    }

    @Test(arguments: ["", "x", "frobnicate", "nas.example.org", "192.0.2.1", "re", "r", String(repeating: "w", count: 10_000)])
    func suggestsNothingThatIsFarAway(_ word: String) {
        #expect(suggestion.nearest(to: word) == nil)
    }

    @Test func namesTheWordInFrontOfTheOptions() {
        #expect(suggestion.unknownCommand(in: ["staus", "--to", "x"]) == "staus")
        for words in [[], ["status"], ["--to", "x"], ["help", "run"], ["-h"], ["run", "--", "x"]] {
            #expect(suggestion.unknownCommand(in: words) == nil)
        }
    }
}

struct DropNoticeTests {
    @Test func blamesAReaderOnlyIfThereIsOne() {
        var pipe = DropNotice(hasReader: true)
        #expect(
            pipe.dropped(1, of: "internet", now: .zero)
                == ["1 transition of internet dropped: standard output is read too slowly."])
        var terminal = DropNotice(hasReader: false)
        #expect(
            terminal.dropped(2, of: "internet", now: .zero)
                == ["2 transitions of internet dropped: they came faster than lines could be written."])
    }

    @Test func speaksAtMostOnceASecond() {
        var notice = DropNotice(hasReader: true)
        #expect(notice.dropped(1, of: "a", now: .seconds(10)).count == 1)
        #expect(notice.dropped(2, of: "a", now: .milliseconds(10_500)).isEmpty)
        #expect(notice.dropped(3, of: "b", now: .milliseconds(10_999)).isEmpty)
        let lines = notice.dropped(4, of: "a", now: .milliseconds(11_000))
        #expect(lines.count == 2 && lines[0].hasPrefix("6 transitions of a ") && lines[1].hasPrefix("3 transitions of b "))
        #expect(notice.dropped(.max, of: "a", now: .milliseconds(11_100)).isEmpty)
        #expect(notice.dropped(.max, of: "a", now: .milliseconds(11_200)).isEmpty)
        #expect(notice.rest().map { $0.hasPrefix("\(UInt64.max) ") } == [true])
        #expect(notice.rest().isEmpty)
    }
}
