import Foundation
import Reachability
import Testing

@testable import CommandKit
@testable import reachability_service

/// The formats of reports.
struct ReportFormatTests {
    private typealias Samples = ReportSamples

    private static func output(
        _ format: ReportFormat, _ summaries: [TimelineSummary], _ style: TextStyle = TextStyle()
    ) -> String {
        ReportOutput(format: format, file: nil).text(of: summaries, Samples.words, style)
    }

    /// Returns the histories of Fixtures/history.json.
    ///
    /// `TZ=UTC reachability-watch report --output report.html history.json` in its directory writes the expected page, and so on.
    private static func fixture() throws -> [TimelineSummary] {
        var input = ReportInput([path("history.json")])
        var report = Report()
        while let (observation, stream) = try input.next() { report.add(observation, from: stream) }
        return report.finish()
    }

    private static func path(_ name: String) -> String {
        URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Fixtures/\(name)").path
    }

    @Test(arguments: [
        (ReportFormat.text, "report.txt"), (.markdown, "report.md"), (.json, "report.json"), (.html, "report.html"),
        (.svg, "report.svg"),
    ])
    func outputsAreAsBefore(_ format: ReportFormat, _ name: String) throws {
        let expected = try String(contentsOfFile: Self.path(name), encoding: .utf8)
        #expect(Self.output(format, try Self.fixture()) == expected)
    }

    /// Texts that mean something to a terminal, a browser, Markdown or a shell.
    private static let hostile = [
        "\u{1b}[31mred\u{7}", "\"'><b>bold</b>&amp;", "<script>alert(1)</script>", "$(id) `id` ```", "a|b\\|c\\",
        "line\nbreak\r\u{2028}",
        "\u{202e}gpj.exe\u{2066}", #"eth\xff"#, "</style></title></svg>", "[a](javascript:x) **b** ![](http://192.0.2.1/x)", "`",
        "\u{0}\u{fffe}\u{85}", "]]>-->{{x}}%0a",
    ]

    /// Returns a history in which all texts from outside are one.
    private static func history(_ text: String) -> [TimelineSummary] {
        var offline = Samples.offline(10, .transition, text)
        (offline.interface, offline.causeDetail, offline.causeKind) = (text, text, text)
        var later = offline
        later.time += .seconds(20)
        later.sinceBoot? += .seconds(20)
        later.reason = "noRoute"
        let first = Samples.observation(.baseline, 0, interface: text)
        let observations = [first, offline, later, Samples.online(80), Samples.alive(85)]
        return ["internet", text].map { scope in
            var timeline = Timeline(scope: scope)
            for observation in observations { timeline.add(observation) }
            return timeline.finish(at: Samples.morning + .seconds(85))
        }
    }

