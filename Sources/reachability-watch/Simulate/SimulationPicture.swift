import CommandKit
import Reachability

/// A picture of a simulation: the network, and the jobs of both runs below each other on one time axis.
///
/// Up to 40 jobs have a lane each; more are shown as a histogram of their starts.
struct SimulationPicture {
    private typealias Canvas = PictureCanvas
    private typealias Kind = SimulationRecord.Attempt.Result.Kind
    private typealias Cause = SimulationRecord.Wait.Cause

    /// The number of jobs up to which each has a lane, and the number of their attempts.
    private static let (mostLanes, mostMarks) = (SimulatedRun.mostJobsWithWaits, 3000)
    /// The plot's horizontal limits.
    private static let (left, right) = (74.0, PictureCanvas.width - 12)
    /// The number of bars of a histogram, and their height.
    private static let (bins, barHeight) = (84, 88.0)

    private let simulation: Simulation
    private let end: Duration
    private let hasLanes: Bool

    /// Creates the picture of a simulation.
    init(_ simulation: Simulation) {
        self.simulation = simulation
        end = max(simulation.end, Scenario.roundTrip)
        hasLanes =
            simulation.scenario.jobs.count <= Self.mostLanes
            && simulation.runs.allSatisfy { $0.record.attempts.count <= Self.mostMarks }
    }

    /// The picture as an SVG file without its last line end.
    var svg: String {
        var canvas = Canvas()
        drawHead(&canvas)
        drawNetwork(&canvas)
        drawServers(&canvas)
        let histograms = simulation.runs.map { histogram($0.record) }
        let highest = histograms.map(Self.highest).max() ?? 0
        for ((method, record), counts) in zip(simulation.runs, histograms) {
            drawHeading(method, record, &canvas)
            if hasLanes { drawLanes(record, &canvas) } else { drawHistogram(counts, highest: highest, &canvas) }
        }
        canvas.height += 6
        return canvas.svg(title: simulation.title, description: description)
    }

    /// Returns the horizontal position of a time.
    private func x(_ time: Duration) -> Double {
        Self.left + (Self.right - Self.left) * min(max(time / end, 0), 1)
    }

    // MARK: - Head

    private func drawHead(_ canvas: inout Canvas) {
        canvas.height = 7
        for line in titleLines {
            canvas.text("title", line, x: 10, y: canvas.height + 17)
            canvas.height += 18
        }
        canvas.text("dim", clipped(subtitle, 66), x: 10, y: canvas.height + 15)
        canvas.height += 24
        var x = 10.0
        var y = canvas.height + 11
        for (symbol, name) in legend {
            let width = symbol.width + 5 + Canvas.width(of: name) + 12
            if x + width > Canvas.width + 8, x > 10 { (x, y) = (10, y + 17) }
            symbol.draw(x, y - 4, &canvas)
            canvas.text("dim", name, x: x + symbol.width + 5, y: y)
            x += width
        }
        canvas.height = y + 8
    }

    /// The title in at most two lines.
    private var titleLines: [String] {
        let longest = 44
        var lines = [""]
        for word in clipped(simulation.title, 2 * longest - 8).split(separator: " ") {
            if lines[lines.count - 1].count + word.count < longest || lines.count == 2 || lines == [""] {
                lines[lines.count - 1] += (lines[lines.count - 1].isEmpty ? "" : " ") + word
            } else {
                lines.append(String(word))
            }
        }
        return lines.map { clipped($0, longest) }
    }

    private var subtitle: String {
        let scenario = simulation.scenario
        let count = scenario.jobs.count
        let used = Set(scenario.jobs.map(\.policy))
        let policy = used.count == 1 ? used.first.map { scenario.policies[$0].text } ?? "" : ""
        return "\(count) \(count == 1 ? "job" : "jobs")" + (policy.isEmpty ? "" : ", \(policy)")
    }

