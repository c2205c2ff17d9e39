import Reachability
import Testing

@testable import reachability_service

struct TimelineTests {
    private typealias Samples = ReportSamples

    private static let beginning = Samples.observation(.baseline, 0, sequence: 0)

    /// Histories with their spans: `+` online, `-` offline, `?` unknown, in seconds.
    private static let cases: [(name: String, observations: [Observation], spans: String)] = [
        ("an outage", [beginning, Samples.offline(10), Samples.online(40), Samples.alive(60)], "+10 -30 +20"),
        (
            "another reason is the same outage",
            [beginning, Samples.offline(10), Samples.offline(20, .transition, "noAddress"), Samples.online(40)], "+10 -10 -20"
        ),
        ("another interface", [beginning, Samples.observation(.transition, 10, interface: "wlan0"), Samples.alive(15)], "+10 +5"),
        ("the end of a watch", [beginning, Samples.end(10), Samples.online(30, .baseline), Samples.alive(40)], "+10 ?20 +10"),
        ("a killed watch", [beginning, Samples.alive(10), Samples.online(30, .baseline), Samples.alive(40)], "+10 ?20 +10"),
        ("a killed watch without heartbeats", [beginning, Samples.online(30, .baseline), Samples.alive(40)], "?30 +10"),
        (
            "another file of the watch",
            [beginning, Samples.alive(10), Samples.observation(.baseline, 30, sequence: 0, isContinued: true)], "+30"
        ),
        (
            "a watch that wrote nothing for a while",
            [beginning, Samples.alive(10), Samples.observation(.baseline, 30, sequence: 2, isContinued: true), Samples.alive(40)],
            "+10 ?20 +10"
        ),
        (
            "a missing transition",
            [beginning, Samples.observation(.transition, 30, .unsatisfied, "noCarrier", sequence: 2), Samples.alive(40)], "?30 -10"
        ),
        (
            "no missing transition",
            [beginning, Samples.observation(.transition, 30, .unsatisfied, "noCarrier", sequence: 1), Samples.alive(40)], "+30 -10"
        ),
        (
            "a blind monitor", [beginning, Samples.observation(.transition, 10, .unknown), Samples.online(30), Samples.alive(40)],
            "+10 ?20 +10"
        ),
        ("a suspended machine", [beginning, Samples.alive(300), Samples.alive(5000), Samples.alive(5300)], "+300 ?4700 +300"),
        ("a late heartbeat", [beginning, Samples.alive(300), Samples.alive(900)], "+900"),
        ("silence without heartbeats", [beginning, Samples.offline(5000), Samples.online(9000)], "+5000 -4000"),
        ("a change at the same time", [beginning, Samples.offline(10), Samples.online(10), Samples.alive(20)], "+20"),
        ("a line twice", [beginning, beginning, Samples.offline(10), Samples.offline(10), Samples.online(20)], "+10 -10"),
        (
            "an older line", [beginning, Samples.offline(10), Samples.online(20), Samples.offline(5), Samples.alive(30)],
            "+10 -10 +10"
        ),
        ("no state", [Samples.alive(10), Samples.end(20)], ""),
        ("a single line", [beginning], ""),
        ("another boot", [beginning, Samples.alive(10)] + boot(60), "+10 ?50 -20"),
        ("another boot that came up later", [beginning, Samples.alive(10)] + boot(60, step: 5000), "+10 ?5050 -20"),
        // Without a clock battery, a watch may begin before the time is known.
        (
            "a boot that knows its time later",
            [
                Samples.observation(.baseline, 0, step: -1_700_000_000),
                Samples.observation(.transition, 10, .unsatisfied, "noRoute"),
                Samples.alive(20),
            ], "+10 -10"
        ),
        ("a boot that never knows its time", [beginning, Samples.alive(10)] + boot(60, step: -1_700_000_000), "+10 -20"),
    ]

    /// Returns a watch of a later boot: offline for 20 s.
    private static func boot(_ second: Int, step: Int = 0) -> [Observation] {
        [
            Samples.observation(.baseline, second, .unsatisfied, "noRoute", step: step, boot: second - 5),
            Samples.observation(.alive, second + 20, step: step, boot: second - 5),
        ]
    }

    @Test(arguments: cases.indices)
    func spansFollowTheObservations(_ index: Int) {
        let (name, observations, spans) = Self.cases[index]
        #expect(Samples.short(Samples.summary(observations)) == spans, "\(name)")
    }

    @Test(arguments: [-3600, -86_400, 3600, 86_400 * 365, -700, 7])
    func clockStepsChangeNoDuration(_ step: Int) {
        let observations = [
            Self.beginning, Samples.offline(10), Samples.observation(.transition, 40, step: step),
            Samples.observation(.alive, 100, step: step),
        ]
        let summary = Samples.summary(observations)
        #expect(Samples.short(summary) == "+10 -30 +60" && summary.clockSteps == 1)
        // Dated by the clock afterwards.
        #expect(summary.outages.first?.start == Samples.morning + .seconds(10 + step))
    }

    @Test func theLastEntryEndsAnOutage() {
        typealias Samples = ReportSamples
        let observations = [Samples.online(0, .baseline), Samples.offline(10), Samples.online(15)]
        #expect(Samples.summary(observations).flaps.map(\.duration) == [.seconds(5)])
        // Also if nothing is known of the time behind it.
        #expect(Samples.summary(observations, until: 60).flaps.map(\.isEndKnown) == [true])
        #expect(Samples.summary(Array(observations.dropLast()) + [Samples.end(15)]).outages.map(\.isEndKnown) == [false])
    }

