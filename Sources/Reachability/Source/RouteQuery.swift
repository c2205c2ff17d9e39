internal import Glibc

/// A query of the forwarding table.
public struct RouteQuery: Hashable, Sendable {
    /// The source address of the packets.
    public enum Source: Hashable, Sendable {
        /// None: the kernel chooses one after the lookup.
        case unspecified
        /// An address of this machine (RTA_SRC), which a route repeats as its source.
        ///
        /// Over IPv4 the verdicts ENETUNREACH and, in older kernels, EINVAL may mean that no interface holds it any more. Over IPv6
        /// the query's interface is only preferred to others then (ip6_route_output_flags, net/ipv6/route.c).
        case address(IPAddress)
        /// The address that connect(2) chooses on a socket with this query's mark and interface, before the lookup.
        ///
        /// Only such a socket knows: the kernel may try sources until a route accepts one (ip6_dst_lookup_tail,
        /// net/ipv6/ip6_output.c). A source that cannot make the socket fails with ``ReachabilityError/Code/permissionDenied``.
        case selected
    }

    /// The destination of the packets.
    public var destination: IPAddress
    /// The index of the interface that the socket is bound to (RTA_OIF).
    public var interface: UInt32?
    /// The socket's firewall mark (RTA_MARK).
    public var mark: UInt32?
    /// The socket's owner (RTA_UID); by default the owner of this process.
    public var uid: UInt32?
    /// The source address.
    public var source: Source
    /// The transport protocol (RTA_IP_PROTO), as rules may select by it.
    public var transport: Scope.Transport
    /// The destination port (RTA_DPORT), as rules may select by it.
    public var port: UInt16?
    /// True if the verdict describes the entry of the table (RTM_F_FIB_MATCH) instead of the resolved route.
    public var fibMatch: Bool
    /// The type of service of the packets (rtm_tos), as a tunnel sets it for its own.
    package var typeOfService: UInt8 = 0

    /// Makes a query.
    public init(
        to destination: IPAddress, interface: UInt32? = nil, mark: UInt32? = nil, uid: UInt32? = nil,
        source: Source = .unspecified, transport: Scope.Transport = .tcp, port: UInt16? = nil, fibMatch: Bool = false
    ) {
        self.destination = destination
        self.interface = interface
        self.mark = mark
        self.uid = uid
        self.source = source
        self.transport = transport
        self.port = port
        self.fibMatch = fibMatch
    }

    /// Returns the same query with a source address.
    package func from(_ source: Source) -> RouteQuery {
        var query = self
        query.source = source
        return query
    }

    /// The same query for the entry of the table.
    package var matching: RouteQuery {
        var query = self
        query.fibMatch = true
        return query
    }
}

/// The forwarding table's answer to a query.
public enum RouteVerdict: Hashable, Sendable {
    /// The kernel would send this way.
    case route(Route)
    /// The kernel would not send: ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL (rtnetlink's reply to RTM_GETROUTE).
    case refused(errno: Int32)

    /// A resolved route, or with ``RouteQuery/fibMatch`` an entry of the table.
    public struct Route: Hashable, Sendable {
        /// The index of the outgoing interface.
        public var interface: UInt32
        /// The next hop, `nil` on the link.
        public var gateway: IPAddress?
        /// The source address that the kernel would use.
        public var source: IPAddress?
        /// The table the route is in; 0 if the kernel found none and took the destination to be on the link.
        public var table: UInt32
        /// The metric, if the answer carries one.
        public var metric: UInt32?
        /// The length of the matched prefix; only set with ``RouteQuery/fibMatch``.
        public var prefixLength: Int?
        /// True if the destination is an address of this machine (RTN_LOCAL).
        public var isLocal: Bool
        /// The protocol that installed the table's entry (RTPROT_*, rtnetlink(7)), such as 16 for DHCP; with
        /// ``RouteQuery/fibMatch`` only.
        public var routingProtocol: UInt8?
        /// The scope of the table's entry (RT_SCOPE_*, rtnetlink(7)), such as 0 for global; with ``RouteQuery/fibMatch`` only.
        public var scope: UInt8?
        /// The remaining lifetime of the entry (`expires`, ip-route(8)), as a router advertises it; `nil` for no end.
        ///
        /// With ``RouteQuery/fibMatch`` only.
        public var lifetime: Duration?
        /// The next hops of a multipath entry (`nexthop`, ip-route(8)), empty for any other; with ``RouteQuery/fibMatch`` only.
        public var nextHops: [NextHop] = []
        /// True if the kernel chooses one of ``nextHops`` by ports, too (fib_multipath_hash_policy other than 0,
        /// docs/networking/ip-sysctl.rst); with ``RouteQuery/fibMatch`` only.
        public var choosesByPorts = false

