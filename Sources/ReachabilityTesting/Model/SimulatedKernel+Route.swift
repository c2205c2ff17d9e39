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
        /// Ends the search in the table: the next rule is asked, and without another one it is refused with ENETUNREACH.
        case `throw`
    }

    /// One way that a route leads.
    public struct NextHop: Hashable, Sendable {
        /// The next hop, `nil` on the link.
        ///
        /// It may be an IPv6 address although the destination is IPv4 (RTA_VIA, RFC 5549).
        public var gateway: IPAddress?
        /// The index of the outgoing interface.
        public var interface: UInt32
        /// Whether it is passed over because its link is down while another next hop still works (RTNH_F_DEAD).
        public var isDead: Bool
        /// Whether it can be chosen: the kernel gives out shares of the traffic when something happens to a next hop, not when the
        /// settings change.
        var hasShare = true

        init(_ gateway: IPAddress?, _ interface: UInt32) {
            self.gateway = gateway
            self.interface = interface
            isDead = false
        }
    }

    /// A route.
    public struct Route: Hashable, Sendable {
        /// The number of the main table (RT_TABLE_MAIN).
        public static let mainTable: UInt32 = 254

        /// Where it leads.
        public var destination: IPPrefix
        /// The sources that it is for (`from`, ip-route(8)); `nil` for all.
        public var sourcePrefix: IPPrefix?
        /// The table it is in.
        public var table = mainTable
        /// What it does.
        public var type: RouteType
        /// The ways it leads: several if it is a multipath route, none if it refuses or leads through a nexthop object.
        public var nextHops: [NextHop] = []
        /// The number of the nexthop object that it leads through.
        public var nexthop: UInt32?
        /// Its rank among routes to the same destination; less is better.
        public var metric: UInt32
        /// The source address that it prefers.
        public var source: IPAddress?
        /// Whether it is the route to the prefix of an address, which the kernel made itself.
        public var isConnected = false

        /// The family of its destination.
        public var family: IPAddress.Family { destination.address.family }
        /// The gateway of its first next hop, `nil` on the link.
        public var gateway: IPAddress? { nextHops.first?.gateway }
        /// The index of the interface of its first next hop.
        public var interface: UInt32? { nextHops.first?.interface }
    }
}

extension SimulatedKernel.Route {
    /// The route that the kernel makes when an interface gets an address; `nil` if it makes none.
    init?(connecting address: NetworkInterface.Address, on interface: UInt32) {
        let isIPv4 = address.address.family == .ipv4
        // net/ipv4/fib_frontend.c, fib_add_ifaddr(): no prefix, no route.
        guard !isIPv4 || address.prefixLength < 32 else { return nil }
        self.init(
            destination: IPPrefix(address.address, length: address.prefixLength), type: .unicast, nextHops: [.init(nil, interface)],
            metric: isIPv4 ? 0 : 256, source: isIPv4 ? address.address : nil, isConnected: true)
    }

    /// Whether a new route takes the other one's place: the kernel's key.
    func hasKey(of other: Self) -> Bool {
        destination == other.destination && sourcePrefix == other.sourcePrefix && metric == other.metric && table == other.table
    }

    /// Whether the other one was made by the same words.
    func isSame(as other: Self) -> Bool {
        let haveSameNextHops = nextHops.elementsEqual(other.nextHops) { $0.gateway == $1.gateway && $0.interface == $1.interface }
        return haveSameNextHops && hasKey(of: other) && type == other.type && nexthop == other.nexthop && source == other.source
            && isConnected == other.isConnected
    }

    func uses(_ interface: UInt32) -> Bool { nextHops.contains { $0.interface == interface } }
}

extension SimulatedKernel {
    /// How a route is announced, by default with its first next hop.
    func change(of route: Route, nextHop: NextHop? = nil, isRemoval: Bool) -> RouteChange {
        // With nexthop_compat_mode=0 only the number of the nexthop object is told, not what it stands for.
        let isBare = route.nexthop != nil && !settings.isNexthopCompatible
        let nextHop = isBare ? nil : nextHop ?? nextHops(of: route).first
        // IPv6 hangs routes that do not send on the loopback device, and so do nexthop objects; an IPv4 route names none.
        let isRefusal = route.type != .unicast && route.family == .ipv6 || isBlackhole(route) && !isBare
        return RouteChange(
            route.destination, gateway: nextHop?.gateway, interface: isRefusal ? SimulatedKernel.loopbackIndex : nextHop?.interface,
            isRemoval: isRemoval)
    }
}