    /// A symbol of the legend.
    private enum Symbol {
        case mark(Kind)
        case bar(Kind)
        case wait(Cause)
        case work
        case giveUp

        var width: Double {
            switch self {
            case .mark, .bar: 9
            case .wait, .work: 18
            case .giveUp: 4
            }
        }

        func draw(_ x: Double, _ y: Double, _ canvas: inout Canvas) {
            switch self {
            case .mark(let kind): canvas.path(kind.style, kind.path(x + 4.5, y, 4))
            case .bar(let kind): canvas.path("bar-\(kind.style)", Canvas.box(x: x, y: y - 4.5, width: 9, height: 9))
            case .wait(let cause): canvas.path(cause.style, Canvas.line(from: x, to: x + 18, y))
            case .work: canvas.path("work", Canvas.box(x: x, y: y - 2.5, width: 18, height: 5))
            case .giveUp: canvas.path("gave", Canvas.line(x + 2, from: y - 5, to: y + 5))
            }
        }
    }

    /// The symbols that occur, with their names.
    private var legend: [(Symbol, String)] {
        let records = simulation.runs.map(\.record)
        let kinds = Set(records.flatMap { $0.attempts.map(\.result.kind) })
        var legend: [(Symbol, String)] = Kind.allCases.filter(kinds.contains).map { (hasLanes ? .mark($0) : .bar($0), $0.name) }
        guard hasLanes else { return legend }
        let hasGivenUp = records.contains { record in
            record.jobs.contains { if case .gaveUp? = $0?.outcome { true } else { false } }
        }
        if hasGivenUp { legend.append((.giveUp, "gives up")) }
        if records.contains(where: { $0.attempts.contains(where: isLong) }) { legend.append((.work, "attempt runs")) }
        let causes = Set(records.flatMap { $0.waits.filter(isLong).map(\.cause) })
        return legend + Cause.allCases.filter(causes.contains).map { (.wait($0), $0.name) }
    }

    /// Returns true for an attempt whose duration can be seen.
    private func isLong(_ attempt: SimulationRecord.Attempt) -> Bool { x(attempt.end) - x(attempt.start) > 1 }

    /// Returns true for a wait that can be seen.
    private func isLong(_ wait: SimulationRecord.Wait) -> Bool { x(wait.end) - x(wait.start) > 1.5 }

    // MARK: - Network and servers

    private func drawNetwork(_ canvas: inout Canvas) {
        let y = canvas.height + 4
        canvas.text("dim", "network", x: Self.left - 8, y: y + 10, .end)
        let paths = simulation.bus.paths
        let starts = paths.map { x($0.at) } + [x(end)]
        for (index, change) in paths.enumerated() {
            let (start, width) = (starts[index], starts[index + 1] - starts[index])
            if change.path.status == .satisfied {
                canvas.rectangle("online", x: start, y: y + 5, width: width, height: 3)
            } else {
                canvas.rectangle("offline", x: start, y: y, width: width, height: 13)
            }
        }
        // Above all bars: a tag may reach into the next one.
        var shown: String?
        for (index, change) in paths.enumerated() {
            let (start, width) = (starts[index], starts[index + 1] - starts[index])
            if change.path.status == .satisfied {
                let name = change.path.interface?.name ?? "online"
                if name != shown, tag([name], from: start, width: width, y: y + 10, &canvas) { shown = name }
            } else {
                let reason = change.path.offlineReason.map { ["offline: \($0)"] } ?? []
                // Behind a short outage, unless the name of another interface belongs there.
                let isSame = index + 1 < paths.count && paths[index + 1].path.interface?.name == shown
                let room = isSame ? starts[index + 2] - starts[index + 1] : 0
                tag(reason + ["offline"], from: start, width: width, after: room, y: y + 10, &canvas)
            }
        }
        canvas.height = y + 17
    }

