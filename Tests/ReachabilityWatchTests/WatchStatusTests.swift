import Glibc
import Reachability
import ReachabilityTesting
import Testing

@testable import CommandKit
@testable import reachability_watch

struct WatchStatusTests {
    private static let full = "via eth0, gateway 192.0.2.1, source 192.0.2.10, IPv4"

    private func status(_ transitions: [Transition], _ style: TextStyle = TextStyle()) -> WatchStatus {
        var status = WatchStatus(scopes: [.internet], style: style)
        for transition in transitions { status.note(transition, ofScopeAt: 0, hasGap: false) }
        return status
    }

    private func time(_ seconds: Int) -> BootInstant { BootInstant(sinceBoot: .seconds(seconds)) }

    private static let baseline = Samples.baseline(Samples.online())
    private static let cut = Samples.transition(
        from: Samples.online(), to: Samples.offline(), .offline, Samples.cableCut, at: .seconds(105))
    private static let reason = Samples.transition(
        2, from: Samples.offline(), to: Samples.offline(.noRoute), .reasonChanged, Samples.cableBack, at: .seconds(107))

    @Test(
        arguments: [
            ([], 100, nil), ([baseline], 100, "● online at least 0s \(full)"), ([baseline], 225, "● online at least 2m 5s \(full)"),
            ([baseline, cut], 105, "○ offline 0s: no carrier"), ([baseline, cut], 110, "○ offline 5s: no carrier"),
            ([baseline, cut, reason], 110, "○ offline 5s: no route"), ([cut], 104, "○ offline 0s: no carrier"),
        ] as [([Transition], Int, String?)])
    func theLineShowsTheStateAndItsAge(_ transitions: [Transition], _ now: Int, _ expected: String?) {
        #expect(status(transitions).line(at: time(now), columns: 200)?.plain == expected)
    }

    @Test func lostTransitionsMakeTheAgeALowerBound() {
        var status = status([Self.cut])
        let later = Samples.transition(
            9, from: Samples.offline(), to: Samples.offline(), .reasonChanged, Samples.cableCut, at: .seconds(120))
        status.note(later, ofScopeAt: 0, hasGap: true)
        #expect(status.line(at: time(130), columns: 200)?.plain == "○ offline at least 10s: no carrier")
    }

    @Test func theEndOfTheMonitorIsUnknown() {
        let cause = Cause(.ended, "the monitor ended")
        let end = Samples.transition(from: Samples.online(), to: .unknown, [], cause, at: .seconds(103))
        #expect(status([Self.baseline, end]).line(at: time(105), columns: 200)?.plain == "◌ unknown 2s")
    }

    @Test(
        arguments: [
            (76, "● online at least 2m 5s \(full)"), (75, "● online at least 2m 5s via eth0"),
            (32, "● online at least 2m 5s via eth0"),
            (31, "● online at least 2m 5s"), (23, "● online at least 2m 5s"), (22, "● online at least 2m …"), (3, "● …"), (0, ""),
        ] as [(Int, String)])
    func aNarrowTerminalGetsFewerDetails(_ columns: Int, _ expected: String) {
        #expect(status([Self.baseline]).line(at: time(225), columns: columns)?.plain == expected)
    }

    @Test func signsAndWordsStandBesideColours() {
        let style = TextStyle(hasColor: true, hasUnicode: false)
        let line = status([Self.cut], style).line(at: time(110), columns: 80)
        #expect(line?.rendered(style) == "\u{1b}[31m- offline\u{1b}[0m 5s: no carrier")
    }

    private func three(_ style: TextStyle = TextStyle()) -> WatchStatus {
        let scopes = ["192.0.2.7", "198.51.100.7", "nas"].map { IPAddress($0).map(Scope.address) ?? .host($0) }
        var status = WatchStatus(scopes: scopes, style: style)
        status.note(Self.cut, ofScopeAt: 0, hasGap: false)
        status.note(
            Samples.transition(from: Samples.offline(), to: Samples.online(), .online, Samples.cableBack, at: .seconds(106)),
            ofScopeAt: 1, hasGap: false)
        return status
    }

