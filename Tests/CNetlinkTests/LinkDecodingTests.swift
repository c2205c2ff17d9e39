import CNetlink
import Testing

@Suite struct LinkDecodingTests {
    private let name = Attribute(3, text: "cable0")

    @Test func linkIsDecodedCompletely() throws {
        let information = Attribute(18, nested: [Attribute(1, text: "veth"), Attribute(2, [1, 2, 3])])
        let attributes = [name, Attribute(10, 42), Attribute(16, [6]), information, Attribute(35, 9)]
        let message = try #require(decodeOne(Frame.link(attributes)))
        #expect(message.kind == CNL_LINK)
        #expect(message.link.index == 7)
        #expect(message.link.flags == 0x1_1043)
        #expect(message.link.hardware_type == 1)
        #expect(message.link.master == 42)
        #expect(message.link.operational_state == 6)
        #expect(message.link.carrier_changes == 9)
        #expect(message.link.nameBytes == Array("cable0".utf8))
        #expect(message.link.kindText == "veth")
    }

    @Test func deletedLinkIsDecoded() {
        #expect(kinds(Frame.link(type: 17, [name])) == [CNL_LINK_GONE])
    }

    @Test func absentAttributesAreZero() throws {
        let link = try #require(decodeOne(Frame.link(type: 17, isWhole: false, [name]))).link
        #expect(link.carrier_changes == 0 && link.operational_state == 0 && link.master == 0 && link.kindText.isEmpty)
    }

    @Test(arguments: [
        Array("abcdefghijklmno".utf8), [0xFF, 0xFE, 0x80], Array("\u{1B}[31m\"'<".utf8), Array("x".utf8), Array("é✓".utf8),
    ])
    func namesKeepAllBytes(bytes: [UInt8]) throws {
        let message = try #require(decodeOne(Frame.link([Attribute(3, bytes + [0])])))
        #expect(message.kind == CNL_LINK)
        #expect(message.link.nameBytes == bytes)
    }

    @Test(arguments: [[], [0], Array("abcdefghijklmnop".utf8) + [0], Array("unended".utf8)])
    func invalidNamesAreMalformed(payload: [UInt8]) {
        #expect(kinds(Frame.link([Attribute(3, payload)])) == [CNL_MALFORMED])
    }

    @Test func bridgePortRemovalIsIgnored() throws {
        let message = try #require(decodeOne(Frame.link(type: 17, family: 7, [name, Attribute(10, 3)])))
        #expect(message.kind == CNL_OTHER)
        #expect(message.family == 7)
        #expect(message.link.index == 0)
    }

    /// The end of a scan, as kernel 6.12 announces it.
    private static let scan: [UInt8] = [
        0x40, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0x43, 0x10, 1, 0, 0, 0, 0, 0,
        0x0A, 0, 3, 0, 0x77, 0x6C, 0x61, 0x6E, 0x30, 0, 0, 0, 0x14, 0, 0x0B, 0, 0x10, 0, 0x19, 0x8B, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0,
    ]

    @Test func partialMessagesAreIgnored() {
        #expect(kinds(Self.scan) == [CNL_OTHER])
        let (state, changes) = (Attribute(16, [6]), Attribute(35, 3))
        for partial in [[], [state], [changes]] {
            #expect(kinds(Frame.link(isWhole: false, [name] + partial)) == [CNL_OTHER])
        }
        #expect(kinds(Frame.link(isWhole: false, [name, state, changes])) == [CNL_LINK])
        // The end of a link needs no state.
        #expect(kinds(Frame.link(type: 17, isWhole: false, [name])) == [CNL_LINK_GONE])
    }

    @Test func linkWithoutNameOrIndexIsMalformed() {
        #expect(kinds(Frame.link([Attribute(10, 1)])) == [CNL_MALFORMED])
        #expect(kinds(Frame.link(index: 0, [name])) == [CNL_MALFORMED])
        #expect(kinds(Frame.link(index: -1, [name])) == [CNL_MALFORMED])
    }

    @Test(arguments: [(0, 0), (6, 6), (20, 20), (32, 32), (33, 0), (200, 0)])
    func hardwareAddressMayHaveAnyLength(length: Int, kept: Int) throws {
        let bytes = (0..<length).map { UInt8($0) }
        let message = try #require(decodeOne(Frame.link([name, Attribute(1, bytes)])))
        #expect(message.kind == CNL_LINK && message.link.hardware_address_length == kept)
        #expect(withUnsafeBytes(of: message.link.hardware_address) { Array($0.prefix(kept)) } == Array(bytes.prefix(kept)))
    }

    @Test func nestedFlagKeepsAttributeType() throws {
        let information = Attribute(18 | 0x8000, nested: [Attribute(1, text: "veth")])
        #expect(try #require(decodeOne(Frame.link([name, information]))).link.kindText == "veth")
    }

    @Test func lastDuplicateAttributeWins() throws {
        #expect(try #require(decodeOne(Frame.link([name, Attribute(10, 1), Attribute(10, 2)]))).link.master == 2)
    }