    /// Writes the first text that has room into the middle of a bar, or the last one behind the bar.
    ///
    /// - Parameter after: The room behind the bar.
    @discardableResult
    private func tag(
        _ texts: [String], from start: Double, width: Double, after: Double = 0, y: Double, _ canvas: inout Canvas
    ) -> Bool {
        let texts = texts.map { clipped($0, 24) }
        let own = { (text: String) in Canvas.width(of: text, size: 10) + 7 }
        let inside = texts.first { own($0) <= width }
        guard let text = inside ?? texts.last, inside != nil || own(text) <= after else { return false }
        let middle = start + (inside == nil ? width + own(text) / 2 : width / 2)
        canvas.rectangle("tag", x: middle - own(text) / 2, y: y - 9, width: own(text), height: 11.5)
        canvas.text("small", text, x: middle, y: y, .middle)
        return true
    }

    private func drawServers(_ canvas: inout Canvas) {
        for server in simulation.scenario.servers.filter({ !$0.phases.isEmpty }).prefix(6) {
            let y = canvas.height + 4
            canvas.text("dim", shortName(server.name), x: Self.left - 8, y: y + 10, .end)
            canvas.rectangle("online", x: Self.left, y: y + 5, width: Self.right - Self.left, height: 3)
            let troubles = troubles(of: server)
            for (index, (from, until, behaviour)) in troubles.enumerated() {
                canvas.rectangle("trouble", x: x(from), y: y, width: x(until) - x(from), height: 13)
                let next = index + 1 < troubles.count ? troubles[index + 1].from : end
                tag([behaviour.name], from: x(from), width: x(until) - x(from), after: x(next) - x(until), y: y + 10, &canvas)
            }
            canvas.height = y + 17
        }
    }

    /// Returns the periods in which a server does not answer as it should.
    private func troubles(of server: ScriptedServer) -> [(from: Duration, until: Duration, ScriptedServer.Behaviour)] {
        let times = server.phases.flatMap { [$0.from, $0.until ?? end] }.filter { $0 > .zero && $0 < end }
        let limits = Set(times + [.zero, end]).sorted()
        var troubles: [(from: Duration, until: Duration, ScriptedServer.Behaviour)] = []
        for (from, until) in zip(limits, limits.dropFirst()) {
            let behaviour = server.behaviour(at: from)
            if case .answers(..<400, _) = behaviour { continue }
            if let last = troubles.last, last.until == from, last.2 == behaviour {
                troubles[troubles.count - 1].until = until
            } else {
                troubles.append((from, until, behaviour))
            }
        }
        return troubles
    }

    // MARK: - Runs

    private func drawHeading(_ method: SimulatedRun.Method, _ record: SimulationRecord, _ canvas: inout Canvas) {
        canvas.text("head", method.name, x: 10, y: canvas.height + 22)
        let summary = summary(record)
        let isWide = Canvas.width(of: method.name, size: 14) + Canvas.width(of: summary) + 20 > Self.right
        canvas.text("dim", summary, x: isWide ? 10 : Self.right, y: canvas.height + (isWide ? 37 : 22), isWide ? .start : .end)
        canvas.height += isWide ? 45 : 30
    }

    private func summary(_ record: SimulationRecord) -> String {
        let figures = simulation.figures(of: record)
        let last = figures.lastSuccess.map { " by \(durationText($0))" } ?? ""
        let attempts = "\(figures.attempts) \(figures.attempts == 1 ? "attempt" : "attempts")"
        return "\(figures.succeeded) of \(figures.jobs) succeed\(last), \(attempts)"
    }