    @Test func severalScopesShareTheLine() {
        // The third one has no baseline yet.
        #expect(
            three().line(at: time(110), columns: 200)?.plain
                == "192.0.2.7 ○ offline 5s: no carrier · 198.51.100.7 ● online 4s \(Self.full)")
        #expect(
            three().line(at: time(110), columns: 80)?.plain
                == "192.0.2.7 ○ offline 5s: no carrier · 198.51.100.7 ● online 4s via eth0")
        #expect(three().line(at: time(110), columns: 60)?.plain == "192.0.2.7 ○ offline 5s · 198.51.100.7 ● online 4s")
        #expect(three().line(at: time(110), columns: 40)?.plain == "○ 1 offline: 192.0.2.7 · ● 1 online")
        #expect(three(TextStyle(hasUnicode: false)).line(at: time(110), columns: 30)?.plain == "- 1 offline: 192.0.2.7 | + ...")
    }

    @Test(
        arguments: [
            (.zero, "0s", .seconds(1)), (.milliseconds(2400), "2s", .milliseconds(600)), (.seconds(125), "2m 5s", .seconds(1)),
            (.seconds(3599), "59m 59s", .seconds(1)), (.seconds(3600), "1h", .seconds(60)),
            (.milliseconds(3_660_500), "1h 1m", .milliseconds(59_500)), (.seconds(86_399), "23h 59m", .seconds(1)),
            (.seconds(86_400), "1d", .seconds(3600)), (.seconds(183_601), "2d 3h", .seconds(3599)),
            (.seconds(-5), "0s", .seconds(1)), (Duration(attoseconds: .max), "36500d", .seconds(3600)),
        ] as [(Duration, String, Duration)])
    func olderAgesChangeMoreRarely(_ elapsed: Duration, _ text: String, _ untilChange: Duration) {
        let age = Age(of: BootInstant(sinceBoot: .zero), at: BootInstant(sinceBoot: elapsed))
        #expect(age.text == text && age.untilChange == untilChange)
    }

    @Test func theYoungestScopeSetsTheNextChange() {
        var status = status([Self.baseline])
        #expect(status.nextChange(after: time(100)) == .seconds(1))
        #expect(status.nextChange(after: time(100 + 3600)) == .seconds(60))
        // Another job may have left the terminal: the line is looked at each minute.
        #expect(status.nextChange(after: time(100 + 200_000)) == .seconds(60))
        status = WatchStatus(scopes: [.internet], style: TextStyle())
        #expect(status.nextChange(after: time(100)) == nil)
        var both = three()
        let late = Samples.transition(
            2, from: Samples.online(), to: Samples.offline(), .offline, Samples.cableCut, at: .seconds(4000))
        both.note(late, ofScopeAt: 1, hasGap: false)
        #expect(both.nextChange(after: BootInstant(sinceBoot: .milliseconds(4_000_300))) == .milliseconds(700))
    }
}

/// `watch` with a last line, on a simulated network.
@Suite(.timeLimit(.minutes(10))) struct WatchDisplayTests {
    private let clock = ManualClock()
    private let network: SimulatedNetwork
    private let shown = Rendezvous<[String?]>([])
    private let output = LineCollector()

    init() { network = .online(clock: clock) }

    private func session() -> WatchSession {
        var configuration = ReachabilityMonitor.Configuration()
        configuration.lossGrace = .zero
        return WatchSession(
            monitor: ReachabilityMonitor(network, configuration: configuration), scopes: [.internet], clock: clock, output: output,
            notes: output,
            display: LineDisplay(columns: { 40 }, show: { [shown] line in shown.change { $0.append(line?.plain) } }),
            bootTime: { [clock] in BootInstant(sinceBoot: clock.now.offset) })
    }

    @Test func theLineFollowsTimeAndTransitions() async throws {
        let (signals, signal) = AsyncStream.makeStream(of: Int32.self)
        async let end = session().run(until: signals)
        try await shown.wait { $0.last == "● online at least 0s via eth0" }
        for second in 1...3 {
            _ = try await clock.nextSleep()
            clock.advance(by: .seconds(1))
            try await shown.wait { $0.last == "● online at least \(second)s via eth0" }
        }
        try network.pull("eth0")
        try await shown.wait { $0.last == "○ offline 0s: no carrier" }
        // The line is gone while the transition is written.
        #expect(shown.value.suffix(2) == [nil, "○ offline 0s: no carrier"])
        _ = try await clock.nextSleep()
        clock.advance(by: .seconds(3600))
        try await shown.wait { $0.last == "○ offline 1h: no carrier" }
        let next = try await clock.nextSleep().offset
        #expect(next == clock.now.offset + .seconds(60))
        // A terminal that was resized is drawn at once.
        let count = shown.value.count
        signal.yield(SIGWINCH)
        try await shown.wait { $0.count > count }
        signal.yield(SIGTERM)
        #expect(await end == .done)
        #expect(shown.value.last == .some(nil))
        #expect(output.lines.count == 2)
    }

    @Test func noTimerRunsWithoutALine() async throws {
        var session = session()
        session.display = nil
        let (signals, signal) = AsyncStream.makeStream(of: Int32.self)
        async let end = session.run(until: signals)
        _ = await output.next()
        try network.pull("eth0")
        _ = await output.next()
        #expect(clock.sleepers == 0)
        signal.yield(SIGINT)
        #expect(await end == .done && shown.value.isEmpty)
    }
}
