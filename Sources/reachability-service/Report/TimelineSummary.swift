import Reachability

/// A time without a path: the spans between two times that were not unsatisfied.
struct Outage: Hashable, Sendable {
    /// The outages that are flaps are shorter than this.
    static let flapLimit = Duration.seconds(30)
    /// The number of reasons that an outage keeps.
    static let reasonLimit = 8

    var start: Duration
    var end: Duration
    /// The reasons in their order, each once.
    var reasons: [String?]
    /// The interface that was lost.
    var interface: String?
    /// The cause of the beginning in words, and its kind.
    var cause: String?
    var causeKind: String?
    /// False if the time before is unknown: the outage may have begun earlier.
    var isStartKnown: Bool
    /// False if the time after it is unknown, or if it had not ended at the end of the period.
    var isEndKnown: Bool

    var duration: Duration { end - start }

    /// True for a short outage whose whole length is known.
    var isFlap: Bool { duration < Self.flapLimit && isStartKnown && isEndKnown }
}

/// The history of one scope in a period.
struct TimelineSummary: Sendable {
    let scope: String
    let from: Duration
    let until: Duration
    /// The states: each span begins at the end of the one before; the first at ``from``, the last ends at ``until``.
    let spans: [Timeline.Span]
    /// The outages that are not flaps, in their order.
    let outages: [Outage]
    /// The flaps, in their order.
    let flaps: [Outage]
    /// The losses that ended before they were published.
    let reestablished: Int
    /// The number of times that the wall clock was set during a boot.
    let clockSteps: Int
    /// The sums of all spans, merged ones included.
    let sums: SpanSums
    /// The number of outages and flaps that only the sums have.
    let unlisted: Int

    /// - Parameter regained: The time at which the path came back with the last entry, if it did.
    init(
        scope: String, from: Duration, until: Duration, spans: [Timeline.Span], merged: SpanSums = SpanSums(),
        reestablished: Int = 0, clockSteps: Int = 0, regained: Duration? = nil
    ) {
        (self.scope, self.from, self.until, self.spans) = (scope, from, until, spans)
        (self.reestablished, self.clockSteps) = (reestablished, clockSteps)
        var sums = merged
        let all = Self.outages(of: spans, regained: regained)
        for span in spans { sums.add(span.duration, of: span) }
        for outage in all { sums.count(outage) }
        self.sums = sums
        outages = all.filter { !$0.isFlap }
        flaps = all.filter(\.isFlap)
        unlisted = merged.outages + merged.flaps
    }

    /// The time of which the state is known.
    var knownTime: Duration { sums.online + sums.offline }

    /// The share of the known time that was online; `nil` if nothing is known.
    var availability: Double? { knownTime > .zero ? sums.online / knownTime : nil }

    /// The longest outage.
    var longest: Outage? { (outages + flaps).max { ($0.duration, $1.start) < ($1.duration, $0.start) } }

    private static func outages(of spans: [Timeline.Span], regained: Duration?) -> [Outage] {
        var outages: [Outage] = []
        var isOpen = false
        for (index, span) in spans.enumerated() {
            defer { isOpen = span.status == .unsatisfied }
            guard span.status == .unsatisfied else { continue }
            let isEndKnown = span.end == regained || (index + 1 < spans.count && spans[index + 1].status == .satisfied)
            if isOpen {
                outages[outages.count - 1].end = span.end
                outages[outages.count - 1].isEndKnown = isEndKnown
                let reasons = outages[outages.count - 1].reasons
                if reasons.count < Outage.reasonLimit, !reasons.contains(span.reason) {
                    outages[outages.count - 1].reasons.append(span.reason)
                }
            } else {
                let before = index > 0 ? spans[index - 1] : nil
                outages.append(
                    Outage(
                        start: span.start, end: span.end, reasons: [span.reason], interface: span.interface ?? before?.interface,
                        cause: span.cause, causeKind: span.causeKind, isStartKnown: before?.status == .satisfied,
                        isEndKnown: isEndKnown))
            }
        }
        return outages
    }
}

/// Sums over spans.
struct SpanSums: Hashable, Sendable {
    /// The sums of a reason.
    struct Reason: Hashable, Sendable {
        var outages = 0
        var offline = Duration.zero
    }

