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

    /// Returns the alternative names of a link.
    private func names(_ frame: [UInt8], at offset: Int = 0) -> [String] {
        // Behind other bytes, as in a file.
        let bytes = [UInt8](repeating: 0xff, count: offset) + frame
        return bytes.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress else { return [] }
            var (message, place, position) = (cnl_message(), 0, UInt32(0))
            guard cnl_decode(base + offset, frame.count, &place, &message), message.kind == CNL_LINK else { return [] }
            var (names, buffer): ([String], [CChar]) = ([], [CChar](repeating: 0, count: Int(CNL_LONG_NAME_SIZE)))
            while cnl_next_name(base + offset, &message.link, &position, &buffer) {
                names.append(String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self))
            }
            return names
        }
    }

    @Test(arguments: [0, 1, 3]) func alternativeNamesAreRead(offset: Int) {
        let long = String(repeating: "e", count: 127)
        let list = Attribute(52, nested: [Attribute(53, text: "enp0s31f6"), Attribute(9, 7), Attribute(53, text: long)])
        #expect(names(Frame.link([name, list]), at: offset) == ["enp0s31f6", long])
        #expect(names(Frame.link([name]), at: offset).isEmpty)
        // One that is too long, or empty, is none.
        let others = [Attribute(53, text: long + "x"), Attribute(53, text: ""), Attribute(53, text: "b")]
        #expect(names(Frame.link([name, Attribute(52, nested: others)]), at: offset) == ["b"])
    }

    @Test func deviceBelowIsOfTheSameNamespace() throws {
        #expect(try #require(decodeOne(Frame.link([name, Attribute(5, 3)]))).link.lower == 3)
        #expect(try #require(decodeOne(Frame.link([name, Attribute(5, 3), Attribute(37, 0)]))).link.lower == 0)
    }

    private func tunnel(_ kind: String, _ data: [Attribute], _ others: [Attribute] = []) throws -> cnl_tunnel {
        let information = Attribute(18, nested: [Attribute(1, text: kind), Attribute(2, nested: data)])
        let message = try #require(decodeOne(Frame.link([name, information] + others)))
        #expect(message.kind == CNL_LINK && message.link.kindText == kind)
        return message.link.tunnel
    }

    private static let (near, far): ([UInt8], [UInt8]) = ([192, 0, 2, 10], [203, 0, 113, 9])
    private static let far6 = [0x20, 0x01, 0x0d, 0xb8] + [UInt8](repeating: 0, count: 11) + [9]

    @Test(arguments: ["gre", "gretap", "erspan"]) func tunnelOfGREIsRead(kind: String) throws {
        let data = [
            Attribute(1, 4), Attribute(6, Self.near), Attribute(7, Self.far), Attribute(9, [0x11]), Attribute(20, 0x2a),
        ]
        let read = try tunnel(kind, data)
        #expect(read.remote.octets == Self.far && read.local.octets == Self.near && read.interface == 4 && read.mark == 0x2a)
        // The lowest bit of the type of service means that it is inherited.
        #expect(read.type_of_service == 0x10 && read.protocol == 47)
        // The socket is in another namespace.
        #expect(try tunnel(kind, data, [Attribute(37, 0)]).remote.family == 0)
    }

    @Test(arguments: [("ipip", 4), ("sit", 41)] as [(String, UInt8)]) func tunnelOfIPIsRead(kind: String, number: UInt8) throws {
        let read = try tunnel(kind, [Attribute(1, 4), Attribute(2, Self.near), Attribute(3, Self.far), Attribute(20, 7)])
        #expect(read.remote.octets == Self.far && read.interface == 4 && read.mark == 7 && read.protocol == number)
        // 6to4 and tunnels with metadata have no remote.
        #expect(try tunnel(kind, [Attribute(3, [0, 0, 0, 0])]).remote.family == 0)
        #expect(try tunnel(kind, []).remote.family == 0)
    }

    @Test func tunnelsOverIPv6AreRead() throws {
        #expect(try tunnel("ip6gre", [Attribute(7, Self.far6)]).remote.octets == Self.far6)
        #expect(try tunnel("ip6tnl", [Attribute(3, Self.far6)]).remote.octets == Self.far6)
        #expect(try tunnel("vxlan", [Attribute(16, Self.far6), Attribute(3, 4)]).remote.octets == Self.far6)
        #expect(try tunnel("vxlan", [Attribute(2, Self.far), Attribute(3, 4)]).interface == 4)
        #expect(try tunnel("geneve", [Attribute(2, Self.far)]).remote.octets == Self.far)
    }

    @Test func attributesOfAnotherShapeAreSkipped() throws {
        #expect(try tunnel("gre", [Attribute(7, Self.far6), Attribute(1, [4])]).remote.family == 0)
        #expect(try tunnel("wireguard", [Attribute(7, Self.far)]).remote.family == 0)
        #expect(try tunnel("gre", [Attribute(broken: [9, 0, 7, 0])]).remote.family == 0)
    }

    @Test func bondWithoutMonitoringIsRead() throws {
        func isUnmonitored(_ data: [Attribute], kind: String = "bond") throws -> Bool {
            let information = Attribute(18, nested: [Attribute(1, text: kind), Attribute(2, nested: data)])
            return try #require(decodeOne(Frame.link([name, information]))).link.is_unmonitored
        }
        // IFLA_BOND_MIIMON and IFLA_BOND_ARP_INTERVAL.
        #expect(try isUnmonitored([Attribute(1, [1]), Attribute(3, 0), Attribute(7, 0)]))
        #expect(try !isUnmonitored([Attribute(3, 100), Attribute(7, 0)]))
        #expect(try !isUnmonitored([Attribute(3, 0), Attribute(7, 1000)]))
        #expect(try !isUnmonitored([Attribute(3, 0)]), "the kernel always writes both")
        #expect(try !isUnmonitored([Attribute(3, [0]), Attribute(7, 0)]))
        #expect(try !isUnmonitored([Attribute(3, 0), Attribute(7, 0)], kind: "bridge"))
    }

    @Test func neighbourIsRead() throws {
        let fixed: [UInt8] = [2, 0, 0, 0] + Frame.raw(UInt32(7)) + Frame.raw(UInt16(0x20)) + [0, 1]
        let frame = Frame(type: 28, fixed: fixed, [Attribute(1, Self.far), Attribute(2, [2, 0, 0, 0, 0, 1])]).bytes
        let message = try #require(decodeOne(frame))
        #expect(message.kind == CNL_NEIGHBOUR && message.neighbour.interface == 7 && message.neighbour.state == 0x20)
        #expect(message.neighbour.address.octets == Self.far && message.neighbour.hardware_address_length == 6)
        #expect(kinds(Frame(type: 28, fixed: fixed).bytes) == [CNL_MALFORMED], "a neighbour without address")
        // A bridge's entry has no address, a VXLAN's any.
        #expect(kinds(Frame(type: 28, fixed: [7] + fixed.dropFirst()).bytes) == [CNL_NEIGHBOUR])
        #expect(kinds(Frame(type: 29, fixed: fixed, [Attribute(1, Self.far)]).bytes) == [CNL_NEIGHBOUR_GONE])
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
