import Testing

@testable import reachability_watch

struct TimeTextTests {
    @Test(arguments: [
        (Samples.morning, "2026-01-31T10:00:00.123456Z"), (.zero, "1970-01-01T00:00:00.000000Z"),
        (.seconds(951_782_400), "2000-02-29T00:00:00.000000Z"), (.seconds(4_107_542_400), "2100-03-01T00:00:00.000000Z"),
        (.seconds(1_798_761_599) + .nanoseconds(999_999_999), "2026-12-31T23:59:59.999999Z"),
        (.nanoseconds(-1), "1969-12-31T23:59:59.999999Z"), (.seconds(Int64.max), "9999-12-31T23:59:59.000000Z"),
        (.seconds(Int64.min), "0000-01-01T00:00:00.000000Z"),
    ])
    func writesRFC3339(_ time: Duration, _ expected: String) {
        #expect(CalendarTime(time).rfc3339 == expected)
    }

    @Test func showsPeopleTheirOwnClock() {
        #expect(CalendarTime(Samples.morning, offset: 3600).plain == "2026-01-31 11:00:00.123")
        #expect(CalendarTime(Samples.morning, offset: -36_001).plain == "2026-01-30 23:59:59.123")
        #expect(CalendarTime(.seconds(Int64.max), offset: .max).plain.hasPrefix("9999-12-31"))
    }

    @Test(arguments: [
        (Duration.zero, "0 ms"), (.milliseconds(250), "250 ms"), (.microseconds(999_999), "999 ms"), (.milliseconds(4299), "4.2 s"),
        (.milliseconds(59_999), "59.9 s"), (.seconds(125), "2 min 5 s"), (.seconds(11_059), "3 h 4 min"),
        (.seconds(183_600), "2 d 3 h"),
        (.seconds(-5), "0 ms"),
    ])
    func roundsElapsedTimeDown(_ duration: Duration, _ expected: String) {
        #expect(elapsedText(duration) == expected)
    }
}
