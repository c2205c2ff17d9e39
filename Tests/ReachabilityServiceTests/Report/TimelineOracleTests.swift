import Reachability
import ReachabilityTesting
import Testing

@testable import reachability_service

/// Random histories against an oracle that paints each second.
struct TimelineOracleTests {
    @Test(arguments: 0..<400 as Range<UInt64>)
    func randomHistoriesFollowTheOracle(_ seed: UInt64) {
        var history = PaintedHistory(seed: seed)
        history.generate()
        var timeline = Timeline(scope: "internet")
        for observation in history.observations { timeline.add(observation) }
        guard let extent = timeline.extent else { return #expect(history.seconds.isEmpty) }
        let summary = timeline.finish(at: extent.end)
        check(summary)
        #expect(Self.painted(summary) == history.seconds, "seed \(seed)")
        let period = history.seconds.count
        let (from, until) = (extent.start + .seconds(period / 3), extent.start + .seconds(period * 2 / 3))
        guard from < until else { return }
        var part = Timeline(scope: "internet", from: from, until: until)
        for observation in history.observations { part.add(observation) }
        check(part.finish(at: .zero))
        #expect(Self.painted(part.finish(at: .zero)) == Array(history.seconds[period / 3..<period * 2 / 3]), "seed \(seed)")
    }

    @Test(arguments: 0..<400 as Range<UInt64>)
    func anyObservationsMakeAWholePeriod(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var timeline = Timeline(scope: "internet")
        for _ in 0..<50 {
            let kinds: [Observation.Kind] = [.baseline, .transition, .transition, .alive, .end]
            let statuses: [NetworkPath.Status] = [.satisfied, .unsatisfied, .unknown]
            var observation = ReportSamples.observation(
                kinds.randomElement(using: &generator) ?? .alive, Int.random(in: -2000...2000, using: &generator),
                statuses.randomElement(using: &generator) ?? .unknown, ["noRoute", nil].randomElement(using: &generator) ?? nil,
                sequence: UInt64.random(in: 0...3, using: &generator), isContinued: Bool.random(using: &generator),
                step: [0, 0, -500, 700].randomElement(using: &generator) ?? 0)
            if Int.random(in: 0..<4, using: &generator) == 0 { observation.sinceBoot = nil }
            if Int.random(in: 0..<4, using: &generator) == 0 { observation.sinceBoot? -= .seconds(900) }
            timeline.add(observation)
        }
        check(timeline.finish(at: timeline.extent?.end ?? .zero))
    }

    /// Checks that the spans fill the period without overlaps, and that the sums are theirs.
    private func check(_ summary: TimelineSummary) {
        var end = summary.from
        for span in summary.spans {
            #expect(span.start == end && span.end > span.start)
            end = span.end
        }
        #expect(end == summary.until)
        for (one, next) in zip(summary.spans, summary.spans.dropFirst()) { #expect(!one.isSameState(as: next)) }
        #expect(summary.knownTime + summary.sums.unknown == summary.until - summary.from)
        #expect((summary.outages + summary.flaps).reduce(.zero) { $0 + $1.duration } == summary.sums.offline)
        #expect(summary.sums.byReason.reduce(.zero) { $0 + $1.sum.offline } == summary.sums.offline)
        #expect(summary.sums.byInterface.reduce(.zero) { $0 + $1.sum.online } == summary.sums.online)
        #expect(summary.sums.byInterface.reduce(.zero) { $0 + $1.sum.offline } == summary.sums.offline)
    }

    private static func painted(_ summary: TimelineSummary) -> [String] {
        summary.spans.flatMap { span in
            let state = PaintedHistory.state(span.status, span.reason)
            return Array(repeating: state, count: Int(span.duration.components.seconds))
        }
    }
}

/// A machine that boots, watches and loses its network by chance, with the state of each second as the report should have it.
private struct PaintedHistory {
    private var generator: SeededGenerator
    private(set) var observations: [Observation] = []
    /// The states from the first observation to the last one.
    private(set) var seconds: [String] = []
    /// The true time of the next observation.
    private var now = 0
    private var boot = 0
    /// The seconds by which the wall clock is wrong.
    private var error = 0

    init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    static func state(_ status: NetworkPath.Status, _ reason: String?) -> String {
        status == .unsatisfied ? reason ?? "?" : status.rawValue
    }

    mutating func generate() {
        for number in 0..<random(1...4) {
            // The clock is wrong by less than the times between boots and from a boot to a watch: nothing else tells boots apart.
            let uptime = random(100...200)
            if number > 0 { paint("unknown", until: now + uptime + random(60...300)) }
            boot = now - uptime
            for watch in 0..<random(1...3) {
                if watch > 0 { paint("unknown", until: now + random(1...100)) }
                error = random(-40...40)
                self.watch()
            }
            // At the end of a boot the clock is right: it dates the whole boot.
            error = 0
            add(.alive)
        }
    }

    /// Adds a watch: its last observation is at the present time.
    private mutating func watch() {
        var status = NetworkPath.Status.unsatisfied
        var reason: String? = "noRoute"
        var sequence: UInt64 = 0
        add(.baseline, status, reason, sequence)
        for _ in 0..<random(0...20) {
            let next = now + random(1...200)
            switch random(0...9) {
            case 0: paint(Self.state(status, reason), until: next, add: .alive)
            case 1:
                paint(Self.state(status, reason), until: next)
                add(.baseline, status, reason, sequence, isContinued: true)
            case 2:
                // A transition that is missing in the file, and then another one.
                sequence += 2
                paint("unknown", until: next)
                (status, reason) = randomState()
                add(.transition, status, reason, sequence)
            case 3:
                // The machine sleeps; heartbeats were expected.
                paint("unknown", until: now + random(700...1000))
                add(.alive)
            default:
                sequence += 1
                paint(Self.state(status, reason), until: next)
                (status, reason) = randomState()
                add(.transition, status, reason, sequence)
                // An overlapping file has the last lines again.
                if random(0...4) == 0, let last = observations.last { observations.append(last) }
            }
            if random(0...5) == 0 { error = random(-40...40) }
        }
        if Bool.random(using: &generator) { add(.end) }
    }

    private mutating func randomState() -> (NetworkPath.Status, String?) {
        switch random(0...4) {
        case 0: (.unknown, nil)
        case 1: (.unsatisfied, "noCarrier")
        case 2: (.unsatisfied, "noRoute")
        default: (.satisfied, nil)
        }
    }

    private mutating func random(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }

    private mutating func paint(_ state: String, until time: Int, add kind: Observation.Kind? = nil) {
        seconds += Array(repeating: state, count: time - now)
        now = time
        if let kind { add(kind) }
    }

    private mutating func add(
        _ kind: Observation.Kind, _ status: NetworkPath.Status = .unknown, _ reason: String? = nil, _ sequence: UInt64? = nil,
        isContinued: Bool = false
    ) {
        observations.append(
            ReportSamples.observation(
                kind, now, status, reason, sequence: sequence, isContinued: isContinued, step: error, boot: boot))
    }
}
