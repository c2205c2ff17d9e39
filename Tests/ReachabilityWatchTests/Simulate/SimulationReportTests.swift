import Reachability
import ReachableRetry
import TestSupport
import Testing

@testable import CommandKit
@testable import reachability_watch

/// The reports of a simulation: text, JSON and the picture.
@Suite(.timeLimit(.minutes(10)), .computing) struct SimulationReportTests {
    private static let train = """
        # A laptop on a train
        at 5s pull eth0
        at 20s plug eth0
        server photos answers 503 retry-after 10s from 21s to 30s
        policy careful --backoff exponential:1s..30s --jitter none --attempts 10
        job upload at 2s to photos policy careful takes 4s
        job photo at 21s to photos policy careful
        """

    private func simulation(_ text: String) async throws -> Simulation {
        try await Simulation(try ScenarioParser.parse(Array(text.utf8)), name: "train.txt", seed: 1)
    }

    @Test func textListsAttemptsBesidePlainBackoff() async throws {
        let text = SimulationText(simulation: try await simulation(Self.train)).lines.joined(separator: "\n")
        #expect(text.hasPrefix("A laptop on a train\n2 jobs, seed 1, ends at "))
        for line in [
            "      5.000s  ○ offline  no carrier  (pull eth0)", "     20.000s  ● online   via eth0, gateway 192.0.2.1",
            " 24.000s  photo         1  first ", "answered 503, retry after 10s", "server delay", "\nretry bus\n",
            "\nplain backoff\n",
            "jobs that succeeded", "after the reconnect at 20.000s",
        ] {
            #expect(text.contains(line), "\(line)\n\(text)")
        }
        #expect(!text.contains(" \n"), "no spaces at the ends of lines")
    }

    @Test func textListsTheFirstAttemptsOfMany() async throws {
        let simulation = try await simulation("jobs 150 j\nuntil 10s")
        let lines = SimulationText(simulation: simulation).lines
        #expect(lines.filter { $0.contains("… and 50 more attempts; next: --format json") }.count == 2)
        #expect(lines.count < 300)
    }

    @Test func textNamesJobsThatDidNotSucceed() async throws {
        let text = SimulationText(
            simulation: try await simulation(
                "server s refuses\npolicy p --attempts 1\njob a to s policy p\njob b at 3s takes 1h\njob c at 1h\nuntil 5s")
        ).lines.joined(separator: "\n")
        for line in ["  a gave up at 0.001s: no more attempts are allowed\n", "  b has not ended\n", "  c was not submitted\n"] {
            #expect(text.contains(line), "\(line)\n\(text)")
        }
    }

    @Test func jsonHasTheDocumentedKeys() async throws {
        let lines = Array(SimulationJSON(simulation: try await simulation(Self.train)).lines)
        func members(_ line: JSONValue) -> [JSONValue.Member] { if case .object(let members) = line { members } else { [] } }
        func value(_ key: String, of line: JSONValue) -> JSONValue? { members(line).first { $0.key == key }?.value }
        let events = lines.map { value("event", of: $0) }
        #expect(events.prefix(4) == [.string("scenario"), .string("network"), .string("network"), .string("network")])
        #expect(events.filter { $0 == .string("job") }.count == 4 && events.filter { $0 == .string("summary") }.count == 2)
        #expect(value("title", of: lines[0]) == .string("A laptop on a train"))
        #expect(value("change", of: lines[2]) == .string("pull eth0") && value("at", of: lines[2]) == .number("5.000000000"))
        let attempt = try #require(lines.first { value("status", of: $0) != nil })
        #expect(
            attempt.description == #"{"event":"attempt","run":"bus","job":"photo","attempt":1,"at":24.000000000,"#
                + #""end":24.100000000,"trigger":"first","offline":false,"result":"answered","status":503,"#
                + #""retryAfter":10.000000000,"charged":true}"#)
        let summary = try #require(lines.last)
        #expect(value("run", of: summary) == .string("plain") && value("complete", of: summary) == .bool(true))
        #expect(
            members(summary).map(\.key) == [
                "event", "run", "jobs", "succeeded", "gaveUp", "attempts", "rejected", "unanswered", "charged", "startedOffline",
                "peak", "lastSuccess", "complete", "reconnects",
            ])
    }

    @Test(arguments: [
        train, "job a", "jobs 40 a", "jobs 41 a", "jobs 300 photo every 10ms\nat 3s pull eth0\nat 9s plug eth0", "job a at 100d",
        "server s refuses\npolicy p --attempts 1\njob a to s policy p", "job a at 5s\nuntil 1s",
        "# <script>&\"'\u{1b}[31m\u{202e}\njob <b>&'\" at 1s\nserver <s>&\u{1} drops\njob \u{fffe}\u{7} to <s>&\u{1}\nuntil 1m",
    ])
    func picturesAreWellFormed(_ text: String) async throws {
        let svg = SimulationPicture(try await simulation(text)).svg
        #expect(flaw(of: svg) == nil)
        #expect(svg.contains("<title id=\"title\">") && svg.contains("<desc id=\"description\">"))
        #expect(svg.contains("prefers-color-scheme:dark"))
        #expect(!svg.contains("http") || svg.ranges(of: "http").count == 1, "only the namespace")
        #expect(!svg.contains("nan") && !svg.contains("inf\""))
    }

    @Test func manyJobsAreAHistogram() async throws {
        let lanes = SimulationPicture(try await simulation("jobs 40 a")).svg
        let bars = SimulationPicture(try await simulation("jobs 41 a")).svg
        #expect(!lanes.contains("class=\"bar-ok\"") && lanes.contains("class=\"ok\""))
        #expect(bars.contains("class=\"bar-ok\"") && !bars.contains("class=\"ok\"") && bars.contains("starts in"))
    }

    @Test func resultsDifferInShape() async throws {
        let svg = SimulationPicture(
            try await simulation(
                "server s answers 500 to 1s\nserver s drops from 2s to 3s\njob a to s\njob b at 2s to s\ntimeout 900ms")
        ).svg
        for style in ["ok", "error", "none"] { #expect(svg.contains("<path class=\"\(style)\" d=\"M"), "\(style)") }
        for name in [">succeeds<", ">error answer<", ">no answer<", ">backs off<"] { #expect(svg.contains(name), "\(name)") }
    }

    @Test(arguments: [(0, "0.000s"), (1, "0.001s"), (90_100, "90.100s"), (-5, "0.000s")])
    func instantsHaveMilliseconds(_ milliseconds: Int, _ text: String) {
        #expect(instantText(.milliseconds(milliseconds)) == text)
    }

    @Test(arguments: [(0, "0"), (1.04, "1"), (1.06, "1.1"), (-0.5, "-0.5"), (-0.04, "0"), (Double.infinity, "1000000")])
    func coordinatesHaveOneDecimal(_ value: Double, _ text: String) {
        #expect(PictureCanvas.number(value) == text)
    }
}

/// Returns the first violation of XML's rules that a writer of elements, attributes and texts could make; `nil` for none.
private func flaw(of text: String) -> String? {
    var open: [Substring] = []
    for part in text.split(separator: "<", omittingEmptySubsequences: true) {
        guard let end = part.firstIndex(of: ">") else { return "no end of a tag: \(part)" }
        let (tag, content) = (part[..<end], part[part.index(after: end)...])
        if tag.split(separator: "\"", omittingEmptySubsequences: false).count.isMultiple(of: 2) { return "a quote is open: \(tag)" }
        let name = tag.prefix { $0 != " " && $0 != "/" }
        if tag.hasPrefix("/") {
            guard open.popLast() == tag.dropFirst() else { return "not nested: \(tag)" }
        } else if !tag.hasSuffix("/") {
            open.append(name)
        }
        // Texts only: the attributes are numbers and names of this program.
        for reference in content.split(separator: "&", omittingEmptySubsequences: false).dropFirst()
        where !["amp;", "lt;", "gt;", "quot;", "#39;"].contains(where: reference.hasPrefix) {
            return "a bare ampersand: \(content)"
        }
        if content.contains(">") { return "a bare angle bracket: \(content)" }
        if !content.allSatisfy({ $0 == "\n" || isHarmless(String($0)) }) { return "an invisible character: \(content)" }
    }
    return open.isEmpty ? nil : "open elements: \(open)"
}
