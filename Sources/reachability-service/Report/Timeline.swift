import Reachability

/// The history of one scope as spans of one state each, made from observations in their order.
///
/// A state is known from an observation of it to the last sign of life of its watch; all other time is unknown. Within a boot
/// lengths are those of the boot clock, whatever the wall clock was set to meanwhile, and the wall clock at the end of the boot
/// dates its spans. Without a boot clock the wall clock counts, and does not run backwards.
///
/// Memory is bounded by ``spanLimit``: beyond it the shortest spans join their neighbours, and only the sums have them.
struct Timeline: Sendable {
    /// A time in one state.
    struct Span: Hashable, Sendable {
        var status: NetworkPath.Status
        /// The beginning, since 1970-01-01T00:00:00Z.
        var start: Duration
        var end: Duration
        /// The name of the reason of an unsatisfied span.
        var reason: String?
        /// The outgoing interface of a satisfied span; the lost one of an unsatisfied span.
        var interface: String?
        /// The cause in words, and its kind.
        var cause: String?
        var causeKind: String?

        var duration: Duration { end - start }
    }

    /// The number of spans at which the shortest are merged, until half of them are left.
    static let spanLimit = 20_000
    /// The longest silence of a watch with heartbeats: two of them.
    static let longestSilence = Duration.seconds(600)
    /// The difference of clocks that is no step: the two times of an entry are not read at one moment.
    fileprivate static let tolerance = Duration.seconds(2)
    /// The number of remembered beginnings of watches.
    private static let startLimit = 4096

    let scope: String
    /// The beginning of the period; `nil` for that of the first observation.
    let from: Duration?
    /// The end of the period; `nil` for that of the last observation.
    let until: Duration?

    /// The spans of earlier boots, as far as they are in the period, and the time from the first to the last boot.
    private var dated: [Span] = []
    private var datedExtent: (start: Duration, end: Duration)?
    private var boot: Boot?
    private var merged = SpanSums()
    private var reestablished = 0
    private var clockSteps = 0
    private var hasHeartbeats = false
    /// The beginnings of watches, to notice entries that come twice.
    private var starts: Set<Start> = []
    private var isRepeating = false

    /// Creates an empty history of a period.
    init(scope: String, from: Duration? = nil, until: Duration? = nil) {
        (self.scope, self.from, self.until) = (scope, from, until)
    }

    /// Adds an observation.
    ///
    /// Observations that come twice, and those older than the last one of the same boot, are ignored.
    mutating func add(_ observation: Observation) {
        guard !isRepetition(observation), let place = place(of: observation) else { return }
        if observation.kind == .alive { hasHeartbeats = true }
        switch place {
        case .anotherBoot(let at):
            closeBoot()
            boot = Boot(observation, at: at)
        case .thisBoot(let at, let isStep):
            if isStep { clockSteps += 1 }
            boot?.add(observation, at: at, isBeating: hasHeartbeats)
        }
        let isInPeriod = from.map { observation.time >= $0 } ?? true && until.map { observation.time <= $0 } ?? true
        if isInPeriod { reestablished += observation.shortLosses }
        limitMemory()
    }

    /// Prolongs the last state to an entry of another scope, which shows that the watch was alive.
    mutating func extend(to observation: Observation) {
        guard !isRepeating, boot != nil, case .thisBoot(let at, _) = place(of: observation) else { return }
        boot?.extend(to: at, isBeating: hasHeartbeats)
    }

