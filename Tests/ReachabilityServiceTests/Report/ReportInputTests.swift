import FoundationEssentials
import Reachability
import TestSupport
import Testing

@testable import reachability_service

extension TemporaryFolder {
    fileprivate func write(_ lines: [String], to name: String) throws -> String {
        try write(lines.map { $0 + "\n" }.joined(), to: name)
    }
}

/// Files of `watch`, and the histories that they make.
struct ReportInputTests {
    private typealias Samples = ReportSamples

    private static func time(_ second: Int) -> Duration { Samples.morning + .seconds(second) }

    private static func baseline(_ second: Int, _ scope: String = "internet", isContinued: Bool = false) -> String {
        Samples.line("baseline", time(second), scope: scope, isContinued: isContinued)
    }

    private static func offline(_ second: Int, _ scope: String = "internet") -> String {
        Samples.line("transition", time(second), scope: scope, status: "unsatisfied", reason: "noCarrier", sequence: 1)
    }

    private static func alive(_ second: Int) -> String { Samples.line("alive", time(second)) }

    private static func read(_ files: [String]) throws -> (report: Report, skipped: Int) {
        var input = ReportInput(files)
        var report = Report()
        while let (observation, stream) = try input.next() { report.add(observation, from: stream) }
        return (report, input.skippedLines)
    }

    private static func spans(_ files: [String]) throws -> [String] { try read(files).report.finish().map(Samples.short) }

    @Test func olderFilesComeFirstInAnyOrder() throws {
        let folder = try TemporaryFolder()
        let files = [
            try folder.write([Self.baseline(20, isContinued: true), Self.alive(30)], to: "log"),
            try folder.write([Self.baseline(10, isContinued: true), Self.alive(15)], to: "log.2"),
            try folder.write([Self.baseline(0), Self.alive(5)], to: "log.10"),
        ]
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] { #expect(try Self.spans(order.map { files[$0] }) == ["+30"]) }
        #expect(try Self.spans(files + files) == ["+30"])
        // Without the oldest one.
        #expect(try Self.spans([files[0], files[1]]) == ["+20"])
    }

    @Test func filesOfOtherNamesAreMergedByTime() throws {
        let folder = try TemporaryFolder()
        let january = try folder.write([Self.baseline(0), Self.alive(10)], to: "january")
        let february = try folder.write([Self.baseline(100), Self.offline(110), Self.alive(130)], to: "february")
        for files in [[january, february], [february, january]] { #expect(try Self.spans(files) == ["+10 ?90 +10 -20"]) }
    }

    @Test(arguments: [
        ("log", "log", 0), ("log.3", "log", 3), ("/a.1/log", "/a.1/log", 0), ("log.x", "log.x", 0), ("/a/.5", "/a/.5", 0),
        ("-", "-", 0),
        ("log.99999999999999999999", "log.99999999999999999999", 0), ("log.", "log.", 0), (".7", ".7", 0), ("", "", 0),
    ])
    func numbersAreThoseOfOlderFiles(_ path: String, _ name: String, _ number: Int) {
        #expect(ReportInput.parts(of: path) == (name, number))
    }

    @Test func heartbeatsAreAboutAllScopesOfTheWatch() throws {
        let folder = try TemporaryFolder()
        let log = try folder.write(
            [
                Self.baseline(0), Self.baseline(1, "192.0.2.7"), Self.alive(100), Self.offline(150),
                Samples.line("end", Self.time(200)),
            ],
            to: "log")
        #expect(try Self.spans([log]) == ["+150 -50", "?1 +199"])
    }

    @Test func scopesOfAnotherWatchAreNotProlonged() throws {
        let folder = try TemporaryFolder()
        let log = try folder.write(
            [
                Self.baseline(0), Self.baseline(1, "192.0.2.7"), Self.alive(100), Self.baseline(500, "192.0.2.8"), Self.alive(600),
                Self.offline(700, "192.0.2.8"), Self.alive(800),
            ], to: "log")
        #expect(try Self.spans([log]) == ["+100 ?700", "?1 +99 ?700", "?500 +200 -100"])
        let other = try folder.write([Self.baseline(0), Self.alive(100)], to: "other")
        let third = try folder.write([Self.baseline(50, "192.0.2.7"), Self.alive(300)], to: "third")
        #expect(try Self.spans([other, third]) == ["+100 ?200", "?50 +250"])
    }

    @Test func otherLinesAreCountedAndSkipped() throws {
        let folder = try TemporaryFolder()
        let lines = [
            "", Self.baseline(0), "{\"event\":\"hint\"}", "garbage", "  ", "\u{0}", Self.alive(10),
            String(repeating: "x", count: 200_000),
            "{\"event\":\"alive\",\"time\":\"2026-01-31T10:00:2",
        ]
        let log = try folder.write(lines, to: "log")
        let (report, skipped) = try Self.read([log])
        #expect(report.finish().map(Samples.short) == ["+10"] && skipped == 4 && report.observations == 1)
    }

    @Test func linesAreReadFromChunksOfAnySize() throws {
        for size in [1, 2, 3, 7, 100] {
            var rest = Array("one\n\ntwo\nthree".utf8)[...]
            var reader = LineReader { () throws(ReachabilityError) in
                defer { rest = rest.dropFirst(size) }
                return Array(rest.prefix(size))
            }
            var lines: [String] = []
            while let line = try reader.next() { lines.append(String(decoding: line, as: UTF8.self)) }
            #expect(lines == ["one", "", "two", "three"])
        }
    }

    @Test func longLinesTakeNoMemory() throws {
        var chunks = 1000
        var reader = LineReader { () throws(ReachabilityError) in
            chunks -= 1
            return chunks > 0 ? Array(repeating: 0x78, count: 10_000) : chunks == 0 ? Array("\nnext".utf8) : []
        }
        #expect(try reader.next()?.count == LineReader.longestLine)
        #expect(try reader.next() == Array("next".utf8))
        #expect(try reader.next() == nil)
    }

    @Test func scopesAreSelectedAndLimited() {
        var report = Report(scopes: ["192.0.2.7", "b\\x1b"])
        for scope in ["internet", "192.0.2.7", "b\u{1b}"] { report.add(Samples.observation(.baseline, 0, scope: scope)) }
        report.add(Samples.alive(10))
        #expect(report.finish().map(\.scope) == ["192.0.2.7", "b\u{1b}"])
        #expect(report.scopes == ["internet", "192.0.2.7", "b\u{1b}"])
        var many = Report()
        for number in 0..<1000 { many.add(Samples.observation(.baseline, number, scope: "\(number)")) }
        #expect(many.finish().count == Report.scopeLimit && many.unlisted == 1000 - Report.scopeLimit)
    }

    @Test func missingFilesAreErrors() throws {
        let folder = try TemporaryFolder()
        let log = try folder.write([Self.baseline(0)], to: "log")
        #expect(throws: ReachabilityError.self) { try Self.read([log, "\(folder.path)/none"]) }
        #expect(throws: ReachabilityError.self) { try Self.read([folder.path]) }
    }
}
