/// The filter of route and neighbour messages that can matter, as a program for the kernel: dropped messages cause no wake-up.
///
/// Of neighbours only the gateways in use matter, and only that one fails or answers.
///
/// Only messages about routes that cover no watched address are dropped; with a full routing table those are nearly all. The
/// prefix alone suffices under NLM_F_REPLACE, too: a route is only replaced by one to the same prefix.
package struct EventFilter: Hashable, Sendable {
    /// The number of addresses of a family that the filter can hold; with more, all routes of the family pass.
    package static let addressLimit = 32
    /// The number of gateways that the filter can hold.
    package static let gatewayLimit = 16

    /// NLM_F_MULTI: the datagram holds several messages.
    static let multi: UInt16 = 2
    /// RTM_NEWROUTE and RTM_DELROUTE.
    static let (newRoute, delRoute): (UInt16, UInt16) = (24, 25)
    /// RTA_DST.
    static let destination: UInt16 = 1

    /// RTM_NEWNEIGH and RTM_DELNEIGH.
    static let (newNeighbour, delNeighbour): (UInt16, UInt16) = (28, 29)
    /// NUD_REACHABLE and NUD_FAILED (linux/neighbour.h).
    static let (reachable, failed): (UInt16, UInt16) = (0x02, 0x20)

    private let ipv4: [IPAddress]?
    private let ipv6: [IPAddress]?
    private let gateways: [IPAddress]

    /// Makes the filter for watched destinations and the gateways in use.
    package init(watching destinations: Set<IPAddress>, gateways: Set<IPAddress> = []) {
        let sorted = gateways.sorted { ($0.family.bitWidth, $0.value) < ($1.family.bitWidth, $1.value) }
        self.gateways = Array(sorted.prefix(Self.gatewayLimit))
        func addresses(_ family: IPAddress.Family) -> [IPAddress]? {
            let addresses = destinations.filter { $0.family == family }
            return addresses.count > Self.addressLimit ? nil : addresses.sorted { $0.value < $1.value }
        }
        ipv4 = addresses(.ipv4)
        ipv6 = addresses(.ipv6)
    }

    /// Returns the watched addresses of a family; `nil` if all its routes pass.
    func addresses(_ family: IPAddress.Family) -> [IPAddress]? { family == .ipv4 ? ipv4 : ipv6 }

    /// Returns true if the kernel delivers a datagram: the rule that the program has to match.
    package func passes(_ frame: [UInt8]) -> Bool {
        // struct nlmsghdr and struct rtmsg: 16 and 12 bytes (rtnetlink(7)).
        guard frame.count >= 28 else { return true }
        let (type, flags, length) = (Self.half(frame, 4), Self.half(frame, 6), Int(frame[17]))
        if flags & Self.multi == 0, type == Self.newNeighbour || type == Self.delNeighbour {
            return type == Self.newNeighbour && passesNeighbour(frame)
        }
        guard flags & Self.multi == 0, type == Self.newRoute || type == Self.delRoute, length > 1 else { return true }
        guard let family = IPAddress.Family(kernel: frame[16]), let addresses = addresses(family), length <= family.bitWidth,
            let destination = Self.destination(frame), destination.count == family.bitWidth / 8,
            let block = IPAddress(bytes: destination).map({ IPPrefix($0, length: length) })
        else { return true }
        return addresses.contains(where: block.contains)
    }

    /// Returns true for a gateway that fails or answers.
    private func passesNeighbour(_ frame: [UInt8]) -> Bool {
        guard [Self.reachable, Self.failed].contains(Self.half(frame, 24)), let family = IPAddress.Family(kernel: frame[16]) else {
            return false
        }
        // NDA_DST has the type and the place of RTA_DST.
        guard let bytes = Self.destination(frame), bytes.count == family.bitWidth / 8, let address = IPAddress(bytes: bytes) else {
            return false
        }
        return gateways.contains(address)
    }

    /// Returns the payload of the first RTA_DST, found like the kernel does (nla_find, lib/nlattr.c).
    private static func destination(_ frame: [UInt8]) -> ArraySlice<UInt8>? {
        var position = 28
        while position + 4 <= frame.count {
            let length = Int(half(frame, position))
            guard length >= 4, position + length <= frame.count else { return nil }
            // The two highest bits are flags (NLA_TYPE_MASK).
            if half(frame, position + 2) & 0x3fff == Self.destination { return frame[(position + 4)..<(position + length)] }
            position += (length + 3) & ~3
        }
        return nil
    }

    /// Returns a number in the machine's byte order.
    private static func half(_ frame: [UInt8], _ position: Int) -> UInt16 {
        frame.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: position, as: UInt16.self) }
    }
}

