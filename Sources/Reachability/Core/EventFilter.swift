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
