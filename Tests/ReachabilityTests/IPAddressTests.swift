import Reachability
import Testing

@Suite struct IPAddressTests {
    @Test(arguments: [
        ("192.0.2.1", "192.0.2.1"), ("0.0.0.0", "0.0.0.0"), ("255.255.255.255", "255.255.255.255"), ("::", "::"), ("::1", "::1"),
        ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"), ("fe80::fc:ff:fe00:1", "fe80::fc:ff:fe00:1"),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.1"),
    ])
    func textIsParsedAndWrittenCanonically(text: String, canonical: String) throws {
        let address = try #require(IPAddress(text))
        #expect(address.description == canonical)
        #expect(IPAddress(bytes: address.bytes) == address)
    }

    @Test(arguments: [
        "", "1", "1.2.3", "1.2.3.4.5", "256.1.1.1", " 1.2.3.4", "1.2.3.4 ", "fe80::1%eth0", ":::", "g::", "1.2.3.4\0", "١.٢.٣.٤",
    ])
    func otherTextIsRefused(text: String) {
        #expect(IPAddress(text) == nil)
    }

    @Test(arguments: [0, 1, 3, 5, 15, 17])
    func onlyFourOrSixteenBytesMakeAnAddress(count: Int) {
        #expect(IPAddress(bytes: [UInt8](repeating: 1, count: count)) == nil)
    }

    @Test func specialRangesAreRecognised() {
        #expect(ip("127.255.0.1").isLoopback && ip("::1").isLoopback && !ip("128.0.0.1").isLoopback && !ip("::2").isLoopback)
        #expect(ip("169.254.9.9").isLinkLocal && ip("fe80::1").isLinkLocal && ip("febf::1").isLinkLocal)
        #expect(!ip("169.255.0.1").isLinkLocal && !ip("fec0::1").isLinkLocal && !ip("fd00::1").isLinkLocal)
        #expect(ip("224.0.0.1").isMulticast && ip("239.255.255.255").isMulticast && ip("ff02::1").isMulticast)
        #expect(!ip("240.0.0.1").isMulticast && !ip("fe80::1").isMulticast)
        #expect(ip("0.0.0.0").isUnspecified && ip("::").isUnspecified && !ip("::1").isUnspecified)
    }

    @Test func anIPv4MappedAddressMeansItsIPv4Address() {
        #expect(ip("::ffff:192.0.2.1").unmapped == ip("192.0.2.1"))
        #expect(ip("::fffe:192.0.2.1").unmapped == ip("::fffe:192.0.2.1"))
        #expect(Scope.address(ip("::ffff:192.0.2.1")) == .address(ip("192.0.2.1")))
    }

    @Test func everyAddressSurvivesItsText() {
        var state: UInt64 = 7
        func next() -> UInt8 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return UInt8(truncatingIfNeeded: state >> 33)
        }
        for count in [4, 16] {
            for _ in 0..<500 {
                // Runs of zeros make IPv6 text difficult.
                let bytes = (0..<count).map { _ in next() & 3 == 0 ? next() : 0 }
                let address = IPAddress(bytes: bytes)
                #expect(address.flatMap { IPAddress($0.description) } == address)
            }
        }
    }
}

@Suite struct IPPrefixTests {
    @Test func prefixContainsItsAddresses() {
        let block = prefix("10.9.0.77/16")
        #expect(block.address == ip("10.9.0.0"))
        #expect(block.contains(ip("10.9.255.255")) && !block.contains(ip("10.10.0.0")) && !block.contains(ip("::10.9.0.1")))
        #expect(prefix("128.0.0.0/1").contains(ip("198.41.0.4")) && !prefix("0.0.0.0/1").contains(ip("198.41.0.4")))
        #expect(IPPrefix.all(.ipv6).contains(ip("2001:db8::1")) && !IPPrefix.all(.ipv6).contains(ip("192.0.2.1")))
        #expect(prefix("2001:db8::1/128").contains(ip("2001:db8::1")) && !prefix("2001:db8::1/128").contains(ip("2001:db8::2")))
    }

    @Test func lengthsOutsideTheFamilyAreClamped() {
        #expect(IPPrefix(ip("192.0.2.1"), length: 99) == prefix("192.0.2.1/32"))
        #expect(IPPrefix(ip("192.0.2.1"), length: -1) == .all(.ipv4))
        #expect(IPPrefix(ip("::1"), length: .max).length == 128)
    }

    @Test func textMatchesIp() {
        #expect(prefix("10.0.0.0/8").description == "10.0.0.0/8")
        #expect(IPPrefix.all(.ipv4).description == "default")
    }
}
