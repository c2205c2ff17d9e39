public import Reachability

extension SimulatedKernel {
    /// What a route does with a packet (RTN_*, rtnetlink(7)).
    public enum RouteType: String, Hashable, Sendable, CaseIterable {
        /// Sends it.
        case unicast
        /// Refuses it with EHOSTUNREACH.
        case unreachable
        /// Refuses it with EACCES.
        case prohibit
        /// Drops it; its own sockets get EINVAL.
        case blackhole
        /// Ends the search in the table, so that without another one it is refused with ENETUNREACH.
        case `throw`
    }

    /// A route of the main table.
    public struct Route: Hashable, Sendable {
        /// Where it leads.
        public var destination: IPPrefix
        /// What it does.
        public var type: RouteType
        /// The next hop, `nil` on the link.
        ///
        /// It may be an IPv6 address although the destination is IPv4 (RTA_VIA, RFC 5549).
        public var gateway: IPAddress?
        /// The index of the outgoing interface, `nil` unless it sends.
        public var interface: UInt32?
        /// Its rank among routes to the same destination; less is better.
        public var metric: UInt32
        /// The source address that it prefers.
        public var source: IPAddress?
        /// Whether it is the route to the prefix of an address, which the kernel made itself.
        public var isConnected: Bool

        /// The family of its destination.
        public var family: IPAddress.Family { destination.address.family }
    }
}

extension SimulatedKernel.Route {
    /// The route that the kernel makes when an interface gets an address; `nil` if it makes none.
    init?(connecting address: NetworkInterface.Address, on interface: UInt32) {
        let isIPv4 = address.address.family == .ipv4
        // net/ipv4/fib_frontend.c, fib_add_ifaddr(): no prefix, no route.
        guard !isIPv4 || address.prefixLength < 32 else { return nil }
        self.init(
            destination: IPPrefix(address.address, length: address.prefixLength), type: .unicast, interface: interface,
            metric: isIPv4 ? 0 : 256, source: isIPv4 ? address.address : nil, isConnected: true)
    }

    /// How it is announced.
    func change(isRemoval: Bool) -> RouteChange {
        // IPv6 hangs routes that do not send on the loopback device; IPv4 names none.
        let isRefusal6 = type != .unicast && family == .ipv6
        return RouteChange(
            destination, gateway: gateway, interface: isRefusal6 ? SimulatedKernel.loopbackIndex : interface, isRemoval: isRemoval)
    }
}
