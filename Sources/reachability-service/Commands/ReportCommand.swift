import ArgumentParser
import CommandKit
import Glibc
import Reachability

/// The command `report`.
struct ReportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "report",
        abstract: "Reports outages, flaps and availability from the lines that watch has written.",
        discussion: """
            Reads files of watch --log or --format json in any order. FILE.2, FILE.1 and FILE are one log. Time in which nothing \
            watched is unknown, not online. --history reads what serve keeps, instead of files. The period is that of the lines, \
            unless --from or --until is given; after --from 7d it ends now.

            EXAMPLES
              reachability-watch report reachability.json
              reachability-watch report --from 7d --output week.html reachability.json reachability.json.1
              reachability-watch report --from 2026-01-01T00:00:00Z --output timeline.svg reachability.json
              reachability-watch report --from 7d --history ~/.local/state/reachability-watch
              zcat reachability.json.2.gz | reachability-watch report --format json - reachability.json

            EXIT CODES
              0   the report was written   66  a file cannot be read
              64  usage                    73  the output cannot be created
              65  no line of watch         74  the output cannot be written
            """)

    @Option(
        help: ArgumentHelp("Replace this file by the report. Default: standard output.", valueName: "file"),
        completion: .file())
    var output: String?

    @Option(
        help: """
            The output format: text for people, markdown, json with one object a scope, html for a page, svg for the timeline. \
            Default: as the name of --output ends (.md .json .html .svg), otherwise text.
            """)
    var format: ReportFormat?

    @Option(
        help: ArgumentHelp(
            "Begin the period then: a time such as 2026-01-31T10:00:00Z, or this long ago, such as 7d.", valueName: "time"),
        transform: { try TimeArgument($0) })
    var from: TimeArgument?

    @Option(
        help: ArgumentHelp("End the period then: a time, or this long ago, such as 1h.", valueName: "time"),
        transform: { try TimeArgument($0) })
    var until: TimeArgument?

    @Option(help: ArgumentHelp("Only this scope, as the lines name it, such as internet; may be repeated.", valueName: "scope"))
    var scope: [String] = []

    @OptionGroup var color: ColorOption

    @Option(
        help: ArgumentHelp("Read the history that serve keeps in this directory.", valueName: "dir"), completion: .directory)
    var history: String?

    @Argument(
        help: ArgumentHelp("A file of watch --format json, or - for standard input.", valueName: "file"), completion: .file())
    var files: [String] = []

    func validate() throws {
        if files.isEmpty, history == nil {
            throw ValidationError(
                "no file given; next: name one that watch --format json has written, - for standard input, or a directory with "
                    + "--history")
        }
        if !files.isEmpty, history != nil { throw ValidationError("--history has the place of files; next: omit one of them") }
        if history == "" { throw ValidationError("--history is empty; next: name the directory of a service") }
        if files.count(where: { $0 == "-" }) > 1 { throw ValidationError("standard input is given twice; next: write - once") }
        if output == "" { throw ValidationError("--output is empty; next: name a file") }
        let now = Moment.now.wallTime
        if let from, let until, from.time(now) >= until.time(now) {
            throw ValidationError("--from is not before --until; next: choose an earlier beginning")
        }
    }

    func run() {
        let now = Moment.now.wallTime
        var report = Report(from: from?.time(now), until: until?.time(now), scopes: Set(scope))
        addHistory(to: &report, now)
        do throws(ReachabilityError) {
            var input = ReportInput(files)
            while let (observation, stream) = try input.next() { report.add(observation, from: stream) }
            Self.note(input.skippedLines, report.unlisted)
        } catch {
            Glibc.exit(Program.report(error, as: .noInput).rawValue)
        }
        guard report.observations > 0 else {
            Self.end("the input has no line of `watch --format json`; next: check the files; decompress those that are compressed")
        }
        let summaries = report.finish(at: from?.isAgo == true ? now : nil)
        guard !summaries.isEmpty else {
            let scopes = report.scopes.map(quotation).joined(separator: ", ")
            Self.end("the input has no line of this --scope; next: choose from \(scopes)")
        }
        if from != nil, summaries.allSatisfy({ $0.from == $0.until }) {
            Self.end("the lines end before --from; next: choose an earlier beginning")
        }
        let file = output == "-" ? nil : output
        let writer = ReportOutput(
            format: format ?? ReportFormat(nameOf: output ?? ""), file: file, style: file == nil ? color.style : TextStyle())
        Glibc.exit(writer.write(summaries).rawValue)
    }

    /// Adds the observations of the history of a service.
    private func addHistory(to report: inout Report, _ now: Duration) {
        guard let history else { return }
        #if SQLite
        do throws(CommandFailure) {
            for observation in try HistoryFile.observations(in: history, from: from?.time(now)) { report.add(observation) }
        } catch {
            DescriptorOutput.printMessage(quotingInput(in: error.message, words: RawArguments.texts))
            Glibc.exit(error.status.rawValue)
        }
        #else
        DescriptorOutput.printMessage(
            "this build has no SQLite and reads no history; next: build it with `swift build --traits SQLite`")
        Glibc.exit(ExitStatus.unavailable.rawValue)
        #endif
    }

    /// Writes a message about the input and ends the process.
    private static func end(_ message: String) -> Never {
        DescriptorOutput.printMessage(message)
        Glibc.exit(ExitStatus.invalidData.rawValue)
    }

    /// Writes a note about lines that the report lacks.
    private static func note(_ skipped: Int, _ unlisted: Int) {
        var parts: [String] = []
        if skipped > 0 { parts.append("\(skipped) damaged or of another kind") }
        if unlisted > 0 { parts.append("\(unlisted) of further scopes, as at most \(Report.scopeLimit) are reported") }
        guard !parts.isEmpty else { return }
        DescriptorOutput.printMessage(
            "lines left out: \(parts.joined(separator: ", ")); next: report on files of `watch --format json` only")
    }
}

