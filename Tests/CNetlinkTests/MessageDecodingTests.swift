import CNetlink
import Testing

@Suite struct MessageDecodingTests {
    private let rule = Frame(type: 32, fixed: [2] + [UInt8](repeating: 0, count: 11)).bytes

    @Test(arguments: [(Int32(0), Int32(0)), (-22, 22), (-105, 105), (5, 0), (.min, .max), (.max, 0)])
    func dumpEndCarriesError(payload: Int32, error: Int32) throws {
        let message = try #require(decodeOne(Frame(type: 3, flags: 2, sequence: 99, fixed: Frame.raw(payload)).bytes))
        #expect(message.kind == CNL_DONE)
        #expect(message.sequence == 99)
        #expect(message.error == error)
    }

    @Test func dumpEndMayBeEmpty() throws {
        let message = try #require(decodeOne(Frame(type: 3).bytes))
        #expect(message.kind == CNL_DONE && message.error == 0)
    }

    @Test func errorsDifferFromAcknowledgements() throws {
        let request = [UInt8](repeating: 0, count: 16)
        // 0x100 on an error means NLM_F_CAPPED, not NLM_F_REPLACE.
        let refusal = try #require(decodeOne(Frame(type: 2, flags: 0x100, fixed: Frame.raw(Int32(-113)) + request).bytes))
        #expect(refusal.kind == CNL_ERROR && refusal.error == 113 && !refusal.is_replacement)
        let acknowledgement = try #require(decodeOne(Frame(type: 2, fixed: Frame.raw(Int32(0)) + request).bytes))
        #expect(acknowledgement.kind == CNL_ERROR && acknowledgement.error == 0)
    }

    @Test func interruptedDumpIsMarked() throws {
        #expect(try #require(decodeOne(Frame(type: 3, flags: 0x12).bytes)).is_interrupted)
        #expect(try !#require(decodeOne(Frame(type: 3, flags: 0x02).bytes)).is_interrupted)
    }

    @Test func rulesNexthopsAndNetconfAreDecoded() throws {
        let rules = decode(rule + Frame(type: 33, fixed: [10] + [UInt8](repeating: 0, count: 11)).bytes)
        #expect(rules.map(\.kind) == [CNL_RULE, CNL_RULE_GONE] && rules.map(\.family) == [2, 10])
        let hop: [UInt8] = [2, 0, 0, 0, 0, 0, 0, 0]
        let hops = decode(
            Frame(type: 104, fixed: hop, [Attribute(1, 12)]).bytes + Frame(type: 105, fixed: hop, [Attribute(1, 13)]).bytes)
        #expect(hops.map(\.kind) == [CNL_NEXTHOP, CNL_NEXTHOP_GONE] && hops.map(\.identifier) == [12, 13])
        let settings = decode(
            Frame(type: 80, fixed: [2], [Attribute(1, UInt32.max)]).bytes + Frame(type: 81, fixed: [10], [Attribute(1, 7)]).bytes)
        #expect(settings.map(\.kind) == [CNL_NETCONF, CNL_NETCONF])
        #expect(settings.map(\.identifier) == [.max, 7] && settings.map(\.family) == [2, 10])
    }

    @Test(arguments: [Attribute(1, [1, 2]), Attribute(1, [1, 2, 3, 4, 5]), Attribute(broken: [9, 0, 1, 0])])
    func wrongIdentifierSizesAreMalformed(attribute: Attribute) {
        let hop = Frame(type: 104, fixed: [2, 0, 0, 0, 0, 0, 0, 0], [attribute]).bytes
        let netconf = Frame(type: 80, fixed: [2], [attribute]).bytes
        #expect(kinds(hop + netconf + rule) == [CNL_MALFORMED, CNL_MALFORMED, CNL_RULE])
    }

    @Test func unknownTypesAreIgnored() {
        #expect(
            kinds(Frame(type: 1).bytes + Frame(type: 4).bytes + Frame(type: 36).bytes + Frame(type: 65535).bytes)
                == [CNL_OTHER, CNL_OVERRUN, CNL_OTHER, CNL_OTHER])
    }

    @Test(arguments: [16, 17, 20, 21, 24, 25, 32, 33, 104, 105, 80, 81, 2] as [UInt16])
    func shortMessageIsSkipped(type: UInt16) {
        #expect(kinds(Frame(type: type).bytes + rule) == [CNL_MALFORMED, CNL_RULE])
    }

    @Test func twoByteDoneIsMalformed() {
        var done = Frame(type: 3, fixed: [0, 0, 0, 0]).bytes
        done[0] = 18
        #expect(kinds(done + rule) == [CNL_MALFORMED, CNL_RULE])
    }

    @Test(arguments: [UInt32(0), 1, 15, 1000, .max, 0x7FFF_FFFF, 0x8000_0000, .max - 3])
    func invalidLengthEndsDatagram(length: UInt32) {
        let broken = Frame.raw(length) + Frame(type: 3).bytes.dropFirst(4)
        #expect(kinds(rule + broken + rule) == [CNL_RULE, CNL_MALFORMED])
    }

    @Test(arguments: 1...15)
    func partialHeaderIsMalformed(count: Int) {
        #expect(kinds(rule + [UInt8](repeating: 0, count: count)) == [CNL_RULE, CNL_MALFORMED])
    }

    @Test func emptyDatagramHasNoMessage() {
        var message = cnl_message()
        var offset = 0
        var byte: UInt8 = 0
        #expect(!cnl_decode(&byte, 0, &offset, &message))
        offset = 7
        #expect(!cnl_decode(&byte, 1, &offset, &message))
        #expect(offset == 7)
    }

    @Test func lastMessageNeedsNoPadding() {
        var address = Frame.address(family: 2, prefix: 24, [Attribute(2, [192, 0, 2, 10]), Attribute(3, [0x61])])
        address[0] -= 3
        #expect(kinds(Array(address.dropLast(3))) == [CNL_ADDRESS])
        #expect(kinds(address + rule) == [CNL_ADDRESS, CNL_RULE])
    }

    @Test(arguments: 1...3)
    func datagramMayBeMisaligned(shift: Int) {
        let bytes = [UInt8](repeating: 0xAA, count: shift) + Frame.link([Attribute(3, text: "cable0")])
        var message = cnl_message()
        var offset = shift
        #expect(cnl_decode(bytes, bytes.count, &offset, &message))
        #expect(message.kind == CNL_LINK && message.link.nameBytes == Array("cable0".utf8))
        #expect(offset == bytes.count)
    }
}
