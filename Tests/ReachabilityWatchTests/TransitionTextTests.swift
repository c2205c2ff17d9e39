import Reachability
import Testing

@testable import reachability_watch

struct TransitionTextTests {
    private func writer(scope: String? = nil, _ style: TextStyle = TextStyle()) -> TransitionText {
        TransitionText(style: style, scope: scope) { _ in 3600 }
    }

    @Test func tellsTheStoryOfAnOutage() {
        var writer = writer()
        let (online, offline) = (Samples.online(hasIPv6: true), Samples.offline())
        let lines = [
            Samples.baseline(online),
            Samples.transition(from: online, to: offline, .offline, Samples.cableCut, at: .seconds(105)),
            Samples.transition(
                from: offline, to: Samples.offline(.noRoute), .reasonChanged, Samples.cableBack, at: .seconds(106)),
            Samples.transition(
                from: Samples.offline(.noRoute), to: Samples.online(), .online, Cause(.routeAdded, "route default was set"),
                at: .milliseconds(109_200)),
            Samples.transition(from: Samples.online(), to: offline, .offline, Samples.cableCut, at: .milliseconds(169_300)),
        ].map { writer.line(for: $0) }
        #expect(
            lines == [
                "2026-01-31 11:00:00.123  ● online   via eth0, gateway 192.0.2.1, source 192.0.2.10, IPv4+IPv6",
                "2026-01-31 11:00:00.123  ○ offline  after at least 5.0 s: no carrier (eth0 lost carrier)",
                "2026-01-31 11:00:00.123  ○ offline  reason changed: no route (eth0 got carrier)",
                "2026-01-31 11:00:00.123  ● online   after 4.2 s: via eth0, gateway 192.0.2.1, source 192.0.2.10, IPv4 "
                    + "(route default was set)",
                "2026-01-31 11:00:00.123  ○ offline  after 1 min 0 s: no carrier (eth0 lost carrier)",
            ])
    }

    @Test func namesWhatChangedWhileOnline() {
        var writer = writer()
        _ = writer.line(for: Samples.baseline(Samples.online()))
        let transition = Samples.transition(
            from: Samples.online(), to: Samples.online(hasIPv6: true), [.familyGained, .gatewayChanged, .reestablished],
            Samples.cableBack)
        #expect(writer.line(for: transition).contains("  ● online   IPv6 gained, gateway changed, lost and regained: via eth0"))
    }

    @Test func saysNothingAboutTimeThatItDidNotSee() {
        var writer = writer()
        _ = writer.line(for: Samples.baseline(Samples.offline()))
        writer.forget()
        let transition = Samples.transition(5, from: Samples.offline(), to: Samples.online(), .online, Samples.cableBack)
        #expect(!writer.line(for: transition).contains("after"))
    }

    @Test func namesTheScopeWhereThereAreSeveral() {
        var writer = writer(scope: "192.0.2.7%\u{1b}0", TextStyle(hasUnicode: false))
        #expect(
            writer.line(for: Samples.baseline(Samples.offline()))
                == #"2026-01-31 11:00:00.123  - offline  192.0.2.7%\x1b0  no carrier"#)
    }

    @Test func tellsTheEndOfTheMonitor() {
        var writer = writer()
        let end = Samples.transition(from: Samples.online(), to: .unknown, [], Cause(.ended, "the monitor ended"))
        #expect(writer.line(for: end) == "2026-01-31 11:00:00.123  ◌ unknown  the monitor ended")
    }

    @Test func writesNoTimeThatIsNotKnown() {
        var writer = writer()
        var end = Samples.transition(from: .unknown, to: .unknown, [], Cause(.ended, "the monitor ended"))
        end.wallTime = .zero
        #expect(writer.line(for: end) == "◌ unknown  the monitor ended")
        #expect(JSONValue.transition(end, of: .internet).description.contains(#""time":null,"#))
    }

    @Test func letsNoNameOntoTheTerminalAsItIs() {
        var writer = writer()
        let interface = NetworkInterface(index: 3, name: "e\u{1b}[31m\n")
        let cause = Cause(.linkUp, "e\u{1b}[31m\n got carrier")
        let transition = Samples.transition(from: Samples.offline(), to: Samples.online(interface), .online, cause)
        let line = writer.line(for: transition)
        #expect(isHarmless(line))
        #expect(line.contains(#"via e\x1b[31m\x0a, gateway"#))
        #expect(line.contains(#"(e\x1b[31m\x0a got carrier)"#))
    }

    @Test func coloursWordsWithoutReplacingThem() {
        var writer = writer(TextStyle(hasColor: true))
        let line = writer.line(for: Samples.baseline(Samples.offline()))
        #expect(line.contains("\u{1b}[31m○ offline\u{1b}[0m"))
    }

    private func writer(_ style: TextStyle) -> TransitionText { writer(scope: nil, style) }
}