    /// Draws the times and the outages behind a plot, and the axis below it.
    private func drawFrame(height: Double, _ canvas: inout Canvas) {
        let (top, bottom) = (canvas.height, canvas.height + height)
        for outage in simulation.bus.outages {
            canvas.rectangle("band", x: x(outage.start), y: top, width: x(outage.end) - x(outage.start), height: height)
        }
        var grid = ""
        for tick in ticks { grid += Canvas.line(x(tick), from: top, to: bottom) }
        canvas.path("grid", grid)
        canvas.path("axis", Canvas.line(from: Self.left, to: Self.right, bottom))
        for tick in ticks {
            let isLast = x(tick) > Self.right - 12
            let name = tick == .zero ? "0" : durationText(tick)
            canvas.text("small dim", name, x: isLast ? Self.right + 6 : x(tick), y: bottom + 12, isLast ? .end : .middle)
        }
    }

    /// The times with a label.
    private var ticks: [Duration] {
        let milliseconds = [1, 2, 5, 10, 20, 50, 100, 200, 500].map { Duration.milliseconds($0) }
        let day = 86_400
        let seconds = [
            1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, day, 2 * day, 7 * day,
            30 * day, 90 * day, 365 * day, 3650 * day, 36_500 * day,
        ].map { Duration.seconds($0) }
        guard let step = (milliseconds + seconds).first(where: { end / $0 <= 7 }) else { return [.zero] }
        return (0...7).map { step * $0 }.filter { $0 <= end }
    }

    // MARK: - Lanes

    private func drawLanes(_ record: SimulationRecord, _ canvas: inout Canvas) {
        let count = record.jobs.count
        let lane = count <= 8 ? 19.0 : count <= 20 ? 14 : 9
        let radius = min(4, lane / 2 - 1.2)
        let top = canvas.height
        let middle = { (job: Int) in top + lane * (Double(job) + 0.5) }
        drawFrame(height: lane * Double(count), &canvas)
        for job in record.jobs.indices where lane > 9 || job == 0 || (job + 1).isMultiple(of: 5) {
            let name = shortName(simulation.scenario.jobs[job].name)
            canvas.text(lane > 9 ? "dim" : "small dim", name, x: Self.left - 8, y: middle(job) + 3.5, .end)
        }
        for cause in Cause.allCases {
            let waits = record.waits.filter { $0.cause == cause && isLong($0) }
            canvas.path(cause.style, waits.map { Canvas.line(from: x($0.start), to: x($0.end), middle($0.job)) }.joined())
        }
        let long = record.attempts.filter(isLong)
        let height = min(5, lane - 5)
        let boxes = long.map { attempt in
            Canvas.box(
                x: x(attempt.start), y: middle(attempt.job) - height / 2, width: x(attempt.end) - x(attempt.start), height: height)
        }
        canvas.path("work", boxes.joined())
        for kind in Kind.allCases {
            let attempts = record.attempts.filter { $0.result.kind == kind }
            canvas.path(kind.style, attempts.map { kind.path(x($0.end), middle($0.job), radius) }.joined())
        }
        let ends = record.jobs.enumerated().compactMap { index, job -> String? in
            guard let job, case .gaveUp = job.outcome else { return nil }
            return Canvas.line(x(job.end) + radius + 2, from: middle(index) - lane / 2 + 1.5, to: middle(index) + lane / 2 - 1.5)
        }
        canvas.path("gave", ends.joined())
        canvas.height = top + lane * Double(count) + 16
    }

    // MARK: - Histogram

    /// Returns the number of starts in each bin, by the kind of their results.
    private func histogram(_ record: SimulationRecord) -> [Kind: [Int]] {
        var counts: [Kind: [Int]] = [:]
        for attempt in record.attempts {
            let bin = min(Self.bins - 1, max(0, Int(attempt.start / end * Double(Self.bins))))
            counts[attempt.result.kind, default: Array(repeating: 0, count: Self.bins)][bin] += 1
        }
        return counts
    }

    private static func highest(_ counts: [Kind: [Int]]) -> Int {
        (0..<bins).map { bin in counts.values.reduce(0) { $0 + $1[bin] } }.max() ?? 0
    }