    @Test func unterminatedKindIsMalformed() {
        #expect(kinds(Frame.link([name, Attribute(18, nested: [Attribute(1, Array("veth".utf8))])])) == [CNL_MALFORMED])
        #expect(kinds(Frame.link([name, Attribute(18, nested: [Attribute(1, [])])])) == [CNL_MALFORMED])
    }

    // libnl rejects this message: its "vlan" needs a 16-bit identifier in IFLA_INFO_DATA.
    @Test func unusedAttributesNeverHideALink() throws {
        let data = Attribute(2, nested: [Attribute(1, [1])])
        let protocols = Attribute(26, nested: [Attribute(10, nested: [Attribute(1, [1])])])
        let information = Attribute(18, nested: [Attribute(1, text: "vlan"), data])
        let message = try #require(decodeOne(Frame.link([name, information, protocols])))
        #expect(message.kind == CNL_LINK)
        #expect(message.link.kindText == "vlan")
    }

    @Test(arguments: [31, 32, 200])
    func longKindsAreTruncated(length: Int) throws {
        let kind = String(repeating: "k", count: length)
        let message = try #require(decodeOne(Frame.link([name, Attribute(18, nested: [Attribute(1, text: kind)])])))
        #expect(message.link.kindText == String(repeating: "k", count: 31))
    }

    @Test(arguments: [
        Attribute(10, [1]), Attribute(35, [1, 2]), Attribute(16, [1, 2]), Attribute(broken: [200, 0, 35, 0]),
        Attribute(broken: [2, 0, 35, 0]), Attribute(18, nested: [Attribute(broken: [9, 0, 1, 0])]),
    ])
    func wrongAttributeSizesAreMalformed(attribute: Attribute) {
        #expect(kinds(Frame.link([name, attribute])) == [CNL_MALFORMED])
    }
}

@Suite struct AddressDecodingTests {
    private let local: [UInt8] = [192, 0, 2, 10]
    private let peer: [UInt8] = [192, 0, 2, 11]
    private let local6: [UInt8] = [0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]

    @Test func localAddressWinsOverPeer() throws {
        let message = try #require(decodeOne(Frame.address(family: 2, prefix: 24, [Attribute(1, peer), Attribute(2, local)])))
        #expect(message.kind == CNL_ADDRESS)
        #expect(message.family == 2)
        #expect(message.address.interface == 7)
        #expect(message.address.prefix_length == 24)
        #expect(message.address.local.octets == local)
    }

    @Test func ipv6FallsBackToPeerAddress() throws {
        let message = try #require(decodeOne(Frame.address(type: 21, family: 10, prefix: 64, scope: 253, [Attribute(1, local6)])))
        #expect(message.kind == CNL_ADDRESS_GONE)
        #expect(message.address.scope == 253)
        #expect(message.address.local.octets == local6)
    }

    @Test func absentIPv4AddressIsZero() throws {
        let message = try #require(decodeOne(Frame.address(family: 2, prefix: 8, [])))
        #expect(message.kind == CNL_ADDRESS)
        #expect(message.address.local.octets == [0, 0, 0, 0])
        #expect(kinds(Frame.address(family: 10, prefix: 8, [])) == [CNL_MALFORMED])
    }

    @Test func ipv4PeerAloneIsIgnored() throws {
        let message = try #require(decodeOne(Frame.address(family: 2, prefix: 32, [Attribute(1, peer)])))
        #expect(message.kind == CNL_ADDRESS && message.address.local.octets == [0, 0, 0, 0])
    }

    @Test func flagsComeFromWideAttribute() throws {
        let wide = [Attribute(1, local6), Attribute(8, 0x0000_0A40)]
        #expect(try #require(decodeOne(Frame.address(family: 10, prefix: 64, flags: 0x80, wide))).address.flags == 0xA40)
        let narrow = [Attribute(1, local6)]
        #expect(try #require(decodeOne(Frame.address(family: 10, prefix: 64, flags: 0x80, narrow))).address.flags == 0x80)
    }

    @Test func otherFamiliesAreIgnored() {
        #expect(kinds(Frame.address(family: 28, prefix: 0, [])) == [CNL_OTHER])
    }

    @Test func invalidAddressesAreMalformed() {
        #expect(kinds(Frame.address(family: 2, prefix: 33, [Attribute(2, local)])) == [CNL_MALFORMED])
        #expect(kinds(Frame.address(family: 10, prefix: 129, [Attribute(1, local6)])) == [CNL_MALFORMED])
        #expect(kinds(Frame.address(family: 2, prefix: 24, [Attribute(2, local6)])) == [CNL_MALFORMED])
        #expect(kinds(Frame.address(family: 10, prefix: 64, [Attribute(1, local)])) == [CNL_MALFORMED])
        #expect(kinds(Frame.address(family: 2, prefix: 24, index: 0, [Attribute(2, local)])) == [CNL_MALFORMED])
        #expect(kinds(Frame.address(family: 2, prefix: 24, [Attribute(2, local), Attribute(8, [1])])) == [CNL_MALFORMED])
    }
}
