import CommandKit
import Reachability

extension JSONValue {
    /// Returns the line of `report` for one scope, with the keys of docs/json.md.
    static func report(_ summary: TimelineSummary) -> JSONValue {
        let sums = summary.sums
        return .object([
            Member("scope", .string(summary.scope)), Member("from", time(summary.from)), Member("until", time(summary.until)),
            Member("availability", summary.availability.map(JSONValue.double) ?? .null), Member("online", .seconds(sums.online)),
            Member("offline", .seconds(sums.offline)), Member("unknown", .seconds(sums.unknown)),
            Member("outageCount", .integer(sums.outages)), Member("flapCount", .integer(sums.flaps)),
            Member("reestablished", .integer(summary.reestablished)), Member("longest", summary.longest.map(outage) ?? .null),
            Member("reasons", .array(sums.byReason.map(reason))), Member("interfaces", .array(sums.byInterface.map(interface))),
            Member("outages", .array(summary.outages.map(outage))), Member("flaps", .array(summary.flaps.map(outage))),
            Member("unlisted", .integer(summary.unlisted)),
            Member("gaps", .array(summary.spans.filter { $0.status == .unknown }.map { .object(times($0.start, $0.end)) })),
        ])
    }

    private static func outage(_ outage: Outage) -> JSONValue {
        var members = times(outage.start, outage.end)
        members += [
            Member("startKnown", .bool(outage.isStartKnown)), Member("endKnown", .bool(outage.isEndKnown)),
            Member("reasons", .array(outage.reasons.map(JSONValue.optional))), Member("interface", .optional(outage.interface)),
        ]
        if let cause = outage.cause, let kind = outage.causeKind {
            members.append(Member("cause", .object([Member("kind", .string(kind)), Member("detail", .string(cause))])))
        }
        return .object(members)
    }

    private static func times(_ start: Duration, _ end: Duration) -> [Member] {
        [Member("start", time(start)), Member("end", time(end)), Member("duration", .seconds(end - start))]
    }

    private static func time(_ time: Duration) -> JSONValue { .string(CalendarTime(time).rfc3339) }

    private static func reason(_ name: String?, _ sum: SpanSums.Reason) -> JSONValue {
        .object([
            Member("reason", .optional(name)), Member("outages", .integer(sum.outages)), Member("offline", .seconds(sum.offline)),
        ])
    }

    private static func interface(_ name: String?, _ sum: SpanSums.Interface) -> JSONValue {
        .object([
            Member("interface", .optional(name)), Member("online", .seconds(sum.online)),
            Member("outages", .integer(sum.outages)), Member("offline", .seconds(sum.offline)),
        ])
    }
}
