/// Which route messages can matter, as a program for the kernel: what it drops wakes nobody.
///
/// A route that does not cover a watched address never decides about it. Only messages about such routes are dropped; with a
/// full routing table that is nearly all of them. By the prefix alone is sound under NLM_F_REPLACE, too: a route is only ever
/// replaced by one to the same prefix.
package struct EventFilter: Hashable, Sendable {
    /// How many addresses of a family are told apart; with more, all routes of the family pass.
    package static let addressLimit = 32

    /// NLM_F_MULTI: the datagram holds more messages than the one that is looked at.
    static let multi: UInt16 = 2
    /// RTM_NEWROUTE and RTM_DELROUTE.
    static let (newRoute, delRoute): (UInt16, UInt16) = (24, 25)
    /// RTA_DST.
    static let destination: UInt16 = 1

    private let ipv4: [IPAddress]?
    private let ipv6: [IPAddress]?

    /// Makes the filter for some destinations.
    package init(watching destinations: Set<IPAddress>) {
        func addresses(_ family: IPAddress.Family) -> [IPAddress]? {
            let addresses = destinations.filter { $0.family == family }
            return addresses.count > Self.addressLimit ? nil : addresses.sorted { $0.value < $1.value }
        }
        ipv4 = addresses(.ipv4)
        ipv6 = addresses(.ipv6)
    }

    /// The addresses of a family that are told apart, or `nil` if all its routes pass.
    func addresses(_ family: IPAddress.Family) -> [IPAddress]? { family == .ipv4 ? ipv4 : ipv6 }

    /// Whether the kernel delivers a datagram: the rule in plain words, to compare the program with.
    package func passes(_ frame: [UInt8]) -> Bool {
        // struct nlmsghdr and struct rtmsg: 16 and 12 bytes (rtnetlink(7)).
        guard frame.count >= 28 else { return true }
        let (type, flags, length) = (Self.half(frame, 4), Self.half(frame, 6), Int(frame[17]))
        guard flags & Self.multi == 0, type == Self.newRoute || type == Self.delRoute, length > 1 else { return true }
        guard let family = IPAddress.Family(kernel: frame[16]), let addresses = addresses(family), length <= family.bitWidth,
            let destination = Self.destination(frame), destination.count == family.bitWidth / 8,
            let block = IPAddress(bytes: destination).map({ IPPrefix($0, length: length) })
        else { return true }
        return addresses.contains(where: block.contains)
    }

    /// The payload of the first RTA_DST, found as the kernel finds it (nla_find, lib/nlattr.c).
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

    /// A number in the machine's byte order.
    private static func half(_ frame: [UInt8], _ position: Int) -> UInt16 {
        frame.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: position, as: UInt16.self) }
    }
}

extension EventFilter {
    /// One instruction of a classic BPF program (struct sock_filter, linux/filter.h).
    package typealias Instruction = (code: UInt16, jt: UInt8, jf: UInt8, k: UInt32)

    /// The program that decides as ``passes(_:)`` does.
    ///
    /// It jumps over what does not apply and returns on the spot otherwise, so that no jump is long: a conditional one reaches
    /// 255 instructions. Numbers are loaded as if they were in network order; those that the machine writes in its own are
    /// compared with constants that are turned as well.
    package var instructions: [Instruction] {
        var program = Program()
        program.add(.loadLength)
        program.pass(unless: .jumpIfAtLeast, 28)
        program.add(.loadHalf, 6)
        program.pass(if: .jumpIfAnyBit, UInt32(Self.multi.bigEndian))
        program.add(.loadHalf, 4)
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

    /// The part for messages of one family.
    private func comparison(_ family: IPAddress.Family) -> Program {
        var program = Program()
        guard let addresses = addresses(family) else {
            program.add(.return, Program.pass)
            return program
        }
        program.add(.loadByte, 17)
        program.pass(if: .jumpIfMore, UInt32(family.bitWidth))
        // How many bits of its last word the prefix leaves free.
        program.add(.negate)
        program.add(.and, 31)
        program.add(.store, Memory.free)
        program.add(.load, 28)
        program.add(.loadX, UInt32(Self.destination))
        program.add(.loadWord, Program.findAttribute)
        program.pass(if: .jumpIfEqual, 0)
        program.add(.copyToX)
        program.add(.loadHalfAtX, 0)
        program.pass(unless: .jumpIfEqual, UInt32(UInt16(4 + family.bitWidth / 8).bigEndian))
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

    /// Compares the words before the prefix's last one whole, and of that one the bits that the prefix does not leave free.
    ///
    /// A shift by 32 would be one by 0, hence the choice by words.
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

    /// Where the scratch memory keeps what; the destination's words come first.
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

    /// Instructions, as they are put together.
    private struct Program {
        static let pass: UInt32 = .max
        static let drop: UInt32 = 0
        /// SKF_AD_OFF + SKF_AD_NLATTR: the offset of the attribute of type X that follows offset A, or 0 (linux/filter.h).
        static let findAttribute: UInt32 = 0xffff_f00c

        private(set) var instructions: [Instruction] = []

        mutating func add(_ instruction: Instruction) { instructions.append(instruction) }

        mutating func add(_ code: Code, _ operand: UInt32 = 0) { add((code.rawValue, 0, 0, operand)) }

        mutating func pass(if condition: Code, _ operand: UInt32) {
            add((condition.rawValue, 0, 1, operand))
            add(.return, Self.pass)
        }

        mutating func pass(unless condition: Code, _ operand: UInt32) {
            add((condition.rawValue, 1, 0, operand))
            add(.return, Self.pass)
        }

        /// Runs a part that ends with a return, if the condition is met.
        mutating func when(_ condition: Code, _ operand: UInt32, do part: Program) {
            add((condition.rawValue, 1, 0, operand))
            add(.jump, UInt32(part.instructions.count))
            instructions += part.instructions
        }
    }
}
