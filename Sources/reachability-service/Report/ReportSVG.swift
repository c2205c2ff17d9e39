import CommandKit
import Reachability

/// The picture of one scope: a quiet bar while online, high bars for outages, a hatched bar for unknown time.
///
/// Positions are shares of the width and sizes are pixels, so that nothing is distorted and text keeps its size on any screen.
struct TimelinePicture {
    /// A bar: a span, or outages so close together that they are one bar.
    private struct Mark {
        var status: NetworkPath.Status
        var start: Duration
        var end: Duration
        /// The first outage of a bar of outages, their number, and their time.
        var outage: Outage?
        var count = 0
        var offline = Duration.zero
    }

    /// The rules for the elements of pictures, with the colours of ``Palette``.
    static let rules = """
        .on{fill:var(--on)}.off{fill:var(--off);stroke:var(--off);stroke-width:1.5px}.gap{stroke:var(--gap);stroke-width:1px}\
        .hatch{stroke:var(--gap);stroke-width:1.5px}.tick{stroke:var(--line);stroke-width:1px}
        """
    /// The height of bars and axis.
    static let height = 62

    private let summary: TimelineSummary
    private let words: ReportWords
    private let description: String
    private let number: Int

    /// - Parameter number: The number of the picture in its document.
    init(_ section: ReportContent.Section, words: ReportWords, number: Int) {
        (summary, self.words, self.number) = (section.summary, words, number)
        description = "\(section.availability) online; \(section.facts.map(\.phrase).joined(separator: ", "))."
    }

    /// Returns the picture as an element.
    ///
    /// - Parameter attributes: Further attributes.
    func svg(_ attributes: String) -> String {
        let hatch = "hatch\(number)"
        let title = "Timeline of \(summary.scope), \(words.time(summary.from)) to \(words.time(summary.until))"
        return """
            <svg \(attributes) role="img" aria-labelledby="title\(number)" aria-describedby="desc\(number)">
            <title id="title\(number)">\(ForeignText(title).html)</title>
            <desc id="desc\(number)">\(ForeignText(description).html)</desc>
            <defs><pattern id="\(hatch)" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">\
            <path class="hatch" d="M0 0V6"/></pattern></defs>
            \((ticks + marks.map { element($0, hatch) }).joined(separator: "\n"))
            </svg>
            """
    }

    private var period: Duration { summary.until - summary.from }

    /// The marks in the order in which they are drawn: outages on top.
    private var marks: [Mark] {
        // A thousandth of the width is a pixel or less.
        let resolution = period / 1000
        var quiet: [Mark] = []
        for span in summary.spans where span.status != .unsatisfied {
            if let last = quiet.last, last.status == span.status, last.end == span.start {
                quiet[quiet.count - 1].end = span.end
            } else {
                quiet.append(Mark(status: span.status, start: span.start, end: span.end))
            }
        }
        var loud: [Mark] = []
        for outage in (summary.outages + summary.flaps).sorted(by: { $0.start < $1.start }) {
            if loud.last.map({ outage.start - $0.end >= resolution }) ?? true {
                loud.append(Mark(status: .unsatisfied, start: outage.start, end: outage.end, outage: outage))
            }
            loud[loud.count - 1].end = outage.end
            loud[loud.count - 1].count += 1
            loud[loud.count - 1].offline += outage.duration
        }
        return quiet.filter { $0.end - $0.start >= resolution } + loud
    }

    private func element(_ mark: Mark, _ hatch: String) -> String {
        let (x, width) = (share(mark.start), share(mark.end) - share(mark.start))
        func rect(_ attributes: String, _ x: Int, _ width: Int, _ place: String) -> String {
            "<rect \(attributes) x=\"\(percent(x))\" width=\"\(percent(width))\" \(place)>"
                + "<title>\(ForeignText(text(mark)).html)</title></rect>"
        }
        return switch mark.status {
        case .satisfied: rect("class=\"on\"", x, width, "y=\"14\" height=\"12\"")
        case .unknown: rect("class=\"gap\" fill=\"url(#\(hatch))\"", x, width, "y=\"14\" height=\"12\"")
        // An element without a width is not drawn; its stroke makes the shortest one visible.
        case .unsatisfied: rect("class=\"off\"", min(x, 99_950), max(width, 50), "y=\"2\" height=\"36\"")
        }
    }

    private func text(_ mark: Mark) -> String {
        let period = "\(words.time(mark.start)) to \(words.time(mark.end))"
        switch mark.status {
        case .satisfied: return "online, \(period)"
        case .unknown: return "unknown, \(period)"
        case .unsatisfied:
            guard mark.count == 1, let outage = mark.outage else {
                return "\(mark.count) outages, offline for \(ReportWords.length(mark.offline)), \(period)"
            }
            let reasons = outage.reasons.map { ReportWords.reason($0).text }.joined(separator: ", then ")
            let cause = outage.cause.map { " (\($0))" } ?? ""
            return "offline for \(words.length(of: outage)) from \(words.time(outage.start)): \(reasons)\(cause)"
        }
    }

