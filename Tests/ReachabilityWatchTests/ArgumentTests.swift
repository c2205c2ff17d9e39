import Reachability
import ReachabilityTesting
import Testing

@testable import reachability_watch

struct ArgumentTests {
    @Test func readsAddressesOfBothFamilies() throws {
        #expect(try DestinationArgument("192.0.2.1").address == Samples.address("192.0.2.1"))
        #expect(try DestinationArgument("2001:DB8::1").address == Samples.address("2001:db8::1"))
        #expect(try DestinationArgument("192.0.2.1").interface == nil)
    }

    @Test(arguments: ["nas", "nas.example.org", "nas.example.org.", "NAS_2.example", "3com.com", "xn--grn-hoa.example"])
    func readsNamesOfHosts(_ text: String) throws {
        let argument = try DestinationArgument(text)
        #expect(argument.scope == .host(text) && argument.address == nil && argument.interface == nil)
    }

    @Test func readsTheInterfaceBehindThePercentSign() throws {
        let argument = try DestinationArgument("fe80::1%eth0")
        #expect(argument.address == Samples.address("fe80::1"))
        #expect(argument.interface == "eth0")
    }

    @Test(arguments: [
        "", "192.0.2", "192.0.2.300", "192.0.2.1:80", "nas:80", "nas example", "-nas", "nas-", "a..b", ".", "nas%eth0",
        "grün.example", "[::1]", "::1%", "%eth0", "::1%a/b", "::1%a b", "192.0.2.1/24", "1.2.3.4 ",
    ])
    func refusesWhatIsNoDestination(_ text: String) {
        #expect(throws: InvalidArgument.self) { try DestinationArgument(text) }
    }

    @Test(arguments: ["e\u{1b}[31m0", "a\u{202e}b", #"q"uote"#, #"raw\xff\x5c"#, "bell\u{7}", "grün", "line\u{85}break"])
    func takesAnInterfaceNameAsItWasPrinted(_ name: String) throws {
        #expect(try InterfaceArgument(escapedForTerminal(name)).name == name)
        #expect(try InterfaceArgument(name).name == name)
    }

    @Test(arguments: ["fifteen-letters", "größe-größe", #"\xff\xfe\x5c\xff\xfe\x5c\xff\xfe\x5c\xff\xfe\x5c\xff\xfe\x5c"#])
    func takesAnInterfaceNameOf15Bytes(_ name: String) throws {
        #expect(try InterfaceArgument(name).name == name)
        #expect(throws: InvalidArgument.self) { try InterfaceArgument(name + "x") }
        #expect(throws: InvalidArgument.self) { try DestinationArgument("fe80::1%\(name)x") }
    }

    @Test(
        arguments: [("0", 0), ("42", 42), ("0x2a", 42), ("0XFF", 255), ("4294967295", .max), ("0xffffffff", .max)]
            as [(String, UInt32)])
    func readsDecimalAndHexadecimalNumbers(_ text: String, _ expected: UInt32) throws {
        #expect(try NumberArgument(text).value == expected)
    }

    @Test(arguments: ["", "-1", "+1", "4294967296", "0x", "0x+1", "ff", "1.0", " 1", "0x100000000"])
    func refusesOtherNumbers(_ text: String) {
        #expect(throws: InvalidArgument.self) { try NumberArgument(text) }
    }

    @Test(arguments: [7, 99] as [UInt64])
    func neverTrapsOnAnyText(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<20_000 {
            let text = random.text(of: #"0123456789abcdefx:.%/\u{}+-"#, length: 40)
            if let name = try? InterfaceArgument(text).name {
                #expect(!name.isEmpty && !name.contains("/"), "seed \(seed), text \(text.debugDescription)")
            }
            _ = try? DestinationArgument(text)
            _ = try? NumberArgument(text)
            #expect(unescapedFromTerminal(escapedForTerminal(text)).unicodeScalars.count <= text.unicodeScalars.count)
        }
    }
}
