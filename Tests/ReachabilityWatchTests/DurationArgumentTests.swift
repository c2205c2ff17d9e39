import ReachabilityTesting
import Testing

@testable import reachability_watch

struct DurationArgumentTests {
    @Test(arguments: [
        ("250ms", Duration.milliseconds(250)), ("2s", .seconds(2)), ("1.5s", .milliseconds(1500)), ("5m", .seconds(300)),
        ("1h", .seconds(3600)), ("0s", .zero), ("007s", .seconds(7)), ("0.5m", .seconds(30)), ("1.25h", .seconds(4500)),
        ("0.000000001s", .nanoseconds(1)), ("0.0000000019s", .nanoseconds(1)), ("0.1ms", .microseconds(100)),
    ])
    func readsANumberWithAUnit(_ text: String, _ expected: Duration) throws {
        #expect(try DurationArgument(text).duration == expected)
    }

    @Test(arguments: [
        "", "5", "s", "5x", "5us", "-1s", "+1s", "1 s", " 1s", "1s ", "1.s", ".5s", "1.2.3s", "1e3s", "1m30s", "٣s", "5S", "inf",
        "1,5s", ".",
        "5s\0",
    ])
    func refusesEverythingElseAndSaysWhatItTakes(_ text: String) {
        let error = #expect(throws: InvalidArgument.self) { try DurationArgument(text) }
        #expect(error?.description.contains("250ms, 2s, 1.5s, 5m or 1h") == true)
    }

    @Test(arguments: ["99999999999999999999h", "9223372036854775807s", "9223372036854775807.999h", "876001h", "1000000h"])
    func countsWhatIsVeryLongAsACentury(_ text: String) throws {
        #expect(try DurationArgument(text).duration == DurationArgument.longest)
    }

    @Test func readsManyDigitsBehindThePoint() throws {
        let text = "1." + String(repeating: "9", count: 10_000) + "h"
        #expect(try DurationArgument(text).duration < .seconds(7200))
        #expect(try DurationArgument(text).duration > .seconds(7199))
    }

    @Test(arguments: [1, 20_260_131, 0xdead_beef] as [UInt64])
    func neverTrapsAndStaysWithinBounds(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var understood = 0
        for _ in 0..<20_000 {
            let text = random.text(of: "0123456789.smh9", length: 24)
            guard let duration = try? DurationArgument(text).duration else { continue }
            understood += 1
            #expect((.zero...DurationArgument.longest).contains(duration), "seed \(seed), text \(text.debugDescription)")
        }
        #expect(understood > 0, "seed \(seed)")
    }
}
