import Foundation
import Testing

@testable import reachability_service

/// The built command `reachability-watch report`, run from a shell.
@Suite(.timeLimit(.minutes(5)))
struct ReportProgramTests {
    /// A directory with a log, and the commands in it.
    private final class Desk {
        let directory = "/tmp/reachability-report-test-\(getpid())-\(UInt64.random(in: 0 ... .max))"

        init() throws {
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
            let lines = [
                ReportSamples.line("baseline", ReportSamples.morning),
                ReportSamples.line(
                    "transition", ReportSamples.morning + .seconds(60), status: "unsatisfied", reason: "noCarrier", sequence: 1),
                ReportSamples.line("end", ReportSamples.morning + .seconds(90)),
            ]
            try write(lines.joined(separator: "\n") + "\n", to: "log")
            try write("garbage\n", to: "garbage")
        }

        deinit { try? FileManager.default.removeItem(atPath: directory) }

        func write(_ text: String, to name: String) throws {
            try text.write(toFile: "\(directory)/\(name)", atomically: false, encoding: .utf8)
        }

        func read(_ name: String) throws -> String { try String(contentsOfFile: "\(directory)/\(name)", encoding: .utf8) }

        var names: Set<String> { Set((try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []) }

        /// Runs a shell script in which `report` is the command; blocks.
        func run(_ script: String) throws -> (code: Int32, output: String, errors: String) {
            let folder = URL(fileURLWithPath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
            let program = folder.deletingLastPathComponent().appendingPathComponent("reachability-watch").path
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/bin/sh")
            process.arguments = ["-c", "report() { TZ=UTC LC_ALL=C.UTF-8 \"$0\" report \"$@\"; }; \(script)", program]
            process.currentDirectoryURL = URL(fileURLWithPath: directory)
            let (output, errors) = (Pipe(), Pipe())
            (process.standardInput, process.standardOutput, process.standardError) = (FileHandle.nullDevice, output, errors)
            try process.run()
            let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            let messages = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            return (process.terminationStatus, text, messages)
        }
    }

    @Test func textGoesToStandardOutput() throws {
        let desk = try Desk()
        let (code, output, errors) = try desk.run("report log")
        #expect(code == 0 && errors.isEmpty)
        #expect(output.contains("internet: 66.66 % online") && output.contains("\u{2265} 30s  eth0       no carrier\n"))
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
        let (code, output, errors) = try desk.run("\(watch); \(watch); report kept; report --color always kept")
        #expect(code == 0 && errors.isEmpty, "\(errors)")
        // The time between the two watches is unknown.
        #expect(output.contains("127.0.0.1: 100 % online\n") && output.contains("127.0.0.1\u{1b}[0m: \u{1b}[32m● 100 % online"))
        #expect(try desk.read("kept").split(separator: "\n").count == 4)
    }

    @Test func otherLinesAreNotedOnce() throws {
        let desk = try Desk()
        let (code, output, errors) = try desk.run("report garbage log garbage")
        #expect(code == 0 && output.contains("66.66 %"))
        #expect(
            errors == "reachability-watch: lines left out: 2 damaged or of another kind; "
                + "next: report on files of `watch --format json` only\n")
    }

    @Test func filesAreReplacedAsAWhole() throws {
        let desk = try Desk()
        try desk.write("old", to: "page.html")
        let outcome = try desk.run(
            "ln page.html kept; ln -s page.html link; umask 027; report --format html --output link log; "
                + "umask 0; report --output new.md log; "
                + "stat -c %a page.html new.md")
        #expect(outcome.code == 0 && outcome.output == "640\n644\n")
        #expect(try desk.read("kept") == "old" && desk.read("page.html").hasPrefix("<!doctype html>"))
        #expect(try desk.read("link") == desk.read("page.html") && desk.read("new.md").hasPrefix("# Reachability"))
        #expect(desk.names == ["log", "garbage", "page.html", "kept", "link", "new.md"])
    }

    @Test func pipesAreNotReplaced() throws {
        let desk = try Desk()
        let outcome = try desk.run("mkfifo pipe; cat pipe & report --output pipe log; wait; test -p pipe")
        #expect(outcome.code == 0 && outcome.output.contains("66.66 %"))
        #expect(desk.names == ["log", "garbage", "pipe"])
    }

    @Test func failedOutputsLeaveTheOldFile() throws {
        let desk = try Desk()
        try desk.write("old", to: "page.html")
        // The first block does not fit: SIGXFSZ is ignored, and write(2) fails.
        let outcome = try desk.run("ulimit -f 0; report --output page.html log")
        #expect(outcome.code == 74, "\(outcome)")
        #expect(try desk.read("page.html") == "old" && desk.names == ["log", "garbage", "page.html"])
    }

    @Test func aPeriodThatBeganSomeTimeAgoEndsNow() throws {
        let desk = try Desk()
        let now = Duration.seconds(Int64(Date().timeIntervalSince1970))
        let lines = [ReportSamples.line("baseline", now - .seconds(7000)), ReportSamples.line("alive", now - .seconds(6400))]
        try desk.write(lines.joined(separator: "\n"), to: "log")
        #expect(try desk.run("report log").output.contains("known 10m, unknown 0s"))
        #expect(try desk.run("report --from 2h log").output.contains("known 10m, unknown 1h 50m"))
    }
}
