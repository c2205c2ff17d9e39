import CNetlink
import Testing

/// IPsec policies, built by the layout of linux/xfrm.h.
struct PolicyDecodingTests {
    /// Returns the fixed part of XFRM_MSG_NEWPOLICY.
    private func fixed(family: UInt16 = 2, lengths: [UInt8] = [0, 24], direction: UInt8 = 1, action: UInt8 = 0) -> [UInt8] {
        // The selector: destination, source, ports with masks in network byte order, family, prefix lengths, protocol, interface.
        let zero = [UInt8](repeating: 0, count: 12)
        var bytes: [UInt8] = [198, 51, 100, 0] + zero + [192, 0, 2, 0] + zero + [0x01, 0xbb, 0xff, 0xff, 0, 0, 0, 0]
        bytes += Frame.raw(family) + lengths + [6, 0, 0, 0] + Frame.raw(Int32(3)) + Frame.raw(UInt32(0))
        // Limits and use, which are not read, then the priority and the index.
        bytes += [UInt8](repeating: 0xff, count: 96) + Frame.raw(UInt32(77)) + Frame.raw(UInt32(9))
        return bytes + [direction, action, 0, 0, 0, 0, 0, 0]
    }

    private func policies(_ datagram: [UInt8]) -> [cnl_policy] {
        var (policies, policy, offset): ([cnl_policy], cnl_policy, Int) = ([], cnl_policy(), 0)
        // Exactly as long as the datagram, so that the sanitizer finds one byte too far.
        datagram.withUnsafeBytes { bytes in
            while let base = bytes.baseAddress, policies.count < 9, cnl_next_policy(base, bytes.count, &offset, &policy) {
                policies.append(policy)
            }
        }
        return policies
    }

    private func message(_ fixed: [UInt8], _ attributes: [Attribute] = [], type: UInt16 = 0x13) -> [UInt8] {
        Frame(type: type, fixed: fixed, attributes).bytes
    }

    @Test func everyPartIsRead() throws {
        let attributes = [
            Attribute(5, [UInt8](repeating: 0, count: 64)), Attribute(21, Frame.raw(UInt32(0x2a)) + Frame.raw(UInt32(0xff))),
            Attribute(31, 5),
        ]
        let read = policies(message(fixed(), attributes) + message([], type: 3) + message(fixed(direction: 2, action: 1)))
        #expect(read.count == 2)
        let first = try #require(read.first)
        #expect(first.source.octets == [192, 0, 2, 0] && first.source_length == 24)
        #expect(first.destination.octets == [198, 51, 100, 0] && first.destination_length == 0)
        #expect(first.direction == CNL_POLICY_OUT && first.action == 0 && first.protocol == 6 && first.interface == 3)
        #expect(first.port == 443 && first.port_mask == 0xffff && !first.has_source_port && first.priority == 77)
        #expect(first.has_templates && first.mark == 0x2a && first.mark_mask == 0xff && first.interface_id == 5)
        let second = try #require(read.last)
        #expect(second.direction == 2 && second.action == CNL_POLICY_BLOCK && !second.has_templates)
        #expect(second.mark_mask == 0 && second.interface_id == 0, "nothing is left of the one before")
    }

    @Test func malformedOnesAreSkipped() {
        #expect(policies(message(fixed(lengths: [33, 0]))).isEmpty)
        #expect(policies(message(fixed(family: 1))).isEmpty)
        #expect(policies(message(Array(fixed().dropLast(8)))).isEmpty)
        // RTM_NEWADDR has the number of another message of this protocol.
        #expect(policies(message(fixed(), type: 20)).isEmpty)
        let odd = [Attribute(5, [0, 0, 0, 0]), Attribute(21, [1]), Attribute(31, [1, 2]), Attribute(broken: [2, 0, 5, 0])]
        let read = policies(message(fixed(), odd))
        #expect(read.count == 1 && read.first?.has_templates == false && read.first?.interface_id == 0)
    }

    @Test func everyTruncationEnds() {
        let whole = message(fixed(), [Attribute(5, [UInt8](repeating: 0, count: 64)), Attribute(31, 5)])
        for length in 0..<whole.count {
            #expect(policies(Array(whole.prefix(length))).isEmpty)
            // The same with a header that agrees.
            let cut = Frame.raw(UInt32(length)) + whole.prefix(length).dropFirst(4)
            #expect(policies(Array(cut)).count <= 1)
        }
    }
}
