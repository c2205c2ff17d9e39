import CommandKit
import Reachability
import ReachableRetry

/// The report of a simulation as text.
struct SimulationText {
    /// The number of attempts of each run that are listed.
    static let listedAttempts = 100

    let simulation: Simulation
    var style = TextStyle()

    /// The lines, without their ends.
    var lines: [String] {
        let jobs = simulation.scenario.jobs.count
        var lines = [
            style.strong(ForeignText(simulation.title).terminal),
            "\(jobs) \(jobs == 1 ? "job" : "jobs"), seed \(simulation.seed), ends at \(instantText(simulation.end))", "",
            style.strong("network"),
        ]
        lines += simulation.bus.paths.map { change in
            let action = change.action.map { "  (\(ForeignText($0.description).terminal))" } ?? ""
            return "  \(padded(instantText(change.at), 10))  \(style.label(change.path.status))  "
                + ForeignText(change.path.summary).terminal + action
        }
        for (method, record) in simulation.runs { lines += attempts(method, record) }
        return lines + summary
    }

    // MARK: - Attempts

    private func attempts(_ method: SimulatedRun.Method, _ record: SimulationRecord) -> [String] {
        var rows = [["starts", "job", "attempt", "trigger", "took", "result", "charged"]]
        for attempt in record.attempts.prefix(Self.listedAttempts) {
            rows.append([
                instantText(attempt.start), clipped(simulation.scenario.jobs[attempt.job].name), "\(attempt.number)",
                attempt.trigger.name, durationText(attempt.end - attempt.start), attempt.result.description,
                attempt.isCharged.map { $0 ? "yes" : "no" } ?? "",
            ])
        }
        var lines = ["", style.strong(method.name.lowercased())]
        lines += record.attempts.isEmpty ? ["  no attempt"] : table(rows, right: [0, 2, 4])
        let unlisted = record.attempts.count - Self.listedAttempts
        if unlisted > 0 { lines.append("  … and \(unlisted) more attempts; next: --format json lists all of them") }
        return lines + ends(record)
    }

    /// Returns the jobs that did not succeed.
    private func ends(_ record: SimulationRecord) -> [String] {
        var ends: [String] = []
        for (index, job) in record.jobs.enumerated() {
            let name = clipped(simulation.scenario.jobs[index].name)
            switch job?.outcome {
            case .succeeded?: continue
            case .gaveUp(let reason)?: ends.append("  \(name) gave up at \(instantText(job?.end ?? .zero)): \(words(reason))")
            case .unfinished?: ends.append("  \(name) has not ended")
            case nil: ends.append("  \(name) was not submitted")
            }
        }
        let most = 20
        return ends.count > most ? ends.prefix(most) + ["  … and \(ends.count - most) more jobs did not succeed"] : ends
    }

    private func words(_ reason: GiveUp.Reason) -> String {
        switch reason {
        case .permanent: "another attempt would fail the same way"
        case .attempts: "no more attempts are allowed"
        case .deadline: "its deadline passed"
        default: reason.rawValue
        }
    }

    // MARK: - Summary

    private var summary: [String] {
        let figures = simulation.runs.map { simulation.figures(of: $0.record) }
        func row(_ title: String, _ value: (SimulationFigures) -> String) -> [String] { [title] + figures.map(value) }
        var rows = [["", "retry bus", "plain backoff"]]
        rows.append(row("jobs that succeeded") { "\($0.succeeded) of \($0.jobs)" })
        rows.append(row("jobs that gave up") { "\($0.gaveUp)" })
        rows.append(row("last success") { $0.lastSuccess.map(instantText) ?? "–" })
        rows.append(row("attempts") { "\($0.attempts)" })
        rows.append(row("  answered with an error") { "\($0.rejected)" })
        rows.append(row("  without an answer") { "\($0.unanswered)" })
        rows.append(row("  started offline") { "\($0.startedOffline)" })
        rows.append(row("  charged") { "\($0.charged)" })
        rows.append(row("most starts within 1s") { "\($0.peak)" })
        for (index, reconnect) in (figures.first?.reconnects ?? []).enumerated() {
            rows.append(["after the reconnect at \(instantText(reconnect.at))", "", ""])
            rows.append(row("  jobs that had not ended") { "\($0.reconnects[index].pending)" })
            rows.append(row("  first attempt") { delayText($0.reconnects[index].firstStart) })
            rows.append(row("  first success") { delayText($0.reconnects[index].firstSuccess) })
            rows.append(row("  last success") { delayText($0.reconnects[index].lastSuccess) })
            rows.append(row("  attempts without an answer") { "\($0.reconnects[index].unanswered)" })
        }
        let unlisted = simulation.bus.reconnects.count - SimulationFigures.mostReconnects
        let more = unlisted > 0 ? ["  … and \(unlisted) more reconnects"] : []
        return ["", style.strong("summary")] + table(rows, right: [1, 2]) + more
    }

    private func delayText(_ delay: Duration?) -> String { delay.map { "+\(durationText($0))" } ?? "–" }

    // MARK: - Tables

    private func table(_ rows: [[String]], right: Set<Int>) -> [String] {
        let widths = (rows.first ?? []).indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            let cells = row.indices.map { right.contains($0) ? padded(row[$0], widths[$0]) : filled(row[$0], widths[$0]) }
            var line = "  " + cells.joined(separator: "  ")
            while line.hasSuffix(" ") { line.removeLast() }
            return line
        }
    }

    private func padded(_ text: String, _ width: Int) -> String { String(repeating: " ", count: max(0, width - text.count)) + text }

    private func filled(_ text: String, _ width: Int) -> String { text + String(repeating: " ", count: max(0, width - text.count)) }

    private func clipped(_ name: String) -> String {
        let name = ForeignText(name).terminal
        return name.count > 24 ? "\(name.prefix(23))…" : name
    }
}

/// Returns a time of a simulation: seconds with milliseconds, so that starts of one moment can be told apart.
func instantText(_ time: Duration) -> String {
    let milliseconds = Int64(clamping: max(time, .zero).attoseconds / 1_000_000_000_000_000)
    return "\(milliseconds / 1000).\(zeroPadded(milliseconds % 1000, 3))s"
}

extension SimulationRecord.Trigger {
    /// The name for people.
    var name: String {
        switch self {
        case .first: "first"
        case .backoff: "backoff"
        case .serverDelay: "server delay"
        case .reconnect: "reconnect"
        case .retryNow: "retry now"
        }
    }
}

extension SimulationRecord.Attempt.Result: CustomStringConvertible {
    /// The result in words.
    var description: String {
        switch self {
        case .running: "still runs at the end"
        case .succeeded: "succeeded"
        case .failed(.answered(let status, let delay)):
            delay.map { "answered \(status), retry after \(durationText($0))" } ?? "answered \(status)"
        case .failed(.refused): "refused (ECONNREFUSED)"
        case .failed(.noRoute): "no route (ENETUNREACH)"
        case .failed(.unreachable): "unreachable (ENETUNREACH)"
        case .failed(.connectTimedOut): "no answer (ETIMEDOUT)"
        case .failed(.connectionLost): "connection lost (ETIMEDOUT)"
        case .timedOut: "cut by --attempt-timeout"
        case .cut: "cut by --deadline"
        }
    }
}
