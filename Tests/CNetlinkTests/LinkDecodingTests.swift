import CNetlink
import Testing

@Suite struct LinkDecodingTests {
    private let name = Attribute(3, text: "cable0")

    @Test func linkYieldsEverythingItSays() throws {
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

    @Test func deletedLinkIsGone() {
        #expect(kinds(Frame.link(type: 17, [name])) == [CNL_LINK_GONE])
    }

    @Test func absentAttributesAreZero() throws {
        let link = try #require(decodeOne(Frame.link([name]))).link
        #expect(link.carrier_changes == 0 && link.operational_state == 0 && link.master == 0 && link.kindText.isEmpty)
    }

    @Test(arguments: [
        Array("abcdefghijklmno".utf8), [0xFF, 0xFE, 0x80], Array("\u{1B}[31m\"'<".utf8), Array("x".utf8), Array("é✓".utf8),
    ])
    func namesAreKeptByteForByte(bytes: [UInt8]) throws {
        let message = try #require(decodeOne(Frame.link([Attribute(3, bytes + [0])])))
        #expect(message.kind == CNL_LINK)
        #expect(message.link.nameBytes == bytes)
    }

    @Test(arguments: [[], [0], Array("abcdefghijklmnop".utf8) + [0], Array("unended".utf8)])
    func impossibleNamesAreMalformed(payload: [UInt8]) {
        #expect(kinds(Frame.link([Attribute(3, payload)])) == [CNL_MALFORMED])
    }

    @Test func aPortLeavingItsBridgeIsNoDeletedLink() throws {
        let message = try #require(decodeOne(Frame.link(type: 17, family: 7, [name, Attribute(10, 3)])))
        #expect(message.kind == CNL_OTHER)
        #expect(message.family == 7)
        #expect(message.link.index == 0)
    }

    @Test func wirelessEventsAreNoChangeOfTheLink() {
        let wireless = Attribute(11, [1, 2, 3, 4])
        #expect(kinds(Frame.link(change: 0, [wireless])) == [CNL_OTHER])
        #expect(kinds(Frame.link(change: 0, [wireless, name])) == [CNL_LINK])
        #expect(kinds(Frame.link(change: 1, [wireless])) == [CNL_MALFORMED])
    }

    @Test func linkWithoutNameOrIndexIsMalformed() {
        #expect(kinds(Frame.link([Attribute(10, 1)])) == [CNL_MALFORMED])
        #expect(kinds(Frame.link(index: 0, [name])) == [CNL_MALFORMED])
        #expect(kinds(Frame.link(index: -1, [name])) == [CNL_MALFORMED])
    }

    @Test(arguments: [(0, 0), (6, 6), (20, 20), (32, 32), (33, 0), (200, 0)])
    func hardwareAddressesOfAnyLengthArePossible(length: Int, kept: Int) throws {
        let bytes = (0..<length).map { UInt8($0) }
        let message = try #require(decodeOne(Frame.link([name, Attribute(1, bytes)])))
        #expect(message.kind == CNL_LINK && message.link.hardware_address_length == kept)
        #expect(withUnsafeBytes(of: message.link.hardware_address) { Array($0.prefix(kept)) } == Array(bytes.prefix(kept)))
    }

    @Test func nestedFlagLeavesTheTypeAlone() throws {
        let information = Attribute(18 | 0x8000, nested: [Attribute(1, text: "veth")])
        #expect(try #require(decodeOne(Frame.link([name, information]))).link.kindText == "veth")
    }

    @Test func lastOfTwoSameAttributesCounts() throws {
        #expect(try #require(decodeOne(Frame.link([name, Attribute(10, 1), Attribute(10, 2)]))).link.master == 2)
    }

    @Test func kindWithoutItsEndIsMalformed() {
        #expect(kinds(Frame.link([name, Attribute(18, nested: [Attribute(1, Array("veth".utf8))])])) == [CNL_MALFORMED])
        #expect(kinds(Frame.link([name, Attribute(18, nested: [Attribute(1, [])])])) == [CNL_MALFORMED])
    }

    // libnl by itself refuses this message: its "vlan" wants a 16-bit identifier in IFLA_INFO_DATA.
    @Test func attributesOfNoInterestCannotHideALink() throws {
        let data = Attribute(2, nested: [Attribute(1, [1])])
        let protocols = Attribute(26, nested: [Attribute(10, nested: [Attribute(1, [1])])])
        let information = Attribute(18, nested: [Attribute(1, text: "vlan"), data])
        let message = try #require(decodeOne(Frame.link([name, information, protocols])))
        #expect(message.kind == CNL_LINK)
        #expect(message.link.kindText == "vlan")
    }

    @Test(arguments: [31, 32, 200])
    func longKindsAreCut(length: Int) throws {
        let kind = String(repeating: "k", count: length)
        let message = try #require(decodeOne(Frame.link([name, Attribute(18, nested: [Attribute(1, text: kind)])])))
        #expect(message.link.kindText == String(repeating: "k", count: 31))
    }

    @Test(arguments: [
        Attribute(10, [1]), Attribute(35, [1, 2]), Attribute(16, [1, 2]), Attribute(broken: [200, 0, 35, 0]),
        Attribute(broken: [2, 0, 35, 0]), Attribute(18, nested: [Attribute(broken: [9, 0, 1, 0])]),
    ])
    func attributesOfWrongSizeAreMalformed(attribute: Attribute) {
        #expect(kinds(Frame.link([name, attribute])) == [CNL_MALFORMED])
    }
}
