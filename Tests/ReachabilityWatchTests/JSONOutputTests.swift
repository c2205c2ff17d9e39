import Reachability
import Testing

@testable import CommandKit
@testable import reachability_watch

struct TransitionJSONTests {
    @Test func baselinesHaveTheDocumentedKeysInOrder() {
        let line = JSONValue.transition(Samples.baseline(Samples.online()), of: .internet).description
        #expect(
            line == """
                {"event":"baseline","sequence":0,"epoch":1,"time":"2026-01-31T10:00:00.123456Z","scope":"internet","kinds":[],\
                "path":{"status":"satisfied","reason":null,"interface":"eth0",\
                "ipv4":{"satisfied":true,"interface":"eth0","gateway":"192.0.2.1","source":"192.0.2.10"},\
                "ipv6":{"satisfied":false,"reason":"noRoute"}},"at":100.000000000,"flapPenalty":0.0}
                """)
    }

    @Test func transitionsHavePreviousPathAndCause() {
        let transition = Samples.transition(
            from: Samples.online(hasIPv6: true), to: Samples.offline(), [.offline, .resynced], Samples.cableCut)
        #expect(
            JSONValue.transition(transition, of: .address(Samples.address("192.0.2.7"))).description == """
                {"event":"transition","sequence":1,"epoch":1,"time":"2026-01-31T10:00:00.123456Z","scope":"192.0.2.7",\
                "kinds":["offline","resynced"],"path":{"status":"unsatisfied","reason":"noCarrier","interface":null,\
                "ipv4":{"satisfied":false,"reason":"noCarrier"},"ipv6":{"satisfied":false,"reason":"noCarrier"}},\
                "previous":{"status":"satisfied","reason":null,"interface":"eth0",\
                "ipv4":{"satisfied":true,"interface":"eth0","gateway":"192.0.2.1","source":"192.0.2.10"},\
                "ipv6":{"satisfied":true,"interface":"eth0","gateway":"fe80::1","source":"2001:db8::10",\
                "table":254,"metric":1024,"prefixLength":0}},\
                "cause":{"kind":"linkDown","detail":"eth0 lost carrier","interface":"eth0"},"at":100.000000000,"flapPenalty":0.5,\
                "losses":0}
                """)
    }

    @Test func hostileNamesStayOnOneLine() {
        let name = "e\u{1b}[31m\"\n\u{202e}\\xff"
        let interface = NetworkInterface(index: 3, name: name)
        let line = JSONValue.status(Samples.online(interface), of: .internet).description
        #expect(line.contains(#""interface":"e\u001b[31m\"\u000a\u202e\\xff""#))
        #expect(isHarmless(line))
    }

    @Test func statusLinesHaveScopeAndPath() {
        #expect(
            JSONValue.status(.unknown, of: .internet).description == """
                {"scope":"internet","path":{"status":"unknown","reason":null,"interface":null,\
                "ipv4":{"satisfied":false},"ipv6":{"satisfied":false}}}
                """)
    }
}

struct JSONValueTests {
    @Test func membersKeepTheirOrder() {
        let value = JSONValue.object([
            .init("z", .null), .init("a", .array([.bool(true), .bool(false), .integer(-3)])), .init("m", .object([])),
            .init("d", .double(0.25)), .init("s", .string("text")),
        ])
        #expect(value.description == #"{"z":null,"a":[true,false,-3],"m":{},"d":0.25,"s":"text"}"#)
    }

    @Test(arguments: [
        (#"q"uote"#, #""q\"uote""#), (#"back\slash"#, #""back\\slash""#), (#"\xff"#, #""\\xff""#), ("\u{1b}[31m", #""\u001b[31m""#),
        ("a\nb", #""a\u000ab""#), ("\u{7f}", #""\u007f""#), ("\u{85}", #""\u0085""#), ("\u{202e}", #""\u202e""#),
        ("\u{e0041}", #""\udb40\udc41""#), ("grün", #""grün""#), ("\0", #""\u0000""#),
    ])
    func stringsAreEscapedWithoutLoss(_ text: String, _ expected: String) {
        #expect(JSONValue.string(text).description == expected)
    }

    @Test(arguments: [
        (Duration.seconds(3647) + .nanoseconds(450_617_306), "3647.450617306"), (.zero, "0.000000000"),
        (.nanoseconds(7), "0.000000007"),
        (.milliseconds(-1500), "-1.500000000"), (.nanoseconds(-1), "-0.000000001"),
    ])
    func secondsHaveNineDecimals(_ duration: Duration, _ expected: String) {
        #expect(JSONValue.seconds(duration).description == expected)
    }

    @Test(arguments: [Double.nan, .infinity, -.infinity])
    func nonFiniteNumbersAreNull(_ number: Double) {
        #expect(JSONValue.double(number).description == "null")
    }
}
