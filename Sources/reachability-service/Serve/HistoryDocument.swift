import CommandKit
import Reachability

/// The answer to `/history`: the spans of each scope.
///
/// Pure.
struct HistoryDocument {
    /// The number of spans of a scope; the newest are kept.
    static let maxSpans = 2000

    var start: Duration
    var end: Duration
    var timelines: [TimelineSummary]

    /// The document, with the keys of docs/json.md.
    var json: JSONValue {
        .object([
            .init("from", .wallTime(start)), .init("until", .wallTime(end)),
            .init("hours", .integer(end.saturatingSubtract(start).components.seconds / 3600)),
            .init("scopes", .array(timelines.map(Self.scope))),
        ])
    }

    private static func scope(_ timeline: TimelineSummary) -> JSONValue {
        .object([
            .init("scope", .string(timeline.scope)),
            .init("availability", timeline.availability.map(JSONValue.double) ?? .null),
            .init("online", .seconds(timeline.sums.online)), .init("offline", .seconds(timeline.sums.offline)),
            .init("unknown", .seconds(timeline.sums.unknown)),
            .init("outages", .integer(timeline.sums.outages)), .init("flaps", .integer(timeline.sums.flaps)),
            .init("reestablished", .integer(timeline.reestablished)),
            .init("truncated", .bool(timeline.spans.count > maxSpans)),
            .init("spans", .array(timeline.spans.suffix(maxSpans).map(span))),
        ])
    }

    private static func span(_ span: Timeline.Span) -> JSONValue {
        .object([
            .init("status", .string(span.status.rawValue)),
            .init("start", .wallTime(span.start)), .init("end", .wallTime(span.end)), .init("reason", .optional(span.reason)),
            .init("interface", .optional(span.interface)),
            .init("cause", .optional(span.cause)),
        ])
    }
}