extension EventFilter {
    /// One instruction of a classic BPF program (struct sock_filter, linux/filter.h).
    package typealias Instruction = (code: UInt16, jt: UInt8, jf: UInt8, k: UInt32)

    /// The program that decides like ``passes(_:)``.
    ///
    /// Each test jumps over one part or returns at once, because a conditional jump reaches only 255 instructions. Numbers are
    /// loaded as if in network order, so constants in the machine's order are swapped, too.
    package var instructions: [Instruction] {
        var program = Program()
        program.add(.loadLength)
        program.pass(unless: .jumpIfAtLeast, 28)
        program.add(.loadHalf, 6)
        program.pass(if: .jumpIfAnyBit, UInt32(Self.multi.bigEndian))
        program.add(.loadHalf, 4)
        program.when(.jumpIfEqual, UInt32(Self.newNeighbour.bigEndian), do: neighbours)
        program.end(Program.drop, if: .jumpIfEqual, UInt32(Self.delNeighbour.bigEndian))
        program.add((Code.jumpIfEqual.rawValue, 2, 0, UInt32(Self.newRoute.bigEndian)))
        program.pass(unless: .jumpIfEqual, UInt32(Self.delRoute.bigEndian))
        program.add(.loadByte, 17)
        program.pass(unless: .jumpIfMore, 1)
        for family in IPAddress.Family.allCases {
            program.add(.loadByte, 16)
            program.when(.jumpIfEqual, UInt32(family.kernel), do: comparison(family))
        }
        program.add(.return, Program.pass)
        return program.instructions
    }

    /// The part for neighbours.
    private var neighbours: Program {
        var program = Program()
        program.add(.loadHalf, 24)
        program.add((Code.jumpIfEqual.rawValue, 2, 0, UInt32(Self.failed.bigEndian)))
        program.end(Program.drop, unless: .jumpIfEqual, UInt32(Self.reachable.bigEndian))
        for family in IPAddress.Family.allCases {
            let known = gateways.filter { $0.family == family }
            if known.isEmpty { continue }
            var part = Program()
            part.findDestination(family, otherwise: Program.drop)
            let words = family.bitWidth / 32
            for gateway in known {
                for word in 0..<words {
                    part.add(.loadWordAtX, UInt32(4 + 4 * word))
                    let value = UInt32(truncatingIfNeeded: gateway.value >> UInt128(family.bitWidth - 32 * (word + 1)))
                    // To the next gateway: two instructions for each word still to come, and the return.
                    part.add((Code.jumpIfEqual.rawValue, 0, UInt8(2 * (words - 1 - word) + 1), value))
                }
                part.add(.return, Program.pass)
            }
            part.add(.return, Program.drop)
            program.add(.loadByte, 16)
            program.when(.jumpIfEqual, UInt32(family.kernel), do: part)
        }
        program.add(.return, Program.drop)
        return program
    }

    /// Returns the part for route messages of one family.
    private func comparison(_ family: IPAddress.Family) -> Program {
        var program = Program()
        guard let addresses = addresses(family) else {
            program.add(.return, Program.pass)
            return program
        }
        program.add(.loadByte, 17)
        program.pass(if: .jumpIfMore, UInt32(family.bitWidth))
        // The number of free bits in the prefix's last word.
        program.add(.negate)
        program.add(.and, 31)
        program.add(.store, Memory.free)
        program.findDestination(family, otherwise: Program.pass)
        let words = family.bitWidth / 32
        for word in 0..<UInt32(words) {
            program.add(.loadWordAtX, 4 + 4 * word)
            program.add(.store, word)
        }
        program.add(.loadXMemory, Memory.free)
        for last in (0..<words).reversed() {
            program.add(.loadByte, 17)
            program.when(.jumpIfMore, UInt32(32 * last), do: comparison(addresses, last: last))
        }
        return program
    }

