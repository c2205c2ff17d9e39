import CommandKit
import Reachability
import Testing

@testable import reachability_service

struct ObservationTests {
    private static let transition = """
        {"event":"transition","sequence":7,"epoch":1,"time":"2026-01-31T10:00:00.123456Z","scope":"internet","kinds":["offline"],\
        "path":{"status":"unsatisfied","reason":"noCarrier","interface":null,"ipv4":{},"ipv6":{}},\
        "previous":{"status":"satisfied","reason":null,"interface":"eth\\\\xff"},\
        "cause":{"kind":"linkDown","detail":"eth\\\\xff lost carrier","interface":"eth1"},"at":1000.123456789,\
        "flapPenalty":1.5,"new":[]}
        """

    @Test func linesOfWatchAreRead() throws {
        let observation = try #require(Observation(jsonLine: Self.transition.utf8))
        #expect(observation.kind == .transition && observation.scope == "internet" && observation.sequence == 7)
        #expect(observation.time == ReportSamples.morning + .microseconds(123_456))
        #expect(observation.sinceBoot == .seconds(1000) + .nanoseconds(123_456_789))
        #expect(observation.status == .unsatisfied && observation.reason == "noCarrier" && observation.kinds == ["offline"])
        #expect(observation.interface == #"eth\xff"# && observation.causeDetail == #"eth\xff lost carrier"#)
        #expect(observation.causeKind == "linkDown" && observation.flapPenalty == 1.5 && !observation.isContinued)
    }

    @Test(arguments: ["alive", "end"])
    func linesAboutTheWatchHaveNoScope(_ event: String) throws {
        let line = ReportSamples.line(event, ReportSamples.morning)
        let observation = try #require(Observation(jsonLine: line.utf8))
        #expect(observation.kind.rawValue == event && observation.scope.isEmpty && observation.sinceBoot == .seconds(1000))
    }

    @Test(arguments: [
        "", "{", "null", "[]", #"{"event":"hint","time":"2026-01-31T10:00:00Z"}"#, #"{"event":"alive"}"#,
        #"{"event":"alive","time":"yesterday"}"#, #"{"event":"alive","time":"2026-01-31T10:00:00Z","at":1e300}"#,
        #"{"event":"alive","time":"2026-01-31T10:00:00Z","at":-1}"#,
        #"{"event":"baseline","time":"2026-01-31T10:00:00Z","scope":"internet"}"#,
        #"{"event":"baseline","time":"2026-01-31T10:00:00Z","scope":"internet","path":{"status":"fine"}}"#,
        #"{"event":"baseline","time":"2026-01-31T10:00:00Z","scope":"","path":{"status":"satisfied"}}"#,
        #"{"event":"baseline","time":null,"scope":"internet","path":{"status":"unknown"}}"#,
    ])
    func otherLinesAreRefused(_ line: String) {
        #expect(Observation(jsonLine: line.utf8) == nil)
    }

    @Test func cutAndDamagedLinesDoNotTrap() {
        let bytes = Array(Self.transition.utf8)
        for count in 0..<bytes.count { #expect(Observation(jsonLine: bytes.prefix(count)) == nil) }
        for index in stride(from: 0, to: bytes.count, by: 3) {
            var damaged = bytes
            damaged[index] = 0xff
            #expect(Observation(jsonLine: damaged) == nil)
        }
    }

    @Test func longTextsAreShortened() throws {
        let line = ReportSamples.line("transition", ReportSamples.morning, cause: String(repeating: "é", count: 10_000))
        let observation = try #require(Observation(jsonLine: line.utf8))
        #expect(observation.causeDetail?.unicodeScalars.count == 256)
    }

    @Test func transitionsAreLikeTheirLines() throws {
        let cable = NetworkInterface(index: 2, name: "eth0", addresses: [])
        let transition = Transition(
            sequence: 3, epoch: 1, previous: NetworkPath(status: .satisfied, interface: cable),
            current: NetworkPath(status: .unsatisfied, offlineReason: .noCarrier, ipv4: .init(reason: .noCarrier)),
            kinds: .offline, cause: Cause(.linkDown, "eth0 lost carrier", interface: cable.identity),
            at: BootInstant(sinceBoot: .seconds(1000)), wallTime: ReportSamples.morning, flapPenalty: 1)
        let line = JSONValue.transition(transition, of: .internet).description
        #expect(Observation(transition, of: .internet) == Observation(jsonLine: line.utf8))
        var baseline = transition
        (baseline.previous, baseline.kinds, baseline.cause) = (nil, [], Cause(.started, "watching began"))
        let first = JSONValue.transition(baseline, of: .internet).description
        #expect(Observation(baseline, of: .internet) == Observation(jsonLine: first.utf8))
    }
}

struct TimeParsingTests {
    @Test(
        arguments: [
            ("1970-01-01T00:00:00Z", 0), ("2026-01-31T10:00:00Z", 1_769_853_600), ("2026-01-31t11:00:00+01:00", 1_769_853_600),
            ("2026-01-31T04:30:00-05:30", 1_769_853_600), ("2000-02-29T23:59:60Z", 951_868_800),
            ("0000-01-01T00:00:00Z", -62_167_219_200),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] as [(String, Int64)])
    func timesOfRFC3339AreRead(_ text: String, _ seconds: Int64) {
        #expect(CalendarTime.time(rfc3339: text) == .seconds(seconds))
    }

    @Test(arguments: [
        "", "2026-01-31", "2026-01-31T10:00:00", "2026-1-31T10:00:00Z", "2026-02-29T10:00:00Z", "2026-13-01T10:00:00Z",
        "2026-01-31T24:00:00Z", "2026-01-31T10:00:00.Z", "2026-01-31T10:00:00Z ", "2026-01-31T10:00:00+0100",
        "2100-02-29T00:00:00Z",
        "+026-01-31T10:00:00Z", "2026-01-31T10:00:00.1234567890123456789012345678901234567890",
    ])
    func otherTextsAreNoTimes(_ text: String) {
        #expect(CalendarTime.time(rfc3339: text) == nil)
    }

    @Test(arguments: [0, 1, 951_782_400, 1_769_853_600, -1, -62_135_596_800, 253_402_300_799] as [Int64])
    func timesSurviveTheirText(_ seconds: Int64) {
        let time = Duration.seconds(seconds) + .microseconds(123_456)
        #expect(CalendarTime.time(rfc3339: CalendarTime(time).rfc3339) == time)
    }
}
