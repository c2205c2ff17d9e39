import Reachability
import Testing

@testable import CommandKit
@testable import reachability_watch

struct TransitionTextTests {
    private func writer(scope: String? = nil, _ style: TextStyle = TextStyle()) -> TransitionText {
        TransitionText(style: style, scope: scope) { _ in 3600 }
    }

    @Test func anOutageIsWrittenLineByLine() {
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
                "2026-01-31 11:00:00.123  ○ offline  after at least 5s: no carrier (eth0 lost carrier)",
                "2026-01-31 11:00:00.123  ○ offline  reason changed: no route (eth0 got carrier)",
                "2026-01-31 11:00:00.123  ● online   after 4.2s: via eth0, gateway 192.0.2.1, source 192.0.2.10, IPv4 "
                    + "(route default was set)",
                "2026-01-31 11:00:00.123  ○ offline  after 1m: no carrier (eth0 lost carrier)",
            ])
    }

    @Test func changesWhileOnlineAreNamed() {
        var writer = writer()
        _ = writer.line(for: Samples.baseline(Samples.online()))
        let transition = Samples.transition(
            from: Samples.online(), to: Samples.online(hasIPv6: true), [.familyGained, .gatewayChanged, .reestablished],
            Samples.cableBack)
        #expect(writer.line(for: transition).contains("  ● online   IPv6 gained, gateway changed, lost and regained: via eth0"))
    }

    @Test func lostTransitionsHideTheElapsedTime() {
        var writer = writer()
        _ = writer.line(for: Samples.baseline(Samples.offline()))
        let transition = Samples.transition(5, from: Samples.offline(), to: Samples.online(), .online, Samples.cableBack)
        #expect(!writer.line(for: transition, hasGap: true).contains("after"))
        let later = Samples.transition(
            6, from: Samples.online(), to: Samples.offline(), .offline, Samples.cableCut, at: .seconds(110))
        #expect(writer.line(for: later).contains("after 10s: no carrier"), "the status of the first line behind the gap is new")
    }

    @Test func severalScopesAreNamed() {
        var writer = writer(scope: "192.0.2.7%\u{1b}0", TextStyle(hasUnicode: false))
        #expect(
            writer.line(for: Samples.baseline(Samples.offline()))
                == #"2026-01-31 11:00:00.123  - offline  192.0.2.7%\x1b0  no carrier"#)
    }

    @Test func theEndOfTheMonitorIsWritten() {
        var writer = writer()
        let end = Samples.transition(from: Samples.online(), to: .unknown, [], Cause(.ended, "the monitor ended"))
        #expect(writer.line(for: end) == "2026-01-31 11:00:00.123  ◌ unknown  the monitor ended")
    }

    @Test func anUnknownTimeIsOmitted() {
        var writer = writer()
        var end = Samples.transition(from: .unknown, to: .unknown, [], Cause(.ended, "the monitor ended"))
        end.wallTime = .zero
        #expect(writer.line(for: end) == "◌ unknown  the monitor ended")
        #expect(JSONValue.transition(end, of: .internet).description.contains(#""time":null,"#))
    }

    @Test func namesAreEscapedForTheTerminal() {
        var writer = writer()
        let interface = NetworkInterface(index: 3, name: "e\u{1b}[31m\n")
        let cause = Cause(.linkUp, "e\u{1b}[31m\n got carrier")
        let transition = Samples.transition(from: Samples.offline(), to: Samples.online(interface), .online, cause)
        let line = writer.line(for: transition)
        #expect(isHarmless(line))
        #expect(line.contains(#"via e\x1b[31m\x0a, gateway"#))
        #expect(line.contains(#"(e\x1b[31m\x0a got carrier)"#))
    }

    @Test func colourKeepsTheWords() {
        var writer = writer(TextStyle(hasColor: true))
        let line = writer.line(for: Samples.baseline(Samples.offline()))
        #expect(line.contains("\u{1b}[31m○ offline\u{1b}[0m"))
    }

    private func writer(_ style: TextStyle) -> TransitionText { writer(scope: nil, style) }
}

struct TextStyleTests {
    @Test(
        arguments: [
            ([:], true, false), ([:], false, false), (["TERM": ""], true, false), (["TERM": "dumb"], true, false),
            (["TERM": "xterm-256color"], true, true), (["TERM": "xterm"], false, false), (["TERM": "vt100"], true, true),
            (["TERM": "xterm", "NO_COLOR": "1"], true, false), (["TERM": "xterm", "NO_COLOR": ""], true, true),
            (["TERM": "xterm", "NO_COLOR": "0"], true, false), (["NO_COLOR": ""], true, false),
        ] as [([String: String], Bool, Bool)])
    func colourNeedsACapableTerminal(_ environment: [String: String], _ isTerminal: Bool, _ expected: Bool) {
        #expect(TextStyle(environment: { environment[$0] }, isTerminal: isTerminal).hasColor == expected)
    }

