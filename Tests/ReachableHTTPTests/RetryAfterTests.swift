import ReachableHTTP
import Testing

/// The values of `Retry-After`.
@Suite struct RetryAfterTests {
    /// Sun, 06 Nov 1994 08:49:37 GMT, the date of RFC 9110's examples.
    private static let example = Duration.seconds(784_111_777)

    @Test(arguments: [
        ("120", 120), ("0", 0), ("00000000000000000007", 7), (" \t30 ", 30), ("86400", 86_400), ("86401", 86_400),
        ("99999999999999999999999999", 86_400), ("9223372036854775807", 86_400),
    ])
    func secondsAreRead(value: String, seconds: Int) {
        #expect(RetryAfter.delay(value, now: Self.example) == .seconds(seconds))
    }

    @Test(arguments: [
        "", " ", "-1", "+1", "1.5", "1e3", "0x10", "１２", "soon", "soon, later", "120 60", "Fri", "Fri, 31 Dec 1999 23:59:59",
        "Fri, 31 Dec 1999 23:59:59 UTC", "Fri, 31 Dec 1999 24:00:00 GMT", "Fri, 31 Dec 1999 23:60:00 GMT",
        "Fri, 31 Dec 1999 23:59:61 GMT", "Fri, 32 Dec 1999 23:59:59 GMT", "Fri, 00 Dec 1999 23:59:59 GMT",
        "Mon, 29 Feb 1999 00:00:00 GMT", "Fri, 1 Dec 1999 23:59:59 GMT", "Fri, 31 DEC 1999 23:59:59 GMT",
        "Friday, 31 Dec 1999 23:59:59 GMT", "Fri, 31-Dec-99 23:59:59 GMT", "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994", "Sun Nov  16 08:49:37 1994", "Sun Nov  6 08:49:37 94", "Sun Nov  6 08:49:37 1994 GMT",
        "Fri, 31 Dec  1999 23:59:59 GMT", "Fri, 31 Dec 1999 23:59 GMT", "Fri, 31 Dec 1999 23:59:59:00 GMT",
        "Fri, -1 Dec 1999 23:59:59 GMT", "Sunday, 31-Feb-94 08:49:37 GMT", "\u{0}", "Sun, 06 Nov 1994 08:49:37 GMT\u{0}",
    ])
    func otherTextIsIgnored(value: String) {
        #expect(RetryAfter.delay(value, now: Self.example) == nil)
    }

    @Test(arguments: [
        "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
    ])
    func allThreeDateFormsAreRead(value: String) {
        #expect(RetryAfter.delay(value, now: Self.example - .seconds(90)) == .seconds(90))
        #expect(RetryAfter.delay(value, now: Self.example - .milliseconds(500)) == .milliseconds(500))
        #expect(RetryAfter.delay(value, now: Self.example) == .zero)
        #expect(RetryAfter.delay(value, now: Self.example + .seconds(1)) == .zero, "it has passed")
        #expect(RetryAfter.delay(value, now: .zero) == .seconds(86_400), "far away")
        #expect(RetryAfter.delay(value, now: Self.example - .seconds(90), maximum: .seconds(10)) == .seconds(10))
        #expect(RetryAfter.delay(value, now: Self.example - .seconds(90), maximum: .seconds(-10)) == .zero)
    }

    @Test(arguments: [
        ("120, 60", 120), ("60,120", 120), ("soon, 7", 7), ("30, Sun, 06 Nov 1994 08:50:37 GMT", 60),
        ("Sun, 06 Nov 1994 08:49:47 GMT, 30", 30), ("Sun Nov  6 08:49:57 1994, 5, Sun, 06 Nov 1994 08:49:47 GMT", 20), ("5,", 5),
    ])
    func longestOfSeveralCounts(value: String, seconds: Int) {
        #expect(RetryAfter.delay(value, now: Self.example) == .seconds(seconds))
    }

    /// The example of section 10.2.3.
    @Test func exampleOfStandardIsRead() {
        let now = Duration.seconds(946_684_799) - .seconds(60)
        #expect(RetryAfter.delay("Fri, 31 Dec 1999 23:59:59 GMT", now: now) == .seconds(60))
    }

    @Test(arguments: [
        // 2026-11-21: the 50 years end on 2076-11-21.
        (now: 1_795_219_200, text: "Saturday, 21-Nov-76 00:00:00 GMT", seconds: 3_373_142_400),
        (now: 1_795_219_200, text: "Sunday, 22-Nov-76 00:00:00 GMT", seconds: 217_468_800),
        (now: 1_795_219_200, text: "Sunday, 06-Nov-94 08:49:37 GMT", seconds: 784_111_777),
        (now: 1_795_219_200, text: "Saturday, 21-Nov-26 00:00:30 GMT", seconds: 1_795_219_230),
        (now: 1_795_219_200, text: "Saturday, 01-Jan-00 00:00:00 GMT", seconds: 946_684_800),
        // 2090-01-01: the year 10 is in the next century.
        (now: 3_786_912_000, text: "Friday, 01-Jan-10 00:00:00 GMT", seconds: 4_417_977_600),
        // 2000 had a leap day, 2100 has none.
        (now: 3_786_912_000, text: "Tuesday, 29-Feb-00 00:00:00 GMT", seconds: 951_782_400),
    ])
    func twoDigitYearIsAtMostFiftyYearsAhead(now: Int64, text: String, seconds: Int64) {
        #expect(HTTPDate.seconds(text, now: now) == seconds)
    }

    @Test(arguments: [
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Wed, 31 Dec 1969 23:59:59 GMT", -1),
        ("Sat, 01 Jan 0000 00:00:00 GMT", -62_167_219_200),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799), ("Tue, 29 Feb 2000 12:00:00 GMT", 951_825_600),
        ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_800), ("Mon, 01 Mar 2100 00:00:00 GMT", 4_107_542_400),
    ])
    func extremeDatesAreRead(text: String, seconds: Int64) {
        #expect(HTTPDate.seconds(text, now: 0) == seconds)
    }

    @Test func extremeClocksAreHandled() {
        for now in [Int64.min, -1, 0, .max] {
            // Before the year 50 there is no such year of two digits.
            #expect((RetryAfter.delay("Sunday, 06-Nov-94 08:49:37 GMT", now: .seconds(now)) == nil) == (now == .min))
            #expect(RetryAfter.delay("Sun, 06 Nov 1994 08:49:37 GMT", now: .seconds(now)) != nil)
        }
    }

    @Test func dateIsComparedWithServersClock() {
        let headers = ["retry-after": "Sun, 06 Nov 1994 08:49:37 GMT", "DATE": "Sun, 06 Nov 1994 08:49:07 GMT"]
        let failure = HTTPFailure(method: "GET", status: 503, headers: headers, time: .seconds(5))
        #expect(failure.retryAfter(maximum: .seconds(100)) == .seconds(30))
    }
}