    /// Returns the place of a time, in thousandths of a per cent.
    private func share(_ time: Duration) -> Int {
        guard period > .zero else { return 0 }
        return Int(((time - summary.from) / period * 100_000).rounded())
    }

    /// Returns thousandths of a per cent as an attribute's value.
    private func percent(_ share: Int) -> String { "\(share / 1000).\(zeroPadded(share % 1000, 3))%" }

    /// The axis.
    private var ticks: [String] {
        axis.enumerated().map { index, tick in
            let x = share(tick.time)
            let anchor = x < 6000 ? "start" : x > 94_000 ? "end" : "middle"
            // Narrow screens leave out every other label.
            let kind = index.isMultiple(of: 2) ? "label" : "label extra"
            return "<line class=\"tick\" x1=\"\(percent(x))\" x2=\"\(percent(x))\" y1=\"0\" y2=\"44\"/>"
                + "<text class=\"\(kind)\" x=\"\(percent(x))\" y=\"58\" text-anchor=\"\(anchor)\">\(tick.label)</text>"
        }
    }

    private var axis: [(time: Duration, label: String)] {
        let day: Int64 = 86_400
        let steps = [
            1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, day, 2 * day, 5 * day, 10 * day, 20 * day, 50 * day,
            100 * day, 365 * day, 3650 * day,
        ]
        let length = period.components.seconds
        guard length > 0, let step = steps.first(where: { length / $0 <= 9 }) ?? steps.last else { return [] }
        let offset = Int64(words.localOffset(summary.from))
        let first = summary.from.components.seconds + offset
        var ticks: [(Duration, String)] = []
        var second = (first + step - 1) / step * step
        while second <= first + length, ticks.count < 1000 {
            // Whole hours and days, also after the clocks went forward or back.
            let time = Duration.seconds(second - Int64(words.localOffset(.seconds(second - offset))))
            ticks.append((time, label(time, step: step, isLong: length > 300 * day)))
            second += step
        }
        return ticks
    }

    private func label(_ time: Duration, step: Int64, isLong: Bool) -> String {
        let text = words.time(time)
        let (date, clock) = (text.prefix(10), text.suffix(8))
        if isLong { return String(date) }
        guard step >= 86_400 || clock == "00:00:00" else { return String(step < 60 ? clock : clock.prefix(5)) }
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let month = Int(date.dropFirst(5).prefix(2)).flatMap { months.indices.contains($0 - 1) ? months[$0 - 1] : nil } ?? ""
        return "\(Int(date.suffix(2)) ?? 0) \(month)"
    }
}

extension ReportContent {
    /// Returns the timelines of all scopes as one SVG file, as wide as its place.
    var svg: String {
        let row = TimelinePicture.height + 40
        let top = 56
        let height = top + row * sections.count + 36
        let rows = sections.enumerated().map { index, section in
            let y = top + index * row
            let picture = TimelinePicture(section, words: words, number: index + 1)
            return """
                <text class="name" x="0" y="\(y + 16)">\(ForeignText(section.summary.scope).html)</text>
                <text class="name" x="100%" y="\(y + 16)" text-anchor="end">\(section.availability)</text>
                \(picture.svg("x=\"0\" y=\"\(y + 24)\" width=\"100%\" height=\"\(TimelinePicture.height)\""))
                """
        }
        return """
            <svg xmlns="http://www.w3.org/2000/svg" width="100%" height="\(height)">
            <style>
            text{font:12px system-ui,sans-serif;font-variant-numeric:tabular-nums}text.name{font-size:15px;font-weight:600}
            svg{overflow:visible}:root{max-width:60rem}
            \(Palette.plain(Self.svgRules))
            @media (max-width:600px){.extra{display:none}}
            </style>
            <rect class="page" width="100%" height="100%"/>
            <svg x="2%" width="96%" height="\(height)">
            <text class="label" x="0" y="22">\(words.time(period.from)) to \(words.time(period.until))</text>
            <text class="label" x="0" y="40">\(ReportWords.length(period.until - period.from)), times in \(zone)</text>
            \((rows + Self.legend(y: height - 34)).joined(separator: "\n"))
            </svg>
            </svg>

            """
    }

    private static let svgRules =
        ".page{fill:var(--page)}.name{fill:var(--ink)}.label{fill:var(--dim)}:root{background:var(--page)}" + TimelinePicture.rules

    private static func legend(y: Int) -> [String] {
        let keys = [
            (0, "online", "class=\"on\" x=\"0\" y=\"\(y + 8)\" width=\"16\" height=\"8\""),
            (90, "offline", "class=\"off\" x=\"102\" y=\"\(y + 3)\" width=\"3\" height=\"18\""),
            (180, "unknown", "class=\"gap\" fill=\"url(#hatch1)\" x=\"180\" y=\"\(y + 8)\" width=\"16\" height=\"8\""),
        ]
        return keys.map { x, label, bar in "<rect \(bar)/><text class=\"label\" x=\"\(x + 22)\" y=\"\(y + 16)\">\(label)</text>" }
    }
}
