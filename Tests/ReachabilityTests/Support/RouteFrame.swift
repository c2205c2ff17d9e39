import Reachability

/// Route messages, byte by byte; numbers are in the order of the machines that the tests run on, the lowest byte first.
enum RouteFrame {
    static func make(
        type: UInt16 = 24, flags: UInt16 = 0, family: UInt8, length: UInt8, _ attributes: [(type: UInt16, payload: [UInt8])] = []
    ) -> [UInt8] {
        let body: [UInt8] = [family, length, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0] + attributes.flatMap(attribute)
        return bytes(UInt32(16 + body.count)) + bytes(type) + bytes(flags) + bytes(UInt32(7)) + bytes(UInt32(0)) + body
    }

    /// A message about a route to a block, as the kernel writes it: a default route has no RTA_DST.
    static func make(_ text: String, type: UInt16 = 24, flags: UInt16 = 0) -> [UInt8] {
        let block = prefix(text)
        let destination = block.length == 0 ? [] : [(type: UInt16(1), payload: block.address.bytes)]
        return make(
            type: type, flags: flags, family: block.address.family == .ipv4 ? 2 : 10, length: UInt8(block.length),
            [(15, bytes(UInt32(254)))] + destination + [(4, bytes(UInt32(2)))])
    }

    /// A message about a neighbour: struct ndmsg, NDA_DST and NDA_LLADDR.
    static func neighbour(_ address: IPAddress, state: UInt16, type: UInt16 = 28) -> [UInt8] {
        let fixed: [UInt8] = [address.family == .ipv4 ? 2 : 10, 0, 0, 0] + bytes(UInt32(2)) + bytes(state) + [0, 1]
        let body = fixed + attribute(1, address.bytes) + attribute(2, [2, 0, 0, 0, 0, 1])
        return bytes(UInt32(16 + body.count)) + bytes(type) + bytes(UInt16(0)) + bytes(UInt32(7)) + bytes(UInt32(0)) + body
    }

    private static func attribute(_ type: UInt16, _ payload: [UInt8]) -> [UInt8] {
        bytes(UInt16(4 + payload.count)) + bytes(type) + payload + [UInt8](repeating: 0, count: -payload.count & 3)
    }

    static func bytes(_ value: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: value) { Array($0) }
    }

    /// Any message: mostly about routes near the addresses, sometimes nonsense.
    static func random(near addresses: [IPAddress], using generator: inout some RandomNumberGenerator) -> [UInt8] {
        func chance(_ one: Int) -> Bool { Int.random(in: 0..<one, using: &generator) == 0 }
        let family: IPAddress.Family = Bool.random(using: &generator) ? .ipv4 : .ipv6
        let length = Int.random(in: 0...(chance(10) ? 255 : family.bitWidth), using: &generator)
        var payload = destination(family, length, near: addresses, using: &generator).bytes
        if chance(20) { payload = Array(payload.dropLast(Int.random(in: 1...payload.count, using: &generator))) }
        if chance(20) { payload += [1, 2, 3] }
        var attributes: [(type: UInt16, payload: [UInt8])] = []
        for _ in 0..<Int.random(in: 0...3, using: &generator) {
            let filler = (0..<Int.random(in: 0...9, using: &generator)).map { _ in UInt8.random(in: 0...255, using: &generator) }
            attributes.append((.random(in: 2...30, using: &generator), filler))
        }
        if !chance(8) {
            let type: UInt16 = chance(20) ? 0x8001 : chance(20) ? 0x0101 : 1
            attributes.insert((type, payload), at: Int.random(in: 0...attributes.count, using: &generator))
        }
        var frame = make(
            type: chance(10) ? .random(in: 0...110, using: &generator) : Bool.random(using: &generator) ? 24 : 25,
            flags: [0, 0, 0x100, 0x600, chance(5) ? 2 : 0].randomElement(using: &generator) ?? 0,
            family: chance(20) ? .random(in: 0...255, using: &generator) : family == .ipv4 ? 2 : 10,
            length: UInt8(length), attributes)
        if chance(10) { frame.removeLast(Int.random(in: 0...frame.count, using: &generator)) }
        if chance(10), !frame.isEmpty {
            frame[Int.random(in: 0..<frame.count, using: &generator)] = .random(in: 0...255, using: &generator)
        }
        return frame
    }

    /// An address that shares some leading bits with one of the addresses; as often as not those that the prefix has.
    private static func destination(
        _ family: IPAddress.Family, _ length: Int, near addresses: [IPAddress], using generator: inout some RandomNumberGenerator
    ) -> IPAddress {
        let width = family.bitWidth
        var value = UInt128.random(in: 0...(family == .ipv4 ? 0xffff_ffff : .max), using: &generator)
        if let address = addresses.filter({ $0.family == family }).randomElement(using: &generator) {
            let near = max(0, min(width, length + Int.random(in: -2...2, using: &generator)))
            let shared = Bool.random(using: &generator) ? near : Int.random(in: 0...width, using: &generator)
            let rest: UInt128 = shared == 0 ? .max : (1 << UInt128(width - shared)) - 1
            value = address.value & ~rest | value & rest
        }
        return IPAddress(bytes: stride(from: width - 8, through: 0, by: -8).map { UInt8(truncatingIfNeeded: value >> UInt128($0)) })
            ?? ip("0.0.0.0")
    }
}
