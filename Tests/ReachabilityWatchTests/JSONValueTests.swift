import Testing

@testable import reachability_watch

struct JSONValueTests {
    @Test func writesValuesInOneLineAndInOrder() {
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
    func escapesStringsWithoutLosingAnything(_ text: String, _ expected: String) {
        #expect(JSONValue.string(text).description == expected)
    }

    @Test(arguments: [
        (Duration.seconds(3647) + .nanoseconds(450_617_306), "3647.450617306"), (.zero, "0.000000000"),
        (.nanoseconds(7), "0.000000007"),
        (.milliseconds(-1500), "-1.500000000"), (.nanoseconds(-1), "-0.000000001"),
    ])
    func writesSecondsToTheNanosecond(_ duration: Duration, _ expected: String) {
        #expect(JSONValue.seconds(duration).description == expected)
    }

    @Test(arguments: [Double.nan, .infinity, -.infinity])
    func writesNullForWhatJSONCannotSay(_ number: Double) {
        #expect(JSONValue.double(number).description == "null")
    }
}
