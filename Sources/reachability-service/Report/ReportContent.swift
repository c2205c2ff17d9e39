import CommandKit
import Reachability

/// The content of a report for people, the same in text, Markdown and HTML; texts are not escaped yet.
struct ReportContent {
    /// A text of a table.
    struct Cell: Hashable {
        var text: String
        /// True for a text from outside, such as the name of an interface.
        var isForeign = false
        /// A text from outside that explains it.
        var detail: String?
        /// The time that the text shows.
        var time: Duration?

        init(_ text: String) { self.text = text }

        /// Creates the cell of a text from outside.
        init(foreign text: String?) { (self.text, isForeign) = (text ?? "–", text != nil) }
    }

    /// A table; its first column names the row.
    struct Table: Hashable {
        var title: String
        var columns: [String]
        /// The columns with numbers and durations.
        var numeric: Set<Int>
        var rows: [[Cell]]
    }

    /// A sum with its name.
    struct Fact: Hashable {
        var name: String
        var value: String
        /// A time that belongs to it.
        var detail: String?

        /// The sum in a list of sums.
        var phrase: String { "\(name.lowercased()) \(value)" + (detail.map { " (\($0))" } ?? "") }
    }

    /// The part of one scope.
    struct Section {
        let summary: TimelineSummary
        let availability: String
        let facts: [Fact]
        let outages: Table
        /// The last flaps.
        let flaps: Table
        let sums: [Table]
        /// Sentences about what the tables leave out.
        let remarks: [String]
    }

    /// The number of flaps that are listed.
    static let listedFlaps = 500

    let sections: [Section]
    /// The sums of all scopes side by side; `nil` for a single one.
    let overview: Table?
    let words: ReportWords
    /// The period, and its length.
    let period: (from: Duration, until: Duration)

    init(_ summaries: [TimelineSummary], words: ReportWords) {
        self.words = words
        sections = summaries.map { Self.section($0, words) }
        overview = sections.count > 1 ? Self.overview(sections) : nil
        period = (summaries.first?.from ?? .zero, summaries.first?.until ?? .zero)
    }

    /// The period in words.
    var periodText: String {
        "\(words.time(period.from)) to \(words.time(period.until)) (\(ReportWords.length(period.until - period.from)))"
    }

    /// The offset of the times.
    var zone: String { words.zone(at: period.until) }

    /// The rules by which outages and availability are counted.
    static let rules = """
        Availability is the share of the known time that was online; unknown time, when nothing watched, counts as neither. \
        A flap is an outage of less than \(durationText(Outage.flapLimit)). \u{2265}: the beginning or the end is not known.
        """

    private static func section(_ summary: TimelineSummary, _ words: ReportWords) -> Section {
        let sums = summary.sums
        var remarks: [String] = []
        if summary.flaps.count > listedFlaps { remarks.append("Of the flaps, the last \(listedFlaps) are listed.") }
        if summary.unlisted > 0 {
            remarks.append("The sums include \(count(summary.unlisted, "short outage")) not listed, as there were too many.")
        }
        if summary.reestablished > 0 {
            remarks.append(
                "\(count(summary.reestablished, "loss", "losses")) ended so quickly that only the regained path was reported; "
                    + "not among the flaps.")
        }
        if summary.clockSteps > 0 {
            remarks.append(
                "The clock was set \(count(summary.clockSteps, "time")): durations are those of the clock since boot, and earlier "
                    + "times are by the clock afterwards.")
        }
        return Section(
            summary: summary, availability: ReportWords.availability(online: sums.online, offline: sums.offline),
            facts: facts(summary, words), outages: table("Outages", summary.outages, words),
            flaps: table("Flaps", summary.flaps.suffix(listedFlaps), words),
            sums: [reasons(sums), interfaces(sums)].filter { !$0.rows.isEmpty }, remarks: remarks)
    }

    private static func overview(_ sections: [Section]) -> Table {
        let rows = sections.map { section in
            let sums = section.summary.sums
            return [
                Cell(foreign: section.summary.scope), Cell(section.availability), Cell(ReportWords.length(sums.offline)),
                Cell("\(sums.outages)"), Cell("\(sums.flaps)"),
            ]
        }
        return Table(
            title: "Scopes", columns: ["Scope", "Available", "Offline", "Outages", "Flaps"], numeric: [1, 2, 3, 4], rows: rows)
    }