    /// Returns the part that compares whole words before the prefix's last one, and the prefix's bits of that one.
    ///
    /// A shift by 32 would be a shift by 0, hence the choice by words.
    private func comparison(_ addresses: [IPAddress], last: Int) -> Program {
        var program = Program()
        for address in addresses {
            let words = (0...last).map { word in
                UInt32(truncatingIfNeeded: address.value >> UInt128(address.family.bitWidth - 32 * (word + 1)))
            }
            // To the next address: two instructions for each whole word still to come, and five for the last one.
            for (word, value) in words.dropLast().enumerated() {
                program.add(.loadMemory, UInt32(word))
                program.add((Code.jumpIfEqual.rawValue, 0, UInt8(2 * (last - 1 - word) + 5), value))
            }
            program.add(.loadMemory, UInt32(last))
            program.add(.exclusiveOr, words[last])
            program.add(.shiftRightByX)
            program.pass(if: .jumpIfEqual, 0)
        }
        program.add(.return, Program.drop)
        return program
    }

    /// The layout of the scratch memory; the destination's words come first.
    private enum Memory {
        static let free: UInt32 = 4
    }

    /// Operations: class, size and mode, or class, operation and source (linux/bpf_common.h).
    fileprivate enum Code: UInt16 {
        case load = 0x00
        case loadX = 0x01
        case loadWord = 0x20
        case loadHalf = 0x28
        case loadByte = 0x30
        case loadWordAtX = 0x40
        case loadHalfAtX = 0x48
        case loadMemory = 0x60
        case loadXMemory = 0x61
        case loadLength = 0x80
        case store = 0x02
        case and = 0x54
        case shiftRightByX = 0x7c
        case negate = 0x84
        case exclusiveOr = 0xa4
        case jump = 0x05
        case jumpIfEqual = 0x15
        case jumpIfMore = 0x25
        case jumpIfAtLeast = 0x35
        case jumpIfAnyBit = 0x45
        case `return` = 0x06
        case copyToX = 0x07
    }

    /// A list of instructions under construction.
    private struct Program {
        static let pass: UInt32 = .max
        static let drop: UInt32 = 0
        /// SKF_AD_OFF + SKF_AD_NLATTR: the offset of the attribute of type X that follows offset A, or 0 (linux/filter.h).
        static let findAttribute: UInt32 = 0xffff_f00c

        private(set) var instructions: [Instruction] = []

        mutating func add(_ instruction: Instruction) { instructions.append(instruction) }

        mutating func add(_ code: Code, _ operand: UInt32 = 0) { add((code.rawValue, 0, 0, operand)) }

        mutating func pass(if condition: Code, _ operand: UInt32) { end(Self.pass, if: condition, operand) }

        mutating func pass(unless condition: Code, _ operand: UInt32) { end(Self.pass, unless: condition, operand) }

        mutating func end(_ result: UInt32, if condition: Code, _ operand: UInt32) {
            add((condition.rawValue, 0, 1, operand))
            add(.return, result)
        }

        mutating func end(_ result: UInt32, unless condition: Code, _ operand: UInt32) {
            add((condition.rawValue, 1, 0, operand))
            add(.return, result)
        }

        /// Moves X to the first RTA_DST, which has the type and the place of NDA_DST, and ends without one of the family's size.
        mutating func findDestination(_ family: IPAddress.Family, otherwise result: UInt32) {
            add(.load, 28)
            add(.loadX, UInt32(EventFilter.destination))
            add(.loadWord, Self.findAttribute)
            end(result, if: .jumpIfEqual, 0)
            add(.copyToX)
            add(.loadHalfAtX, 0)
            end(result, unless: .jumpIfEqual, UInt32(UInt16(4 + family.bitWidth / 8).bigEndian))
        }

        /// Adds a part that ends with a return, for a condition.
        mutating func when(_ condition: Code, _ operand: UInt32, do part: Program) {
            add((condition.rawValue, 1, 0, operand))
            add(.jump, UInt32(part.instructions.count))
            instructions += part.instructions
        }
    }
}
