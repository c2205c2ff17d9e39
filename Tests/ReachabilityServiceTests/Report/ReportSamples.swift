import CommandKit
import Reachability

@testable import reachability_service

/// Observations and lines for the tests of reports.
enum ReportSamples {
    /// The time 2026-01-31T10:00:00Z.
    static let morning = Duration.seconds(1_769_853_600)
    /// The wall time at which the machine of the samples booted.
    static let boot = morning - .seconds(1000)

    static let words = ReportWords { _ in 0 }

    /// Returns an observation at a number of seconds after the morning.
    ///
    /// - Parameters:
    ///   - step: The seconds by which the wall clock is ahead of the true time.
    ///   - boot: The seconds from the morning to the boot.
    static func observation(
        _ kind: Observation.Kind, _ second: Int, _ status: NetworkPath.Status = .satisfied, _ reason: String? = nil,
        interface: String? = "eth0", sequence: UInt64? = nil, isContinued: Bool = false, step: Int = 0, boot: Int = -1000,
        scope: String = "internet"
    ) -> Observation {
        let hasState = kind == .baseline || kind == .transition
        var observation = Observation(
            kind: kind, time: morning + .seconds(second + step), sinceBoot: .seconds(second - boot), scope: hasState ? scope : "",
            status: hasState ? status : .unknown, reason: reason, interface: hasState ? interface : nil, kinds: [])
        observation.sequence = sequence
        observation.isContinued = isContinued
        if kind == .transition { (observation.causeKind, observation.causeDetail) = ("linkDown", "eth0 lost carrier") }
        return observation
    }

    static func online(_ second: Int, _ kind: Observation.Kind = .transition) -> Observation { observation(kind, second) }

    static func offline(_ second: Int, _ kind: Observation.Kind = .transition, _ reason: String = "noCarrier") -> Observation {
        observation(kind, second, .unsatisfied, reason)
    }

    static func alive(_ second: Int) -> Observation { observation(.alive, second) }

    static func end(_ second: Int) -> Observation { observation(.end, second) }

    /// Returns the history of the internet that observations make.
    static func summary(_ observations: [Observation], from: Int? = nil, until: Int? = nil) -> TimelineSummary {
        var timeline = Timeline(
            scope: "internet", from: from.map { morning + .seconds($0) }, until: until.map { morning + .seconds($0) })
        for observation in observations { timeline.add(observation) }
        return timeline.finish(at: timeline.extent?.end ?? morning)
    }

    /// Returns spans in short: `+10 -5 ?20` are 10 s online, 5 s offline and 20 s unknown.
    static func short(_ summary: TimelineSummary) -> String {
        let signs: [NetworkPath.Status: String] = [.satisfied: "+", .unsatisfied: "-", .unknown: "?"]
        return summary.spans.map { "\(signs[$0.status] ?? "")\($0.duration.components.seconds)" }.joined(separator: " ")
    }

    /// Returns a line of `watch --format json` without the keys that reports do not read.
    static func line(
        _ event: String, _ time: Duration, at: Duration? = nil, scope: String = "internet", status: String = "satisfied",
        reason: String? = nil, interface: String? = "eth0", cause: String? = nil, sequence: UInt64 = 0, isContinued: Bool = false
    ) -> String {
        var members: [JSONValue.Member] = [
            .init("event", .string(event)), .init("time", .string(CalendarTime(time).rfc3339)),
            .init("at", .seconds(at ?? time - boot)),
        ]
        if event == "baseline" || event == "transition" {
            members += [
                .init("sequence", .integer(sequence)), .init("scope", .string(scope)), .init("kinds", .array([])),
                .init(
                    "path",
                    .object([
                        .init("status", .string(status)), .init("reason", .optional(reason)),
                        .init("interface", .optional(interface)),
                    ])),
            ]
            if let cause {
                members.append(.init("cause", .object([.init("kind", .string("linkDown")), .init("detail", .string(cause))])))
            }
            if isContinued { members.append(.init("continued", .bool(true))) }
        }
        return "\(JSONValue.object(members))"
    }
}