    @Test(arguments: [true, false]) func colourCanBeChosen(_ isTerminal: Bool) {
        for environment in [[:], ["TERM": "xterm"], ["TERM": "dumb"], ["TERM": "xterm", "NO_COLOR": "1"]] as [[String: String]] {
            func style(_ color: ColorChoice) -> TextStyle {
                TextStyle(color: color, environment: { environment[$0] }, isTerminal: isTerminal)
            }
            #expect(style(.always).hasColor && !style(.never).hasColor)
            #expect(style(.auto).hasColor == (isTerminal && environment == ["TERM": "xterm"]))
        }
    }

    @Test(arguments: [true, false]) func colouredTextsHaveAWordAndASign(_ hasUnicode: Bool) {
        let (colored, plain) = (TextStyle(hasColor: true, hasUnicode: hasUnicode), TextStyle(hasUnicode: hasUnicode))
        for (path, sign, word, label, verdict) in [
            (Samples.online(), hasUnicode ? "●" : "+", "satisfied", "online ", "satisfied via eth0"),
            (Samples.offline(), hasUnicode ? "○" : "-", "unsatisfied", "offline", "unsatisfied: no carrier"),
            (.unknown, hasUnicode ? "◌" : "?", "unknown", "unknown", "unknown"),
        ] as [(NetworkPath, String, String, String, String)] {
            #expect(colored.label(path.status).contains("m\(sign) \(label)\u{1b}[0m"))
            #expect(colored.verdict(path).contains("m\(sign) \(word)\u{1b}[0m"))
            #expect(plain.label(path.status) == "\(sign) \(label)")
            #expect(plain.verdict(path).hasPrefix(verdict), "scripts know these words")
        }
    }

    @Test(
        arguments: [
            ([:], false), (["LANG": "de_DE.UTF-8"], true), (["LANG": "C.utf8"], true),
            (["LANG": "de_DE.UTF-8", "LC_ALL": "C"], false),
            (["LANG": "C", "LC_CTYPE": "C.UTF-8"], true), (["LANG": "en_US.UTF-8", "LC_ALL": ""], true),
        ] as [([String: String], Bool)])
    func signsFollowTheLocale(_ environment: [String: String], _ expected: Bool) {
        #expect(TextStyle(environment: { environment[$0] }, isTerminal: false).hasUnicode == expected)
    }
}

struct TimeTextTests {
    @Test(arguments: [
        (Samples.morning, "2026-01-31T10:00:00.123456Z"), (.zero, "1970-01-01T00:00:00.000000Z"),
        (.seconds(951_782_400), "2000-02-29T00:00:00.000000Z"), (.seconds(4_107_542_400), "2100-03-01T00:00:00.000000Z"),
        (.seconds(1_798_761_599) + .nanoseconds(999_999_999), "2026-12-31T23:59:59.999999Z"),
        (.nanoseconds(-1), "1969-12-31T23:59:59.999999Z"), (.seconds(Int64.max), "9999-12-31T23:59:59.000000Z"),
        (.seconds(Int64.min), "0000-01-01T00:00:00.000000Z"),
    ])
    func timesFollowRFC3339(_ time: Duration, _ expected: String) {
        #expect(CalendarTime(time).rfc3339 == expected)
    }

    @Test func plainTimesAreLocal() {
        #expect(CalendarTime(Samples.morning, offset: 3600).plain == "2026-01-31 11:00:00.123")
        #expect(CalendarTime(Samples.morning, offset: -36_001).plain == "2026-01-30 23:59:59.123")
        #expect(CalendarTime(.seconds(Int64.max), offset: .max).plain.hasPrefix("9999-12-31"))
    }

    @Test(arguments: [
        (Duration.zero, "0ms"), (.microseconds(4579), "4.57ms"), (.microseconds(10_999), "10ms"), (.milliseconds(250), "250ms"),
        (.microseconds(999_999), "999ms"), (.milliseconds(1000), "1s"), (.milliseconds(4299), "4.2s"),
        (.milliseconds(59_999), "59.9s"), (.seconds(60), "1m"), (.seconds(125), "2m 5s"), (.seconds(7200), "2h"),
        (.seconds(11_059), "3h 4m"), (.seconds(183_600), "2d 3h"), (.seconds(-5), "0ms"),
        (Duration(attoseconds: .max), "1067519911d 16h"),
    ])
    func durationsAreRoundedDown(_ duration: Duration, _ expected: String) {
        #expect(durationText(duration) == expected)
    }
}