    private func drawHistogram(_ counts: [Kind: [Int]], highest: Int, _ canvas: inout Canvas) {
        let (top, bottom) = (canvas.height, canvas.height + Self.barHeight)
        drawFrame(height: Self.barHeight, &canvas)
        let scale = Self.barHeight / Double(max(1, highest))
        let width = (Self.right - Self.left) / Double(Self.bins)
        var below = Array(repeating: 0.0, count: Self.bins)
        for kind in Kind.allCases {
            var path = ""
            for (bin, count) in (counts[kind] ?? []).enumerated() where count > 0 {
                // The smallest number stays visible.
                let height = max(1, Double(count) * scale)
                path += Canvas.box(
                    x: Self.left + width * Double(bin), y: bottom - below[bin] - height, width: width - 0.4, height: height)
                below[bin] += height
            }
            canvas.path("bar-\(kind.style)", path)
        }
        canvas.text("small dim", "\(highest)", x: Self.left - 6, y: top + 8, .end)
        canvas.text("small dim", "0", x: Self.left - 6, y: bottom, .end)
        canvas.text("small dim", "starts in", x: Self.left - 6, y: top + 40, .end)
        canvas.text("small dim", durationText(end / Self.bins), x: Self.left - 6, y: top + 52, .end)
        canvas.height = bottom + 16
    }

    // MARK: - Words

    /// The content in words.
    private var description: String {
        let outages = simulation.bus.outages.map { "\(durationText($0.start)) to \(durationText($0.end))" }
        let network = outages.isEmpty ? "The network is never away." : "Offline: \(outages.prefix(10).joined(separator: ", "))."
        let runs = simulation.runs.map { method, record in
            let figures = simulation.figures(of: record)
            return "\(method.name): \(summary(record)), \(figures.rejected) answered with an error, "
                + "\(figures.unanswered) without an answer."
        }
        return ([network] + runs).joined(separator: " ")
    }

    private func clipped(_ text: String, _ count: Int) -> String {
        let text = ForeignText(text).terminal
        return text.count > count ? "\(text.prefix(count - 1))…" : text
    }

    /// Returns a name for the margin, with the middle left out if it is long.
    private func shortName(_ name: String) -> String {
        let name = ForeignText(name).terminal
        return name.count > 11 ? "\(name.prefix(5))…\(name.suffix(5))" : name
    }
}

extension SimulationRecord.Attempt.Result.Kind {
    /// The name in the legend.
    fileprivate var name: String {
        switch self {
        case .succeeded: "succeeds"
        case .rejected: "error answer"
        case .unanswered: "no answer"
        case .running: "still runs"
        }
    }

    /// The class of its elements.
    fileprivate var style: String {
        switch self {
        case .succeeded: "ok"
        case .rejected: "error"
        case .unanswered: "none"
        case .running: "run"
        }
    }

    /// Returns the path of its mark.
    fileprivate func path(_ x: Double, _ y: Double, _ radius: Double) -> String {
        switch self {
        case .succeeded, .running: PictureCanvas.circle(x, y, radius)
        case .rejected: PictureCanvas.diamond(x, y, radius * 0.9)
        case .unanswered: PictureCanvas.cross(x, y, radius * 0.85)
        }
    }
}

extension SimulationRecord.Wait.Cause {
    /// The name in the legend.
    fileprivate var name: String {
        switch self {
        case .network: "waits for the network"
        case .backoff: "backs off"
        case .serverDelay: "delay ordered by the server"
        case .turn: "waits for its turn"
        }
    }

    /// The class of its elements.
    fileprivate var style: String {
        switch self {
        case .network: "network"
        case .backoff: "backoff"
        case .serverDelay: "ordered"
        case .turn: "turn"
        }
    }
}

extension ScriptedServer.Behaviour {
    /// The name in the picture.
    fileprivate var name: String {
        switch self {
        case .answers(let status, _): "\(status)"
        case .refuses: "refuses"
        case .drops: "drops"
        case .unreachable: "unreachable"
        }
    }
}
