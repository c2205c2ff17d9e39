import Reachability
import ReachabilityTesting
import Testing

@testable import CommandKit
@testable import reachability_watch

struct ArgumentTests {
    @Test func parsesAddressesOfBothFamilies() throws {
        #expect(try DestinationArgument("192.0.2.1").address == Samples.address("192.0.2.1"))
        #expect(try DestinationArgument("2001:DB8::1").address == Samples.address("2001:db8::1"))
        #expect(try DestinationArgument("192.0.2.1").interface == nil)
    }

    @Test(arguments: ["nas", "nas.example.org", "nas.example.org.", "NAS_2.example", "3com.com", "xn--grn-hoa.example"])
    func parsesHostNames(_ text: String) throws {
        let argument = try DestinationArgument(text)
        #expect(argument.scope == .host(text) && argument.address == nil && argument.interface == nil)
    }

    @Test func parsesTheInternet() throws {
        #expect(try DestinationArgument("internet").scope == .internet)
        #expect(try DestinationArgument("internet.").scope == .host("internet."))
    }

    @Test func parsesTheInterfaceAfterThePercentSign() throws {
        let argument = try DestinationArgument("fe80::1%eth0")
        #expect(argument.address == Samples.address("fe80::1"))
        #expect(argument.interface == "eth0")
    }

    @Test(arguments: [
        "", "192.0.2", "192.0.2.300", "192.0.2.1:80", "nas:80", "nas example", "-nas", "nas-", "a..b", ".", "nas%eth0",
        "grün.example", "[::1]", "::1%", "%eth0", "::1%a/b", "::1%a b", "192.0.2.1/24", "1.2.3.4 ",
    ])
    func rejectsOtherDestinations(_ text: String) {
        #expect(throws: InvalidArgument.self) { try DestinationArgument(text) }
    }

    @Test(arguments: ["e\u{1b}[31m0", "a\u{202e}b", #"q"uote"#, #"raw\xff\x5c"#, "bell\u{7}", "grün", "line\u{85}break"])
    func acceptsInterfaceNamesAsPrinted(_ name: String) throws {
        #expect(try InterfaceArgument(ForeignText(name: name).terminal).name == name)
        #expect(try InterfaceArgument(name).name == name)
    }

    /// Alternative names have at most 127 bytes (ALTIFNAMSIZ).
    @Test(arguments: [
        String(repeating: "x", count: 127), String(repeating: "größe-", count: 15) + "größe",
        String(repeating: #"\xff\xfe\x5c"#, count: 42) + "x",
    ])
    func acceptsInterfaceNamesOf127Bytes(_ name: String) throws {
        #expect(try InterfaceArgument(name).name == name)
        #expect(throws: InvalidArgument.self) { try InterfaceArgument(name + "x") }
        #expect(throws: InvalidArgument.self) { try DestinationArgument("fe80::1%\(name)x") }
    }

    @Test(
        arguments: [("0", 0), ("42", 42), ("0x2a", 42), ("0XFF", 255), ("4294967295", .max), ("0xffffffff", .max)]
            as [(String, UInt32)])
    func parsesDecimalAndHexadecimalNumbers(_ text: String, _ expected: UInt32) throws {
        #expect(try NumberArgument(text).value == expected)
    }

    @Test(arguments: ["", "-1", "+1", "4294967296", "0x", "0x+1", "ff", "1.0", " 1", "0x100000000"])
    func rejectsOtherNumbers(_ text: String) {
        #expect(throws: InvalidArgument.self) { try NumberArgument(text) }
    }

    @Test(
        arguments: [("0", 0), ("4095", 4095), ("64KiB", 65_536), ("10MiB", 10_485_760), ("2GiB", 2_147_483_648)]
            as [(String, Int64)])
    func parsesSizes(_ text: String, _ expected: Int64) throws {
        #expect(try SizeArgument(text).bytes == expected)
    }

    @Test(arguments: ["", "KiB", "-1", "+1", "1.5MiB", "1 MiB", "1MB", "1mib", "9223372036854775808", "9999999999GiB", "٣KiB"])
    func rejectsOtherSizes(_ text: String) {
        #expect(throws: InvalidArgument.self) { try SizeArgument(text) }
    }

    @Test(arguments: [7, 99] as [UInt64])
    func randomTextNeverTraps(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<20_000 {
            let text = random.text(of: #"0123456789abcdefx:.%/\u{}+-"#, length: 40)
            if let name = try? InterfaceArgument(text).name {
                #expect(!name.isEmpty && !name.contains("/"), "seed \(seed), text \(text.debugDescription)")
            }
            _ = try? DestinationArgument(text)
            _ = try? NumberArgument(text)
            #expect(ForeignText(typedName: ForeignText(text).terminal).text.unicodeScalars.count <= text.unicodeScalars.count)
            _ = try? SizeArgument(text)
        }
    }
}

struct DurationArgumentTests {
    @Test(arguments: [
        ("250ms", Duration.milliseconds(250)), ("2s", .seconds(2)), ("1.5s", .milliseconds(1500)), ("5m", .seconds(300)),
        ("1h", .seconds(3600)), ("0s", .zero), ("007s", .seconds(7)), ("0.5m", .seconds(30)), ("1.25h", .seconds(4500)),
        ("0.000000001s", .nanoseconds(1)), ("0.0000000019s", .nanoseconds(1)), ("0.1ms", .microseconds(100)),
    ])
    func parsesANumberWithAUnit(_ text: String, _ expected: Duration) throws {
        #expect(try DurationArgument(text).duration == expected)
    }

    @Test(arguments: [
        "", "5", "s", "5x", "5us", "-1s", "+1s", "1 s", " 1s", "1s ", "1.s", ".5s", "1.2.3s", "1e3s", "1m30s", "٣s", "5S", "inf",
        "1,5s", ".",
        "5s\0",
    ])
    func rejectsOtherDurationsWithExamples(_ text: String) {
        let error = #expect(throws: InvalidArgument.self) { try DurationArgument(text) }
        #expect(error?.description.contains("250ms, 2s, 1.5s, 5m, 1h or 3d") == true)
    }

    @Test(arguments: ["99999999999999999999h", "9223372036854775807s", "9223372036854775807.999h", "876001h", "1000000h"])
    func clampsLongDurationsToACentury(_ text: String) throws {
        #expect(try DurationArgument(text).duration == DurationArgument.longest)
    }

    @Test func parsesManyDecimalDigits() throws {
        let text = "1." + String(repeating: "9", count: 10_000) + "h"
        #expect(try DurationArgument(text).duration < .seconds(7200))
        #expect(try DurationArgument(text).duration > .seconds(7199))
    }

    @Test(arguments: [1, 20_260_131, 0xdead_beef] as [UInt64])
    func randomDurationsStayWithinBounds(_ seed: UInt64) {
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
