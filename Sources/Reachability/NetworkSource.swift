/// The origin of all that a monitor knows about the network: the kernel, a simulation or a recording.
///
/// Events are hints. A source may lose, repeat or reorder them, as long as ``interfaces()`` and ``routes(to:)`` answer the truth.
/// A source that filters events by address also conforms to ``FilteringSource``, one that looks up names to ``HostResolving``.
/// `NetworkSourceConformance`, in `ReachabilityTesting`, checks a source of your own against these requirements.
public protocol NetworkSource: Sendable {
    /// Subscribes, then calls `deliver` with each batch, until cancelled.
    ///
    /// Calls are serial and never re-entrant. The first one comes as soon as events can no longer be missed. Each call returns how
    /// long the monitor can wait for the next batch; after that time it wants an empty one. `nil` means that it needs none.
    ///
    /// A passing shortage of descriptors or memory is no reason to end: report it by ``NetworkEventBatch/impairment``.
    ///
    /// - Throws: ``ReachabilityError`` if it cannot subscribe, `CancellationError` when cancelled.
    func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws

    /// Asks for an empty batch soon, because a scope was added.
    ///
    /// The batch may be delivered before the call returns, by the calling thread: hold no lock that a listener needs. Callable
    /// from any thread, also from within `deliver`.
    func wake()

    /// Returns all links with their addresses, from one dump.
    ///
    /// Callable from any thread. It does not sleep: a dump that changed while it was made fails with
    /// ``ReachabilityError/Code/interrupted``, and the monitor asks again a little later.
    ///
    /// - Throws: ``ReachabilityError`` if there is no answer.
    func interfaces() throws(ReachabilityError) -> [NetworkInterface]

    /// Looks up routes in the kernel's forwarding table (RTM_GETROUTE, rtnetlink(7)).
    ///
    /// Callable from any thread.
    ///
    /// - Returns: one result for each query, in the order of the queries. A refusal by the kernel is a verdict; an error means that
    ///   the query could not be asked.
    func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>]
}

/// A source that keeps away events which concern no watched address.
public protocol FilteringSource: NetworkSource {
    /// Sets the addresses that the monitor asks about; events that concern none of them need not be delivered.
    ///
    /// Called before ``NetworkSource/run(deliver:)``, and then within `deliver` before the monitor asks about a new address: a
    /// change after this call returned must be announced. Callable from any thread. A source that wraps another one passes the
    /// call on.
    func watch(_ addresses: Set<IPAddress>)
}

/// A source that looks up the addresses of hosts.
///
/// The monitor leaves hosts unresolved (``NameLookupFailure/notAsked``) on a source that does not conform.
public protocol HostResolving: NetworkSource {
    /// Begins to look up a host's addresses; the answer is delivered as an event, ``NetworkEvent/host(_:_:)``.
    ///
    /// Called within `deliver`; must not block.
    func resolve(_ host: String)
}

/// A source that also looks up names for callers outside of `run`.
package protocol HostAnswering: HostResolving {
    /// If false, a wrapped source looks up no names.
    var resolvesHosts: Bool { get }

    /// Returns hosts' addresses in the order of the hosts, all looked up now; blocks for at most the given time.
    ///
    /// - Parameter limit: the time after which an answer is ``NameLookupFailure/noAnswer``; `nil` waits for the resolver.
    func answers(for hosts: [String], within limit: Duration?) -> [HostAnswer]
}

extension HostAnswering {
    package var resolvesHosts: Bool { true }
}

extension NetworkSource {
    /// If false, hosts get no answers: neither the source nor one that it wraps looks up names.
    var answersHosts: Bool { (self as? any HostAnswering)?.resolvesHosts ?? (self is any HostResolving) }
}

/// A source whose thread runs tasks.
package protocol TaskRunningSource: NetworkSource {
    /// Runs the tasks that wait for the source's thread.
    ///
    /// Called within `deliver` once conditions were updated and before streams are.
    func runTasks()
}

/// A query of the forwarding table.
public struct RouteQuery: Hashable, Sendable {
    /// The source address of the packets that a query asks about.
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
    /// If true, the verdict describes the entry of the table (RTM_F_FIB_MATCH) instead of the resolved route.
    public var fibMatch: Bool

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

    /// The same query with a source address.
    package func from(_ source: Source) -> RouteQuery {
        var query = self
        query.source = source
        return query
    }

    /// The same query, to be answered with the entry of the table.
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
        /// If true, the destination is an address of this machine (RTN_LOCAL).
        public var isLocal: Bool
        /// The protocol that installed the table's entry (RTPROT_*, rtnetlink(7)), such as 16 for DHCP; with
        /// ``RouteQuery/fibMatch`` only.
        public var routingProtocol: UInt8?
        /// The scope of the table's entry (RT_SCOPE_*, rtnetlink(7)), such as 0 for global; with ``RouteQuery/fibMatch`` only.
        public var scope: UInt8?

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
