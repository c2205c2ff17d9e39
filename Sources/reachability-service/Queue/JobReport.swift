import CommandKit
import FoundationEssentials
import Reachability
import ReachableJobs
import ReachableRetry

/// A job as `queue list` and `queue show` write it.
struct JobReport {
    let pending: PendingDurableJob
    /// The job with its payload.
    let job: DurableJob
    /// The worker that runs it; `nil` unless one does.
    var worker: WorkerReport?

    /// The name of the state; a job that cannot run now waits.
    var state: String { Self.name(of: job.state) }

    /// The name of a state for people.
    static func name(of state: DurableJob.State) -> String { state == .available ? "waiting" : state.rawValue }

    /// The exit code of the last attempt that ended, as far as there was one.
    var exitCode: Int32? { job.state == .succeeded ? 0 : job.lastError.flatMap(ChildFailure.code(of:)) }

    /// The object of JSON, with the keys of docs/json.md.
    var json: JSONValue {
        let command = job.command
        var members: [JSONValue.Member] = [
            .init("id", .string("\(job.id)")), .init("state", .string(job.state.rawValue)), .init("kind", .string(job.kind)),
            .init("name", .optional(job.uniqueKey)), .init("serial", .optional(job.serialKey)),
            .init("priority", .string("\(job.priority)")),
            .init("command", command.map { .array($0.words.map { .string($0.text) }) } ?? .null),
            .init("created", .string(Self.time(job.created))), .init("finished", .optional(job.finished.map(Self.time))),
            .init("attempts", .integer(job.counters.started)), .init("charged", .integer(job.counters.charged)),
            .init("notBefore", .optional(wallTime(of: job.notBefore))), .init("deadline", .optional(wallTime(of: job.deadline))),
            .init("waitingFor", .array(pending.waitingFor.map(JSONValue.string))),
            .init("lastError", .optional(job.lastError)), .init("exitCode", exitCode.map { .integer($0) } ?? .null),
            .init("scope", .string(job.scope)), .init("startsIn", pending.startsIn.map { .seconds($0) } ?? .null),
            .init("directory", .optional(command?.directory.text)),
        ]
        // Texts are lossless unless an argument is not UTF-8.
        if let command, command.words.contains(where: { $0.utf8 == nil }) {
            members.append(
                .init("commandBytes", .array(command.words.map { .string(Data($0.bytes).base64EncodedString()) })))
        }
        members.append(.init("worker", .optional(worker?.worker.host)))
        return .object(members)
    }

    /// The line of `queue list`, and below it why the job waits.
    func lines(idLength: Int, now: Date, _ style: TextStyle) -> [String] {
        let age = durationText(.seconds(max(0, now.timeIntervalSince(job.finished ?? job.created))))
        var parts = [style.strong(ShortID.text(job.id, idLength)), Self.padded(state, 9), Self.padded(age, 7)]
        if let name = job.uniqueKey { parts.append("[\(ForeignText(name).terminal)]") }
        parts.append(job.title)
        return [parts.joined(separator: "  ")] + reasons.map { "    \($0)" }
    }

    /// The lines of `queue show`.
    func details(_ style: TextStyle) -> [String] {
        var rows: [(String, String?)] = [
            ("id", "\(job.id)"), ("state", state), ("command", job.title),
            ("directory", job.command.map { $0.directory.terminal }),
            ("network", ForeignText(job.scope).terminal), ("name", job.uniqueKey.map { ForeignText($0).terminal }),
            ("serial", job.serialKey.map { ForeignText($0).terminal }),
            ("priority", job.priority == .normal ? nil : "\(job.priority)"),
            (
                "options",
                job.command.map { $0.options.joined(separator: " ") }.flatMap { $0.isEmpty ? nil : ForeignText($0).terminal }
            ),
            ("added", Self.plain(job.created)), ("ended", job.finished.map(Self.plain)),
            ("deadline", deadline), ("worker", worker?.place),
            ("attempts", "\(job.counters.started), of which \(job.counters.charged) count"),
        ]
        rows += reasons.map { (job.state.isFinal ? "result" : "why", $0) }
        let width = rows.map(\.0.count).max() ?? 0
        return rows.compactMap { name, value in value.map { style.strong(Self.padded(name, width)) + "  " + $0 } }
    }

    /// Why the job does not run, or how it failed.
    private var reasons: [String] {
        let failure = job.lastError.map { ForeignText($0).terminal }
        switch job.state {
        case .available, .running:
            return pending.waitingFor.map { ForeignText($0).terminal }
                + (job.state == .available ? failure.map { ["last failure: \($0)"] } ?? [] : [])
        case .failed: return ["gave up (\(job.failureReason ?? "unknown"))" + (failure.map { ": \($0)" } ?? "")]
        case .succeeded, .cancelled: return []
        }
    }

    private var deadline: String? {
        guard let left = job.deadline.map({ pending.now.duration(to: $0) }), !job.state.isFinal else { return nil }
        return left > .zero ? "in \(durationText(left))" : "passed"
    }

    private func wallTime(of instant: StoreInstant?) -> String? {
        instant.map { Self.time(Date().addingTimeInterval(Double(pending.now.duration(to: $0) / .milliseconds(1)) / 1000)) }
    }

    private static func sinceEpoch(_ date: Date) -> Duration { .seconds(date.timeIntervalSince1970) }

    private static func time(_ date: Date) -> String { CalendarTime(sinceEpoch(date)).rfc3339 }

    private static func plain(_ date: Date) -> String {
        let time = sinceEpoch(date)
        return CalendarTime(time, offset: localOffset(at: time)).plain
    }

    private static func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }
}

extension ChildFailure {
    /// Returns the exit code in the text of a failure, as `run` shows it; `nil` if it is of another kind.
    static func code(of text: String) -> Int32? {
        let words = text.split(separator: " ")
        if words.starts(with: ["exit", "code"]), words.count == 3 { return Int32(words[2]) }
        if words.starts(with: ["ended", "by", "signal"]), words.count > 3 { return Int32(words[3]).map { 128 + $0 } }
        return nil
    }
}