    @Test(arguments: hostile, [ReportFormat.text, .markdown, .html, .svg])
    func hostileTextsAreInert(_ text: String, _ format: ReportFormat) {
        let output = Self.output(format, Self.history(text))
        let harmless = Self.output(format, Self.history("x"))
        for line in output.split(separator: "\n") {
            #expect(line.unicodeScalars.allSatisfy { $0.isHarmless }, "\(line)")
        }
        #expect(output.count(where: \.isNewline) == harmless.count(where: \.isNewline))
        switch format {
        case .html, .svg:
            for sign in "<>\"'" { #expect(output.count { $0 == sign } == harmless.count { $0 == sign }, "\(sign) of \(text)") }
        case .markdown:
            // The bars of tables, and code spans that end where they should.
            #expect(Self.bars(output) == Self.bars(harmless))
            #expect(Self.outsideOfCode(output) == Self.outsideOfCode(harmless))
        case .text, .json: break
        }
    }

    private static func bars(_ markdown: String) -> Int { markdown.replacing("\\|", with: "").count { $0 == "|" } }

    /// Returns Markdown without its code spans (CommonMark 0.31.2 §6.1: a span ends at as many backticks as it began with).
    private static func outsideOfCode(_ markdown: String) -> String {
        var result = ""
        var rest = Substring(markdown)
        while let start = rest.firstIndex(of: "`") {
            result += rest[..<start]
            let fence = rest[start...].prefix { $0 == "`" }
            rest = rest[fence.endIndex...]
            while let next = rest.firstIndex(of: "`") {
                let run = rest[next...].prefix { $0 == "`" }
                rest = rest[run.endIndex...]
                if run.count == fence.count { break }
            }
        }
        return result + rest
    }

    @Test(arguments: hostile + [""])
    func jsonIsLossless(_ text: String) throws {
        let lines = Self.output(.json, Self.history(text)).split(separator: "\n")
        #expect(lines.count == 2)
        let object = try #require(try JSONSerialization.jsonObject(with: Data(lines[1].utf8)) as? [String: Any])
        let outage = try #require((object["outages"] as? [[String: Any]])?.first)
        #expect(object["scope"] as? String == text && outage["interface"] as? String == text)
        #expect(outage["reasons"] as? [String] == [text, "noRoute"])
        #expect(outage["cause"] as? [String: String] == ["kind": text, "detail": text])
    }

    @Test(arguments: [ReportFormat.html, .svg])
    func pagesNeedNoNetworkAndNoScript(_ format: ReportFormat) {
        let page = Self.output(format, Self.history("x")).replacing("xmlns=\"http://www.w3.org/2000/svg\"", with: "")
        for word in ["http:", "https:", "//", "src=", "<script", "@import", "<link", "javascript", "onload"] {
            #expect(!page.contains(word), "\(word)")
        }
        #expect(page.replacing("url(#", with: "").firstRange(of: "url(") == nil)
        #expect(page.contains("prefers-color-scheme:dark") && page.contains("role=\"img\"") && page.contains("<title id="))
    }

    @Test func shortestOutagesAreVisible() {
        let day = 86_400
        let month = Samples.summary([
            Samples.observation(.baseline, 0), Samples.offline(3 * day), Samples.online(3 * day + 1), Samples.offline(30 * day - 1),
            Samples.online(30 * day),
        ])
        let svg = Self.output(.svg, [month])
        #expect(svg.contains(#"<rect class="off" x="10.000%" width="0.050%" y="2" height="36">"#))
        #expect(svg.contains(#"<rect class="off" x="99.950%" width="0.050%" y="2" height="36">"#))
    }

    @Test func picturesHaveFewElements() {
        var observations = [Samples.observation(.baseline, 0)]
        for second in stride(from: 10, to: 180_000, by: 20) {
            observations += [Samples.offline(second), Samples.online(second + 5)]
        }
        let svg = Self.output(.svg, [Samples.summary(observations)])
        #expect(svg.count { $0 == "<" } < 3000 * 4)
        #expect(svg.contains(" outages, offline for "))
    }

    @Test(arguments: [
        (0, 0, "unknown"), (10, 0, "100 %"), (0, 10, "0 %"), (9993, 7, "99.93 %"), (2_591_999, 1, "99.99996 %"),
        (1, 2_591_999, "0.00 %"), (1, 1, "50.00 %"), (99_999, 1, "99.9990 %"), (10_000_000_000, 1, "99.999999 %"),
        (1, 2, "33.33 %"),
    ])
    func availabilityIsNeverRoundedUp(_ online: Int, _ offline: Int, _ text: String) {
        #expect(ReportWords.availability(online: .seconds(online), offline: .seconds(offline)) == text)
    }

    @Test(arguments: [(0, "UTC"), (3600, "UTC+01:00"), (-12_600, "UTC-03:30"), (20_700, "UTC+05:45")])
    func timesAreLocalAndSaySo(_ offset: Int, _ zone: String) {
        let words = ReportWords { _ in offset }
        let text = ReportContent(Self.history("x"), words: words).text(TextStyle())
        #expect(text.contains("times in \(zone)") && text.contains(words.time(Samples.morning + .seconds(10))))
    }

    @Test func plainTextIsASCII() {
        let open = Samples.summary([Samples.offline(0, .baseline), Samples.alive(9)])
        let text = Self.output(.text, Self.history("x") + [open], TextStyle(hasUnicode: false))
        #expect(text.utf8.allSatisfy { $0 < 0x80 } && text.contains(">= 9s"))
    }

    @Test func emptyPeriodsHaveAReport() {
        let summary = Samples.summary([Samples.observation(.baseline, 0)])
        for format in ReportFormat.allCases { #expect(Self.output(format, [summary]).contains("2026-01-31")) }
    }

    @Test(arguments: [
        ("page.html", ReportFormat.html), ("a.b.HTM", .html), ("x.svg", .svg), ("x.md", .markdown), ("x.json", .json),
        ("x.txt", .text),
        ("html", .html), ("", .text), ("-", .text),
    ])
    func formatsFollowNames(_ name: String, _ format: ReportFormat) {
        #expect(ReportFormat(nameOf: name) == format)
    }
}
