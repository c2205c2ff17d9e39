import CommandKit
import ReachableFleet
import Testing

@testable import reachability_service

struct FleetReportTests {
    private let plain = FleetReport(now: FleetSamples.now, style: TextStyle())

    private func nodes() throws -> [FleetNode] {
        [
            try FleetSamples.node("camera-at-the-gate", .lost, seen: FleetSamples.now - .seconds(90)),
            try FleetSamples.node("door", .lost),
            try FleetSamples.node("kiosk", .offline, reason: "noCarrier", since: FleetSamples.midnight + .seconds(60)),
            try FleetSamples.node("nas"),
            try FleetSamples.node("old", .disconnected, since: FleetSamples.midnight - .seconds(31 * 86_400), isOld: true),
            try FleetSamples.node("portal", .degraded, reason: "captivePortal"),
        ]
    }

    private func table(_ report: FleetReport) throws -> [String] {
        report.table(FleetSamples.picture(try nodes()), of: try FleetName("home"))
    }

    /// The cells of a line: two spaces or more are between them.
    private func cells(_ line: String) -> [String] {
        var cells = [""]
        for character in line {
            if cells[cells.count - 1].hasSuffix(" "), character == " " {
                cells[cells.count - 1].removeLast()
                cells.append("")
            } else if character != " " || !cells[cells.count - 1].isEmpty {
                cells[cells.count - 1].append(character)
            }
        }
        return cells.filter { !$0.isEmpty }
    }

    @Test func eachNodeHasALine() throws {
        #expect(
            try table(plain).map(cells) == [
                ["NODE", "STATE", "SINCE", "SEEN", "REASON"],
                ["camera-at-the-gate", "✕ lost", "2026-01-01 00:58:30", "1m 30s ago"],
                // Only the start of its lost connection is known.
                ["door", "✕ lost", "after 2026-01-01 00:00:00", "1h ago or later"],
                ["kiosk", "○ offline", "2026-01-01 00:01:00", "now", "no carrier"],
                ["nas", "● online", "2026-01-01 00:00:00", "now"],
                [
                    "old", "– disconnected", "2025-12-01 00:00:00", "31d 1h ago",
                    "old; if it is gone: reachability-watch fleet forget old",
                ],
                ["portal", "◐ degraded", "2026-01-01 00:00:00", "now", "captive portal"],
            ])
    }

    @Test func columnsBeginBelowEachOther() throws {
        let lines = try table(plain).map(Array.init)
        for title in ["STATE", "SINCE", "SEEN", "REASON"] {
            let place = try #require(lines[0].firstRange(of: Array(title))?.lowerBound)
            for line in lines where line.count > place {
                #expect(line[place] != " " && line[place - 1] == " " && line[place - 2] == " ", "\(title): \(String(line))")
            }
        }
    }

    @Test func coloursHaveSignsAndChangeNoWidth() throws {
        let coloured = try table(FleetReport(now: FleetSamples.now, style: TextStyle(hasColor: true)))
        let uncoloured = coloured.map { line in
            var (text, isEscape) = ("", false)
            for character in line {
                if character == "\u{1b}" { isEscape = true }
                if !isEscape { text.append(character) }
                if character == "m" { isEscape = false }
            }
            return text
        }
        #expect(try uncoloured == table(plain) && coloured != uncoloured)
        let ascii = try table(FleetReport(now: FleetSamples.now, style: TextStyle(hasUnicode: false)))
        #expect(ascii.allSatisfy { $0.allSatisfy(\.isASCII) })
    }

    @Test func anEmptySiteIsASentence() throws {
        let lines = plain.table(FleetSamples.picture([]), of: try FleetName("home"))
        #expect(lines == ["no node of the site home has announced itself yet"])
    }

    @Test func changesNameTheTimeBefore() throws {
        let old = try FleetSamples.node("kiosk", .offline, reason: "noCarrier", since: FleetSamples.now - .seconds(125))
        let new = try FleetSamples.node("kiosk", since: FleetSamples.now)
        #expect(plain.line(new, after: old, width: 6) == "2026-01-01 01:00:00.000  ● online        kiosk   after 2m 5s offline")
        #expect(plain.line(new, after: nil, width: 6) == "2026-01-01 01:00:00.000  ● online        kiosk   new")
        let reason = try FleetSamples.node("kiosk", .offline, reason: "noRoute", since: FleetSamples.now - .seconds(125))
        #expect(plain.line(reason, after: old, width: 0) == "2026-01-01 01:00:00.000  ○ offline       kiosk  no route")
        let started = try FleetSamples.node("kiosk", since: FleetSamples.now, run: "r2")
        #expect(plain.line(started, after: new, width: 0).hasSuffix("kiosk  started again"))
        let lost = try FleetSamples.node("kiosk", .lost)
        #expect(plain.line(new, after: lost, width: 0).hasSuffix("kiosk  after at most 1h lost"))
    }

    @Test func foreignReasonsAreEscaped() throws {
        let node = try FleetSamples.node("kiosk", .degraded, reason: "\u{1b}[31m")
        #expect(plain.line(node, after: nil, width: 0).contains(#"\x1b[31m, new"#))
        #expect(try plain.table(FleetSamples.picture([node]), of: FleetName("home"))[1].hasSuffix(#"\x1b[31m"#))
    }
}