/// A format of reports on the command line.
enum ReportFormat: String, CaseIterable, ExpressibleByArgument {
    case text
    case markdown
    case json
    case html
    case svg

    /// Returns the format for the name of a file.
    init(nameOf file: String) {
        switch file.split(separator: ".").last?.lowercased() {
        case "md", "markdown": self = .markdown
        case "json": self = .json
        case "html", "htm": self = .html
        case "svg": self = .svg
        default: self = .text
        }
    }
}

/// A time on the command line: one of RFC 3339, or a duration before now.
struct TimeArgument: Hashable {
    private enum Value: Hashable {
        case time(Duration)
        case ago(Duration)
    }

    private let value: Value

    /// Parses the text.
    init(_ text: String) throws(InvalidArgument) {
        if let time = CalendarTime.time(rfc3339: text) {
            value = .time(time)
        } else if let duration = try? DurationArgument(text).duration {
            value = .ago(duration)
        } else {
            throw InvalidArgument("not a time; next: write 2026-01-31T10:00:00Z, 2026-01-31T10:00:00+01:00, or 7d for a week ago")
        }
    }

    /// True for a duration before now.
    var isAgo: Bool { if case .ago = value { true } else { false } }

    /// Returns the time, since 1970-01-01T00:00:00Z.
    func time(_ now: Duration) -> Duration {
        switch value {
        case .time(let time): time
        case .ago(let duration): now - duration
        }
    }
}

/// The destination of a report.
struct ReportOutput {
    let format: ReportFormat
    /// The file; `nil` for standard output.
    let file: String?
    /// The style of text.
    var style = TextStyle()

    /// Writes a report, and returns the status to end with.
    func write(_ summaries: [TimelineSummary]) -> ExitStatus {
        let text = text(of: summaries, ReportWords(localOffset: localOffset(at:)), style)
        do {
            guard let file else {
                try DescriptorOutput.standard.write(bytes: Array(text.utf8)[...])
                return .yes
            }
            try OutputFile.write([text], to: file)
            return .yes
        } catch let failure as CommandFailure {
            DescriptorOutput.printMessage(failure.message)
            return failure.status
        } catch {
            return (error as? OutputFailure).map(Program.report) ?? .outputFailed
        }
    }

    /// Returns the text of a report.
    func text(of summaries: [TimelineSummary], _ words: ReportWords, _ style: TextStyle) -> String {
        let content = ReportContent(summaries, words: words)
        return switch format {
        case .text: content.text(style)
        case .markdown: content.markdown
        case .json: summaries.map { "\(JSONValue.report($0))\n" }.joined()
        case .html: content.html
        case .svg: content.svg
        }
    }
}
