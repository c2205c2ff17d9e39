internal import Reachability

extension SimulatedKernel {
    /// The IPv4 source address for packets that leave through an interface (net/ipv4/devinet.c, inet_select_addr()).
    ///
    /// The one whose prefix contains the gateway, else the first one, else another interface's: not loopback's, whose scope is
    /// the host.
    func source4(on index: UInt32, towards gateway: IPAddress?) -> IPAddress? {
        let outgoing = link(at: index)?.interface
        let isLoopback = outgoing?.isLoopback ?? true
        let own = isLoopback ? [] : (outgoing?.addresses ?? []).filter { $0.address.family == .ipv4 }
        if let gateway, let near = own.first(where: { IPPrefix($0.address, length: $0.prefixLength).contains(gateway) }) {
            return near.address
        }
        if let first = own.first { return first.address }
        for link in links where !link.interface.isLoopback {
            if let other = link.interface.addresses.first(where: { $0.address.family == .ipv4 }) { return other.address }
        }
        return nil
    }

    /// The IPv6 source address (RFC 6724 §5 as in net/ipv6/addrconf.c, ipv6_dev_get_saddr()).
    ///
    /// All interfaces' ready addresses are candidates, even `::1`: that is what is chosen while no other one is ready. Among equals
    /// an interface's newest wins.
    ///
    /// - Parameter index: the outgoing interface; `nil` if there is no route yet.
    func source6(on index: UInt32?, for destination: IPAddress) -> IPAddress? {
        let isOnLinkOnly = index != nil && (destination.isLinkLocal || destination.isMulticast)
        var best: (address: IPAddress, rank: Rank)?
        for link in links where !isOnLinkOnly || link.interface.index == index {
            for held in link.interface.addresses.reversed() where held.address.family == .ipv6 && held.isReady {
                let rank = Rank(of: held, isOutgoing: link.interface.index == index, for: destination)
                if best.map({ $0.rank < rank }) ?? true { best = (held.address, rank) }
            }
        }
        return best?.address
    }

    /// How well a source address suits a destination: rules 1, 2, 5, 6 and 8 of RFC 6724 §5.
    private struct Rank: Comparable {
        private let values: [Int]

        init(of held: NetworkInterface.Address, isOutgoing: Bool, for destination: IPAddress) {
            let source = held.address
            let scope = Self.scope(source)
            let isWideEnough = scope >= Self.scope(destination)
            // Not more than the prefix counts: the rest of an address says nothing about where it is.
            let commonBits = min((source.value ^ destination.value).leadingZeroBitCount, held.prefixLength)
            values = [
                source == destination ? 1 : 0, isWideEnough ? -scope : scope - 128, isOutgoing ? 1 : 0,
                Self.label(source) == Self.label(destination) ? 1 : 0, commonBits,
            ]
        }

        static func < (left: Rank, right: Rank) -> Bool { left.values.lexicographicallyPrecedes(right.values) }

        /// The scope of RFC 4291 §2.7; the kernel counts `::1` as link-local.
        private static func scope(_ address: IPAddress) -> Int {
            if address.isMulticast { return Int(truncatingIfNeeded: address.value >> 112 & 0xf) }
            return address.isLinkLocal || address.isLoopback ? 0x2 : 0xe
        }

        /// The label of RFC 6724 §2.1, as far as it tells sources apart here.
        private static func label(_ address: IPAddress) -> Int {
            if address.isLoopback { return 0 }
            return address.value >> 121 == 0xfc >> 1 ? 13 : 1
        }
    }
}