        /// A next hop of a multipath route.
        public struct NextHop: Hashable, Sendable {
            /// The index of the outgoing interface.
            public var interface: UInt32
            /// The gateway, `nil` on the link.
            public var gateway: IPAddress?
            /// True if the kernel leaves it out (RTNH_F_DEAD), as without carrier where ignore_routes_with_linkdown is set
            /// (fib_nexthop_info, net/ipv4/fib_semantics.c).
            ///
            /// A share of the destinations may still have it until a next hop changes: a sysctl alone moves no share.
            public var isDead: Bool

            /// Makes a next hop.
            public init(interface: UInt32, gateway: IPAddress? = nil, isDead: Bool = false) {
                self.interface = interface
                self.gateway = gateway
                self.isDead = isDead
            }
        }

        /// Makes a route.
        public init(
            interface: UInt32, gateway: IPAddress? = nil, source: IPAddress? = nil, table: UInt32 = 254, metric: UInt32? = nil,
            prefixLength: Int? = nil, isLocal: Bool = false, routingProtocol: UInt8? = nil, scope: UInt8? = nil
        ) {
            self.interface = interface
            self.gateway = gateway
            self.source = source
            self.table = table
            self.metric = metric
            self.prefixLength = prefixLength
            self.isLocal = isLocal
            self.routingProtocol = routingProtocol
            self.scope = scope
        }
    }
}

/// The meanings of the errnos of lookups.
extension RouteVerdict {
    /// The refusal of a kernel without a route.
    package static let noRoute = RouteVerdict.refused(errno: ENETUNREACH)

    /// The missing layer that the kernel's refusal names; `nil` if it names none, or if there is a route.
    ///
    /// An `unreachable` route answers EHOSTUNREACH, `prohibit` EACCES, `blackhole` EINVAL (fib_props, net/ipv4/fib_semantics.c).
    /// Having no route, and a `throw` route, answer ENETUNREACH.
    package var refusalReason: OfflineReason? {
        guard case .refused(let errno) = self else { return nil }
        return switch errno {
        case EHOSTUNREACH: .unreachable
        case EACCES: .prohibited
        case EINVAL: .blackhole
        default: nil
        }
    }

    /// True if an interface vanished during the lookup, which has to be repeated.
    package var isRace: Bool {
        guard case .refused(let errno) = self else { return false }
        return errno == ENODEV || errno == ENETDOWN
    }

    /// True if the verdict on a lookup with an IPv4 source may mean that no interface holds it any more: ENETUNREACH, EINVAL in
    /// older kernels (ip_route_output_key_hash_rcu, net/ipv4/route.c).
    package var mayLackSource: Bool {
        guard case .refused(let errno) = self else { return false }
        return errno == ENETUNREACH || errno == EINVAL
    }

    /// Returns true if packets of a socket that is bound to an interface would go this way.
    ///
    /// An IPv6 lookup with a source only prefers the interface; a socket's lookup insists on it (ip6_route_output_flags,
    /// net/ipv6/route.c).
    package func leaves(by interface: UInt32?) -> Bool {
        guard case .route(let route) = self else { return false }
        return interface == nil || route.isLocal || route.interface == interface
    }

    /// True if the destination is an address of this machine.
    package var isLocal: Bool {
        if case .route(let route) = self { route.isLocal } else { false }
    }
}