    @Test func timesWithoutABootClockDoNotRunBackwards() {
        let observations = [Samples.online(0, .baseline), Samples.offline(10), Samples.online(5), Samples.alive(30)].map {
            var observation = $0
            observation.sinceBoot = nil
            return observation
        }
        #expect(Samples.short(Samples.summary(observations)) == "+30")
    }

    @Test func aPeriodCutsSpans() {
        let observations = [Self.beginning, Samples.offline(10), Samples.online(50), Samples.alive(100)]
        #expect(Samples.short(Samples.summary(observations, from: 20, until: 60)) == "-30 +10")
        #expect(Samples.short(Samples.summary(observations, from: -50, until: 150)) == "?50 +10 -40 +50 ?50")
        #expect(Samples.short(Samples.summary(observations, from: 200, until: 300)) == "?100")
        #expect(Samples.summary(observations, from: 20, until: 60).outages.map(\.isStartKnown) == [false])
    }

    @Test func filesThatComeTwiceCountOnce() {
        let first = [Self.beginning, Samples.offline(10), Samples.online(50), Samples.alive(100)]
        let second = [
            Samples.observation(.baseline, 200, boot: 190),
            Samples.observation(.transition, 220, .unsatisfied, "noRoute", boot: 190),
            Samples.observation(.end, 300, boot: 190),
        ]
        let once = Samples.summary(first + second)
        #expect(Samples.short(once) == "+10 -40 +50 ?100 +20 -80")
        #expect(Samples.summary(first + first + second).spans == once.spans)
        #expect(Samples.summary(first + second + first + second).spans == once.spans)
        #expect(Samples.summary(first + second + second).spans == once.spans)
    }

    @Test func shortOutagesOfKnownLengthAreFlaps() {
        let summary = Samples.summary([
            Self.beginning, Samples.offline(100), Samples.online(129), Samples.offline(200), Samples.online(230),
            Samples.offline(300), Samples.end(310), Samples.offline(400, .baseline), Samples.online(405), Samples.offline(500),
            Samples.alive(501),
        ])
        #expect(summary.flaps.map(\.duration) == [.seconds(29)])
        #expect(summary.outages.map(\.duration) == [.seconds(30), .seconds(10), .seconds(5), .seconds(1)])
        #expect(summary.outages.map(\.isStartKnown) == [true, true, false, true])
        #expect(summary.outages.map(\.isEndKnown) == [true, false, true, false])
    }

    @Test func sumsAreByReasonAndInterface() {
        let summary = Samples.summary([
            Self.beginning, Samples.offline(100), Samples.offline(130, .transition, "noAddress"), Samples.online(150),
            Samples.observation(.transition, 200, interface: "wlan0"),
            Samples.observation(.transition, 250, .unsatisfied, "noCarrier", interface: "wlan0"), Samples.online(260),
            Samples.end(300),
            Samples.online(400, .baseline), Samples.alive(410),
        ])
        #expect(summary.sums.byReason.map(\.name) == ["noCarrier", "noAddress"])
        #expect(
            summary.sums.byReason.map(\.sum) == [
                .init(outages: 2, offline: .seconds(40)), .init(outages: 1, offline: .seconds(20)),
            ])
        #expect(summary.sums.byInterface.map(\.name) == ["eth0", "wlan0"])
        #expect(
            summary.sums.byInterface.map(\.sum) == [
                .init(online: .seconds(200), outages: 1, offline: .seconds(50)),
                .init(online: .seconds(50), outages: 1, offline: .seconds(10)),
            ])
        #expect(summary.knownTime == .seconds(310) && summary.sums.unknown == .seconds(100))
        #expect(summary.availability == 250.0 / 310 && summary.longest?.start == Samples.morning + .seconds(100))
        #expect(
            summary.outages.first?.reasons == ["noCarrier", "noAddress"] && summary.outages.first?.cause == "eth0 lost carrier")
    }

    @Test func nothingKnownHasNoAvailability() {
        let summary = Samples.summary([Samples.observation(.baseline, 0, .unknown), Samples.alive(10)])
        #expect(summary.availability == nil && summary.knownTime == .zero && summary.longest == nil)
    }

    @Test func memoryIsBoundedAndSumsStayExact() {
        var timeline = Timeline(scope: "internet")
        let count = 2 * Timeline.spanLimit
        timeline.add(Samples.observation(.baseline, 0))
        for number in 1...count {
            timeline.add(Samples.offline(number * 100))
            timeline.add(Samples.online(number * 100 + 1 + number % 50))
        }
        let summary = timeline.finish(at: timeline.extent?.end ?? .zero)
        #expect(summary.spans.count <= Timeline.spanLimit)
        #expect(summary.sums.outages + summary.sums.flaps == count)
        #expect(summary.sums.offline == .seconds((1...count).reduce(0) { $0 + 1 + $1 % 50 }))
        #expect(summary.outages.count + summary.flaps.count + summary.unlisted == count && summary.unlisted > 0)
        #expect(summary.sums.online + summary.sums.offline == summary.until - summary.from)
        // The longest ones are listed.
        #expect(summary.outages.count(where: { $0.duration == .seconds(50) }) == count / 50)
    }
}