    /// Returns the history of the period.
    ///
    /// - Parameters:
    ///   - start: The beginning of a period that has none; `nil` for the first observation.
    ///   - end: The end of a period that has none.
    func finish(from start: Duration? = nil, at end: Duration) -> TimelineSummary {
        // A path that came back with the last entry ends an outage, though it has no length yet.
        let isBack = boot?.spans.last.map { $0.status == .satisfied && $0.duration == .zero } ?? false
        var copy = self
        copy.closeBoot()
        let from = from ?? start ?? copy.datedExtent?.start ?? end
        let until = max(from, until ?? end)
        var spans: [Span] = []
        for span in copy.dated {
            guard let part = span.clipped(from, until) else { continue }
            // The spans touch each other, but the first one need not touch the beginning.
            if spans.isEmpty, part.start > from { spans.append(Span(status: .unknown, start: from, end: part.start)) }
            Self.append(part, to: &spans)
        }
        let last = spans.last?.end ?? from
        if last < until { Self.append(Span(status: .unknown, start: last, end: until), to: &spans) }
        return TimelineSummary(
            scope: scope, from: from, until: until, spans: spans, merged: copy.merged, reestablished: reestablished,
            clockSteps: clockSteps, regained: isBack ? copy.datedExtent?.end : nil)
    }

    /// The time from the first to the last observation; `nil` before the first.
    var extent: (start: Duration, end: Duration)? {
        var copy = self
        copy.closeBoot()
        return copy.datedExtent
    }
}

extension Timeline {
    /// The beginning of a watch.
    private struct Start: Hashable {
        var time: Duration
        var sinceBoot: Duration?
    }

    /// The boot of an observation, and its time on the boot's clock.
    private enum Place {
        case thisBoot(Duration, isStep: Bool)
        case anotherBoot(Duration)
    }

    /// Returns true for entries that were added before: a file is given twice, or two files overlap.
    private mutating func isRepetition(_ observation: Observation) -> Bool {
        if observation.beginsWatch {
            if starts.count >= Self.startLimit { starts.removeAll() }
            isRepeating = !starts.insert(Start(time: observation.time, sinceBoot: observation.sinceBoot)).inserted
        } else if isRepeating, let boot, let at = observation.sinceBoot {
            isRepeating = at <= boot.position || boot.isStep(observation.time - at)
        }
        return isRepeating
    }

    /// Returns the place of an observation; `nil` for one to ignore.
    private func place(of observation: Observation) -> Place? {
        guard let boot else { return observation.hasState ? .anotherBoot(observation.sinceBoot ?? observation.time) : nil }
        guard let at = observation.sinceBoot else {
            return .thisBoot(max(observation.time - boot.offset, boot.position), isStep: false)
        }
        let isStep = boot.isStep(observation.time - at)
        // Entries of several scopes are not quite in order.
        if !isStep, at >= boot.position - Self.tolerance { return .thisBoot(max(at, boot.position), isStep: false) }
        // A watch lives in one boot. Another watch is of the same one if that began before the last entry.
        let beganLater = observation.time - at >= boot.lastTime
        if isStep, at >= boot.position, !observation.beginsWatch || !beganLater { return .thisBoot(at, isStep: true) }
        // Without a battery each boot begins at the same time.
        if observation.beginsWatch || (observation.hasState && beganLater) { return .anotherBoot(at) }
        return nil
    }

    /// Dates the spans of the boot, after those of the boots before.
    private mutating func closeBoot() {
        guard let ended = boot, let first = ended.spans.first else { return }
        boot = nil
        var offset = ended.offset
        if let end = datedExtent?.end {
            // If a clock was wrong, boots follow each other nevertheless.
            offset = max(offset, end - first.start)
            date(Span(status: .unknown, start: end, end: first.start + offset))
        }
        for span in ended.spans { date(span.moved(by: offset)) }
        datedExtent = (datedExtent?.start ?? first.start + offset, ended.position + offset)
    }

    private mutating func date(_ span: Span) {
        if let part = span.clipped(from ?? span.start, until ?? span.end) { Self.append(part, to: &dated) }
    }

    /// Appends a span, or prolongs the last one if that has the same state.
    static func append(_ span: Span, to spans: inout [Span]) {
        // A state that was replaced at once.
        if let last = spans.last, last.duration == .zero { spans.removeLast() }
        if let last = spans.last, last.isSameState(as: span) {
            spans[spans.count - 1].end = span.end
        } else {
            spans.append(span)
        }
    }