    /// The sums of an interface.
    struct Interface: Hashable, Sendable {
        var online = Duration.zero
        var outages = 0
        var offline = Duration.zero
    }

    /// The number of reasons or interfaces that have sums of their own.
    static let nameLimit = 64
    /// The name of the further ones.
    static let otherName = "other"

    private(set) var online = Duration.zero
    private(set) var offline = Duration.zero
    private(set) var unknown = Duration.zero
    private(set) var outages = 0
    private(set) var flaps = 0
    /// The sums by reason; flaps are among the outages.
    private var reasons: [String?: Reason] = [:]
    /// The sums by interface: of the time online by the outgoing one, of the time offline by the lost one.
    private var interfaces: [String?: Interface] = [:]

    /// Adds a part of a span; ``count(_:)`` adds the time offline to the sums of interfaces.
    mutating func add(_ duration: Duration, of span: Timeline.Span) {
        switch span.status {
        case .satisfied:
            online += duration
            interfaces[Self.key(span.interface, in: interfaces), default: Interface()].online += duration
        case .unsatisfied:
            offline += duration
            reasons[Self.key(span.reason, in: reasons), default: Reason()].offline += duration
        case .unknown: unknown += duration
        }
    }

    /// Counts an outage.
    mutating func count(_ outage: Outage) {
        if outage.isFlap { flaps += 1 } else { outages += 1 }
        for reason in outage.reasons { reasons[Self.key(reason, in: reasons), default: Reason()].outages += 1 }
        let interface = Self.key(outage.interface, in: interfaces)
        interfaces[interface, default: Interface()].outages += 1
        interfaces[interface, default: Interface()].offline += outage.duration
    }

    /// The sums by reason, the longest time first.
    var byReason: [(name: String?, sum: Reason)] {
        reasons.sorted { ($1.value.offline, $0.key ?? "") < ($0.value.offline, $1.key ?? "") }.map { ($0.key, $0.value) }
    }

    /// The sums by interface, the longest time online first.
    var byInterface: [(name: String?, sum: Interface)] {
        interfaces.sorted { ($1.value.online, $0.key ?? "") < ($0.value.online, $1.key ?? "") }.map { ($0.key, $0.value) }
    }

    private static func key(_ name: String?, in sums: [String?: some Any]) -> String? {
        sums[name] != nil || sums.count < nameLimit ? name : otherName
    }

    /// Merges the shortest spans into those before them, and keeps the difference.
    ///
    /// At first changes of reason or interface, and outages and gaps between two times online.
    ///
    /// - Parameters:
    ///   - spans: Spans that touch each other.
    ///   - count: The number of spans to leave.
    ///   - counted: Returns the part of a span that counts.
    mutating func merge(
        _ spans: inout [Timeline.Span], to count: Int, counting counted: (Timeline.Span) -> Timeline.Span?
    ) {
        var candidates: [(rank: Int, index: Int, gain: Int)] = []
        for index in 1..<max(spans.count - 1, 1) {
            let (before, span, after) = (spans[index - 1], spans[index], spans[index + 1])
            let isInterruption = span.status != .satisfied && before.status == .satisfied && after.status == .satisfied
            candidates.append(
                (isInterruption || span.status == before.status ? 0 : 1, index, before.isSameState(as: after) ? 2 : 1))
        }
        candidates.sort { ($0.rank, spans[$0.index].duration) < ($1.rank, spans[$1.index].duration) }
        var excess = spans.count - count
        var merged: Set<Int> = []
        for candidate in candidates where excess > 0 {
            merged.insert(candidate.index)
            excess -= candidate.gain
        }
        var kept: [Timeline.Span] = []
        kept.reserveCapacity(count + 1)
        for (index, span) in spans.enumerated() {
            guard merged.contains(index), let last = kept.last else {
                Timeline.append(span, to: &kept)
                continue
            }
            kept[kept.count - 1].end = span.end
            guard let part = counted(span) else { continue }
            add(part.duration, of: span)
            add(.zero - part.duration, of: last)
            guard span.status == .unsatisfied, last.status != .unsatisfied else { continue }
            self.count(
                Outage(
                    start: span.start, end: span.end, reasons: [span.reason], interface: span.interface ?? last.interface,
                    isStartKnown: true, isEndKnown: true))
        }
        spans = kept
    }
}
