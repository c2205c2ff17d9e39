internal import Glibc

/// An IPv4 or IPv6 address.
///
/// A value of 17 bytes without a zone: a link-local destination gets its interface from ``Scope/interface``.
/// An IPv4-mapped IPv6 address (`::ffff:192.0.2.1`, RFC 4291 §2.5.5.2) stays as written; see ``unmapped``.
public struct IPAddress: Hashable, Sendable {
    /// The version of the Internet Protocol.
    public enum Family: Hashable, Sendable, CaseIterable {
        /// Version 4, RFC 791.
        case ipv4
        /// Version 6, RFC 8200.
        case ipv6

        /// The number of bits in an address: 32 or 128.
        public var bitWidth: Int { self == .ipv4 ? 32 : 128 }
    }

    /// The address's family.
    public let family: Family
    // Halves, because a UInt128 is aligned to 16 bytes: values with an address would be larger, and allocated by
    // posix_memalign(3), which takes several times as long as malloc(3).
    private let high: UInt64
    private let low: UInt64

    /// The address as a number; IPv4 in the low 32 bits.
    package var value: UInt128 { UInt128(truncatingIfNeeded: high) &<< 64 | UInt128(truncatingIfNeeded: low) }

    package init(family: Family, value: UInt128) {
        self.family = family
        (high, low) = (UInt64(truncatingIfNeeded: value &>> 64), UInt64(truncatingIfNeeded: value))
    }

    /// Makes an address from its bytes in network order.
    ///
    /// - Parameter bytes: four for IPv4 or sixteen for IPv6; any other number gives `nil`.
    public init?(bytes: some Collection<UInt8>) {
        let family: Family
        switch bytes.count {
        case 4: family = .ipv4
        case 16: family = .ipv6
        default: return nil
        }
        self.init(family: family, value: bytes.reduce(0) { $0 << 8 | UInt128($1) })
    }

    /// The address's bytes in network order: four or sixteen.
    public var bytes: [UInt8] {
        stride(from: family.bitWidth - 8, through: 0, by: -8).map { UInt8(truncatingIfNeeded: value >> UInt128($0)) }
    }

    /// The IPv4 address within an IPv4-mapped IPv6 address, otherwise the address itself.
    ///
    /// A socket connected to `::ffff:a.b.c.d` sends IPv4 (ipv6(7)), so reachability is a question about `a.b.c.d`.
    public var unmapped: IPAddress {
        guard family == .ipv6, value >> 32 == 0xffff else { return self }
        return IPAddress(family: .ipv4, value: value & 0xffff_ffff)
    }

    /// True for `0.0.0.0` and `::`.
    public var isUnspecified: Bool { value == 0 }

    /// True in 127.0.0.0/8 (RFC 1122) and for `::1` (RFC 4291).
    public var isLoopback: Bool { family == .ipv4 ? value >> 24 == 127 : value == 1 }

    /// True in 169.254.0.0/16 (RFC 3927) and fe80::/10 (RFC 4291).
    public var isLinkLocal: Bool { family == .ipv4 ? value >> 16 == 0xa9fe : value >> 118 == 0xfe80 >> 6 }

    /// True in 224.0.0.0/4 (RFC 5771) and ff00::/8 (RFC 4291).
    public var isMulticast: Bool { family == .ipv4 ? value >> 28 == 0xe : value >> 120 == 0xff }
}

extension IPAddress: LosslessStringConvertible {
    /// Parses an address in its usual written form, such as `192.0.2.1` or `2001:db8::1`; `nil` for anything else.
    ///
    /// Accepts what inet_pton(3) accepts: dotted quads with four decimal parts, and RFC 4291 §2.2 text. No zone, no port.
    public init?(_ description: String) {
        let family: Family = description.utf8.contains(UInt8(ascii: ":")) ? .ipv6 : .ipv4
        var storage = in6_addr()
        let parsed = withUnsafeMutableBytes(of: &storage) { buffer -> [UInt8]? in
            guard let base = buffer.baseAddress,
                !description.utf8.contains(0),
                inet_pton(family == .ipv4 ? AF_INET : AF_INET6, description, base) == 1
            else { return nil }
            return Array(buffer.prefix(family.bitWidth / 8))
        }
        guard let parsed else { return nil }
        self.init(bytes: parsed)
    }

    /// The canonical text of RFC 5952.
    public var description: String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(INET6_ADDRSTRLEN)) { text in
            guard let base = text.baseAddress else { return "" }
            let bytes = bytes
            _ = inet_ntop(family == .ipv4 ? AF_INET : AF_INET6, bytes, base, socklen_t(text.count))
            return String(cString: base)
        }
    }
}

/// A block of addresses, such as `192.0.2.0/24`: the destination of a route.
public struct IPPrefix: Hashable, Sendable, CustomStringConvertible {
    /// The first address of the block; bits beyond ``length`` are zero.
    public let address: IPAddress
    /// The number of leading bits that the block's addresses share: 0 for all of the family.
    public let length: Int

    /// Makes the block that contains `address`.
    ///
    /// The length is clamped to the family's width.
    public init(_ address: IPAddress, length: Int) {
        let length = min(max(length, 0), address.family.bitWidth)
        self.length = length
        let free = UInt128(address.family.bitWidth - length)
        self.address = IPAddress(family: address.family, value: free == 128 ? 0 : (address.value >> free) << free)
    }

    /// Returns the block of all addresses of a family: the destination of a default route.
    public static func all(_ family: IPAddress.Family) -> IPPrefix {
        IPPrefix(IPAddress(family: family, value: 0), length: 0)
    }

    /// Returns true if an address lies in the block; addresses of the other family never do.
    public func contains(_ other: IPAddress) -> Bool {
        guard other.family == address.family else { return false }
        let free = UInt128(address.family.bitWidth - length)
        return free == 128 || (other.value ^ address.value) >> free == 0
    }

    /// The usual text, such as `2001:db8::/32`; `default` for a block of length 0.
    public var description: String { length == 0 ? "default" : "\(address)/\(length)" }
}

extension IPAddress.Family {
    /// Makes the family of an AF_ number (linux/socket.h).
    init?(kernel family: UInt8) {
        switch family {
        case 2: self = .ipv4
        case 10: self = .ipv6
        default: return nil
        }
    }

    /// The AF_ number.
    var kernel: UInt8 { self == .ipv4 ? 2 : 10 }
}