    private mutating func limitMemory() {
        if dated.count > Self.spanLimit { merged.merge(&dated, to: Self.spanLimit / 2) { $0 } }
        guard var long = boot, long.spans.count > Self.spanLimit else { return }
        // The array has one owner and is not copied.
        boot = nil
        merged.merge(&long.spans, to: Self.spanLimit / 2) { [offset = long.offset, from, until] span in
            let span = span.moved(by: offset)
            return span.clipped(from ?? span.start, until ?? span.end)
        }
        boot = long
    }
}

extension Timeline.Span {
    /// Makes a span that only begins.
    fileprivate init(_ observation: Observation, at time: Duration) {
        self.init(
            status: observation.status, start: time, end: time,
            reason: observation.status == .unsatisfied ? observation.reason : nil,
            interface: observation.status == .unknown ? nil : observation.interface, cause: observation.causeDetail,
            causeKind: observation.causeKind)
    }

    /// Returns true if both have the same state, so that they are one span if they touch.
    func isSameState(as other: Self) -> Bool {
        guard status == other.status else { return false }
        return switch status {
        case .satisfied: interface == other.interface
        case .unsatisfied: reason == other.reason
        case .unknown: true
        }
    }

    /// Returns the part within a period; `nil` if there is none.
    fileprivate func clipped(_ from: Duration, _ until: Duration) -> Self? {
        var span = self
        span.start = max(start, from)
        span.end = min(end, until)
        return span.start < span.end ? span : nil
    }

    fileprivate func moved(by offset: Duration) -> Self {
        var span = self
        span.start += offset
        span.end += offset
        return span
    }
}

/// The entries of one boot, on the boot's clock.
private struct Boot {
    /// The wall time of the beginning of the boot, by the last entry.
    private(set) var offset: Duration
    /// The wall time of the last entry.
    private(set) var lastTime: Duration
    /// The time of the last sign of life.
    private(set) var position: Duration
    var spans: [Timeline.Span]
    private var sequence: UInt64?

    init(_ observation: Observation, at: Duration) {
        offset = observation.time - at
        lastTime = observation.time
        position = at
        spans = [Timeline.Span(observation, at: at)]
        sequence = observation.sequence
    }

    /// Returns true if the wall clock was set since the last entry.
    func isStep(_ offset: Duration) -> Bool {
        max(offset, self.offset) - min(offset, self.offset) > Timeline.tolerance
    }

    mutating func add(_ observation: Observation, at: Duration, isBeating: Bool) {
        extend(to: at, isLost: isMissing(before: observation), isBeating: isBeating)
        if let sinceBoot = observation.sinceBoot { offset = observation.time - sinceBoot }
        lastTime = observation.time
        switch observation.kind {
        case .alive: break
        case .end: Timeline.append(Timeline.Span(status: .unknown, start: at, end: at), to: &spans)
        case .baseline, .transition:
            Timeline.append(Timeline.Span(observation, at: at), to: &spans)
            sequence = observation.sequence
        }
    }

    /// Prolongs the last state, or makes the time since the last sign of life unknown.
    mutating func extend(to at: Duration, isLost: Bool = false, isBeating: Bool) {
        guard at > position, let last = spans.last else { return }
        if last.status != .unknown, isLost || (isBeating && at - position > Timeline.longestSilence) {
            Timeline.append(Timeline.Span(status: .unknown, start: position, end: at), to: &spans)
            var resumed = last
            (resumed.start, resumed.end) = (at, at)
            Timeline.append(resumed, to: &spans)
        } else {
            spans[spans.count - 1].end = at
        }
        position = at
    }

    /// Returns true if the state before an entry is not that of the last one.
    private func isMissing(before observation: Observation) -> Bool {
        if observation.beginsWatch { return true }
        guard observation.hasState, let sequence, let next = observation.sequence else { return false }
        return next != (observation.kind == .transition ? sequence &+ 1 : sequence)
    }
}
