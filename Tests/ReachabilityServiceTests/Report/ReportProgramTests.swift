import Foundation
import TestSupport
import Testing

@testable import reachability_service

/// The built command `reachability-watch report`, run from a shell.
@Suite(.timeLimit(.minutes(5)))
struct ReportProgramTests {
    /// A directory with a log, and the commands in it.
    private struct Desk {
        let folder: TemporaryFolder

        init() throws {
            folder = try TemporaryFolder()
            let lines = [
                ReportSamples.line("baseline", ReportSamples.morning),
                ReportSamples.line(
                    "transition", ReportSamples.morning + .seconds(60), status: "unsatisfied", reason: "noCarrier", sequence: 1),
                ReportSamples.line("end", ReportSamples.morning + .seconds(90)),
            ]
            try folder.write(lines.joined(separator: "\n") + "\n", to: "log")
            try folder.write("garbage\n", to: "garbage")
        }

        /// Runs a shell script in which `report` is the command; blocks.
        func run(_ script: String) throws -> Outcome {
            let report = "report() { TZ=UTC LC_ALL=C.UTF-8 \"$0\" report \"$@\"; }; \(script)"
            return try Process(["sh", "-c", report, builtProgram("reachability-watch")], in: folder.path).outcome()
        }
    }

    @Test func textGoesToStandardOutput() throws {
        let desk = try Desk()
        let outcome = try desk.run("report log")
        #expect(outcome.code == 0 && outcome.errors.isEmpty)
        #expect(
            outcome.output.contains("internet: 66.66 % online") && outcome.output.contains("\u{2265} 30s  eth0       no carrier\n"))
        #expect(try desk.run("cat log | report - --format json").output.hasPrefix(#"{"scope":"internet","#))
    }

    @Test(
        arguments: [
            ("report none", 66), ("report .", 66), ("report garbage", 65), ("report --scope 192.0.2.7 log", 65),
            ("report --from 2026-02-01T00:00:00Z log", 65), ("report", 64),
            ("report --from yesterday log", 64), ("report --from 1h --until 2h log", 64), ("report - -", 64),
            ("report --output '' log", 64),
            ("report --format xml log", 64), ("report --output none/report.html log", 73), ("report --output garbage/x log", 73),
            ("report log >/dev/full", 74),
            ("report --output - log", 0), ("report --help", 0), ("report --until 1d log", 0),
        ] as [(String, Int32)])
    func exitCodesTellWhatFailed(_ script: String, _ code: Int32) throws {
        let outcome = try Desk().run(script)
        #expect(outcome.code == code, "\(outcome)")
        #expect(code == 0 || outcome.errors.contains("next:") || outcome.errors.contains("Usage:"), "\(outcome.errors)")
    }

    @Test func theLogOfAWatchIsRead() throws {
        let desk = try Desk()
        let watch = "\"$0\" watch --to 127.0.0.1 --log kept --count 1 >/dev/null"
        let outcome = try desk.run("\(watch); \(watch); report kept; report --color always kept")
        #expect(outcome.code == 0 && outcome.errors.isEmpty, "\(outcome.errors)")
        // The time between the two watches is unknown.
        #expect(
            outcome.output.contains("127.0.0.1: 100 % online\n")
                && outcome.output.contains("127.0.0.1\u{1b}[0m: \u{1b}[32m● 100 % online"))
        #expect(desk.folder.read("kept").split(separator: "\n").count == 4)
    }

    @Test func otherLinesAreNotedOnce() throws {
        let desk = try Desk()
        let outcome = try desk.run("report garbage log garbage")
        #expect(outcome.code == 0 && outcome.output.contains("66.66 %"))
        #expect(
            outcome.errors == "reachability-watch: lines left out: 2 damaged or of another kind; "
                + "next: report on files of `watch --format json` only\n")
    }

    @Test func filesAreReplacedAsAWhole() throws {
        let desk = try Desk()
        try desk.folder.write("old", to: "page.html")
        let outcome = try desk.run(
            "ln page.html kept; ln -s page.html link; umask 027; report --format html --output link log; "
                + "umask 0; report --output new.md log; "
                + "stat -c %a page.html new.md")
        #expect(outcome.code == 0 && outcome.output == "640\n644\n")
        #expect(desk.folder.read("kept") == "old" && desk.folder.read("page.html").hasPrefix("<!doctype html>"))
        #expect(desk.folder.read("link") == desk.folder.read("page.html") && desk.folder.read("new.md").hasPrefix("# Reachability"))
        #expect(desk.folder.names == ["garbage", "kept", "link", "log", "new.md", "page.html"])
    }

    @Test func pipesAreNotReplaced() throws {
        let desk = try Desk()
        let outcome = try desk.run("mkfifo pipe; cat pipe & report --output pipe log; wait; test -p pipe")
        #expect(outcome.code == 0 && outcome.output.contains("66.66 %"))
        #expect(desk.folder.names == ["garbage", "log", "pipe"])
    }

    @Test func failedOutputsLeaveTheOldFile() throws {
        let desk = try Desk()
        try desk.folder.write("old", to: "page.html")
        // The first block does not fit: SIGXFSZ is ignored, and write(2) fails.
        let outcome = try desk.run("ulimit -f 0; report --output page.html log")
        #expect(outcome.code == 74, "\(outcome)")
        #expect(desk.folder.read("page.html") == "old" && desk.folder.names == ["garbage", "log", "page.html"])
    }

    @Test func aPeriodThatBeganSomeTimeAgoEndsNow() throws {
        let desk = try Desk()
        let now = Duration.seconds(Int64(Date().timeIntervalSince1970))
        let lines = [ReportSamples.line("baseline", now - .seconds(7000)), ReportSamples.line("alive", now - .seconds(6400))]
        try desk.folder.write(lines.joined(separator: "\n"), to: "log")
        #expect(try desk.run("report log").output.contains("known 10m, unknown 0s"))
        #expect(try desk.run("report --from 2h log").output.contains("known 10m, unknown 1h 50m"))
    }
}