    private static func facts(_ summary: TimelineSummary, _ words: ReportWords) -> [Fact] {
        let (sums, longest) = (summary.sums, summary.longest)
        return [
            Fact(name: "Offline", value: ReportWords.length(sums.offline)), Fact(name: "Outages", value: "\(sums.outages)"),
            Fact(name: "Flaps", value: "\(sums.flaps)"),
            Fact(name: "Longest", value: longest.map(words.length) ?? "–", detail: longest.map { words.time($0.start) }),
            Fact(name: "Known", value: ReportWords.length(summary.knownTime)),
            Fact(name: "Unknown", value: ReportWords.length(sums.unknown)),
        ]
    }

    private static func table(_ title: String, _ outages: some Sequence<Outage>, _ words: ReportWords) -> Table {
        let rows = outages.map { outage in
            var start = Cell(words.time(outage.start))
            start.time = outage.start
            let names = outage.reasons.map(ReportWords.reason)
            var reason = Cell(names.map(\.text).joined(separator: ", then "))
            reason.isForeign = names.contains(where: \.isForeign)
            reason.detail = outage.cause
            return [start, Cell(words.length(of: outage)), Cell(foreign: outage.interface), reason]
        }
        return Table(title: title, columns: ["Start", "Duration", "Interface", "Reason and cause"], numeric: [1], rows: rows)
    }

    private static func reasons(_ sums: SpanSums) -> Table {
        let rows = sums.byReason.map { name, sum in
            let words = ReportWords.reason(name)
            var cell = Cell(words.text)
            cell.isForeign = words.isForeign
            return [cell, Cell("\(sum.outages)"), Cell(ReportWords.length(sum.offline))]
        }
        return Table(title: "By reason", columns: ["Reason", "Outages", "Offline"], numeric: [1, 2], rows: rows)
    }

    private static func interfaces(_ sums: SpanSums) -> Table {
        let rows = sums.byInterface.map { name, sum in
            [
                Cell(foreign: name), Cell(ReportWords.length(sum.online)), Cell("\(sum.outages)"),
                Cell(ReportWords.length(sum.offline)),
            ]
        }
        return Table(
            title: "By interface", columns: ["Interface", "Online", "Outages", "Offline"], numeric: [1, 2, 3], rows: rows)
    }

    private static func count(_ number: Int, _ noun: String, _ plural: String? = nil) -> String {
        "\(number) \(number == 1 ? noun : plural ?? noun + "s")"
    }
}

/// Times, durations and reasons in words.
struct ReportWords: Sendable {
    /// Returns the offset of local time from UTC in seconds.
    let localOffset: @Sendable (Duration) -> Int

    /// Returns a local time: `2026-01-31 10:00:00`.
    func time(_ time: Duration) -> String { String(CalendarTime(time, offset: localOffset(time)).plain.prefix(19)) }

    /// Returns the offset of local times: `UTC+01:00`.
    func zone(at time: Duration) -> String {
        let minutes = localOffset(time) / 60
        guard minutes != 0 else { return "UTC" }
        return "UTC\(minutes < 0 ? "-" : "+")\(zeroPadded(abs(minutes) / 60, 2)):\(zeroPadded(abs(minutes) % 60, 2))"
    }

    /// Returns the length of an outage, with a sign if it may have been longer.
    func length(of outage: Outage) -> String {
        (outage.isStartKnown && outage.isEndKnown ? "" : "\u{2265} ") + Self.length(outage.duration)
    }

    /// Returns a duration.
    static func length(_ duration: Duration) -> String { duration > .zero ? durationText(duration) : "0s" }

    /// Returns a reason in words; the name of an unknown one is from outside.
    static func reason(_ name: String?) -> (text: String, isForeign: Bool) {
        guard let name else { return ("no reason given", false) }
        if let reason = OfflineReason(rawValue: name) { return (reason.description, false) }
        return (name, name != SpanSums.otherName)
    }

    /// Returns a share in per cent, rounded down, with as many decimals as tell it from 100 %: `99.93 %`.
    static func availability(online: Duration, offline: Duration) -> String {
        let (up, down) = (max(online.attoseconds, 0), max(offline.attoseconds, 0))
        guard up + down > 0 else { return "unknown" }
        guard down > 0 else { return "100 %" }
        guard up > 0 else { return "0 %" }
        var decimals = 2
        var scale: Int128 = 100
        // Until the time offline makes two units of the last decimal.
        while decimals < 6, down * 100 * scale < 2 * (up + down) {
            decimals += 1
            scale *= 10
        }
        let value = up * 100 * scale / (up + down)
        return "\(value / scale).\(zeroPadded(value % scale, decimals)) %"
    }
}
