import CNetlink
import Testing

@Suite struct AddressDecodingTests {
    private let local: [UInt8] = [192, 0, 2, 10]
    private let peer: [UInt8] = [192, 0, 2, 11]
    private let local6: [UInt8] = [0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]

    @Test func localAddressIsNotThePeers() throws {
        let message = try #require(decodeOne(Frame.address(family: 2, prefix: 24, [Attribute(1, peer), Attribute(2, local)])))
        #expect(message.kind == CNL_ADDRESS)
        #expect(message.family == 2)
        #expect(message.address.interface == 7)
        #expect(message.address.prefix_length == 24)
        #expect(message.address.local.octets == local)
    }

    @Test func addressStandsInForAnAbsentLocalOneInIPv6() throws {
        let message = try #require(decodeOne(Frame.address(type: 21, family: 10, prefix: 64, scope: 253, [Attribute(1, local6)])))
        #expect(message.kind == CNL_ADDRESS_GONE)
        #expect(message.address.scope == 253)
        #expect(message.address.local.octets == local6)
    }

    @Test func zeroIsLeftOutByTheKernelInIPv4() throws {
        let message = try #require(decodeOne(Frame.address(family: 2, prefix: 8, [])))
        #expect(message.kind == CNL_ADDRESS)
        #expect(message.address.local.octets == [0, 0, 0, 0])
        #expect(kinds(Frame.address(family: 10, prefix: 8, [])) == [CNL_MALFORMED])
    }

    @Test func peerAloneIsNoAddressInIPv4() throws {
        let message = try #require(decodeOne(Frame.address(family: 2, prefix: 32, [Attribute(1, peer)])))
        #expect(message.kind == CNL_ADDRESS && message.address.local.octets == [0, 0, 0, 0])
    }

    @Test func flagsComeFromTheWideAttribute() throws {
        let wide = [Attribute(1, local6), Attribute(8, 0x0000_0A40)]
        #expect(try #require(decodeOne(Frame.address(family: 10, prefix: 64, flags: 0x80, wide))).address.flags == 0xA40)
        let narrow = [Attribute(1, local6)]
        #expect(try #require(decodeOne(Frame.address(family: 10, prefix: 64, flags: 0x80, narrow))).address.flags == 0x80)
    }

    @Test func otherFamiliesAreOfNoInterest() {
        #expect(kinds(Frame.address(family: 28, prefix: 0, [])) == [CNL_OTHER])
    }

    @Test func impossibleAddressesAreMalformed() {
        #expect(kinds(Frame.address(family: 2, prefix: 33, [Attribute(2, local)])) == [CNL_MALFORMED])
        #expect(kinds(Frame.address(family: 10, prefix: 129, [Attribute(1, local6)])) == [CNL_MALFORMED])
        #expect(kinds(Frame.address(family: 2, prefix: 24, [Attribute(2, local6)])) == [CNL_MALFORMED])
        #expect(kinds(Frame.address(family: 10, prefix: 64, [Attribute(1, local)])) == [CNL_MALFORMED])
        #expect(kinds(Frame.address(family: 2, prefix: 24, index: 0, [Attribute(2, local)])) == [CNL_MALFORMED])
        #expect(kinds(Frame.address(family: 2, prefix: 24, [Attribute(2, local), Attribute(8, [1])])) == [CNL_MALFORMED])
    }
}
