/// Where a monitor learns about the network: the kernel, a simulation or a recording.
///
/// Events are hints. A source may lose, repeat or reorder them, as long as ``interfaces()`` and ``route(to:)`` answer the truth.
/// `NetworkSourceConformance`, in `ReachabilityTesting`, checks what a source of your own promises here.
public protocol NetworkSource: Sendable {
    /// Subscribes, then calls `deliver` with each batch, until cancelled.
    ///
    /// Calls are serial and never re-entrant. The first one comes as soon as events can no longer be missed. Each returns how
    /// long the monitor can wait for the next batch; after that time it wants an empty one. `nil` means: no need.
    ///
    /// - Throws: ``ReachabilityError`` if it cannot subscribe, `CancellationError` when cancelled.
    func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws

    /// Asks for an empty batch soon, because a scope was added.
    ///
    /// It may be delivered before the call returns, by the calling thread: hold no lock that a listener needs. Callable from any
    /// thread, also from within `deliver`.
    func wake()

    /// Says which addresses the monitor asks about, whenever they change: events that concern none of them need not be delivered.
    ///
    /// Called before ``run(deliver:)``, and then within `deliver` before the monitor asks about a new address: what changes after
    /// this call returned must be announced. The default does nothing, which is right for a source that delivers all there is;
    /// a source that wraps another one should pass it on. Callable from any thread.
    func watch(_ destinations: Set<IPAddress>)

    /// Begins to look up a host's addresses; the answer is delivered as an event, ``NetworkEvent/host(_:_:)``.
    ///
    /// Called within `deliver`; must not block. The default does nothing, so that hosts stay unresolved.
    func resolve(_ host: String)

    /// Looks a host's addresses up, now and by blocking, for questions outside of `run`. Callable from any thread.
    ///
    /// The default cannot: ``HostAnswer/failed``.
    func addresses(of host: String) -> HostAnswer

    /// Says that conditions have just been told of a change; what streams are told is still to be put together.
    ///
    /// Called within `deliver`. A source whose thread runs tasks can let those go on that wait for a condition. The default does
    /// nothing.
    func didTellConditions()

    /// All links with their addresses, read now. Callable from any thread.
    func interfaces() throws(ReachabilityError) -> [NetworkInterface]

    /// One look-up in the kernel's forwarding table (RTM_GETROUTE, rtnetlink(7)). Callable from any thread.
    ///
    /// - Throws: only when the question could not be asked; the kernel's refusal is an answer.
    func route(to query: RouteQuery) throws(ReachabilityError) -> RouteVerdict

    /// Several look-ups, answered in their order. Callable from any thread.
    ///
    /// The default asks one after the other, which is right for every source; one that can ask for all at once should. A source
    /// that wraps another one should pass it on.
    ///
    /// - Throws: when one of the questions could not be asked.
    func routes(to queries: [RouteQuery]) throws(ReachabilityError) -> [RouteVerdict]
}

extension NetworkSource {
    /// Asks one question after the other.
    public func routes(to queries: [RouteQuery]) throws(ReachabilityError) -> [RouteVerdict] {
        var verdicts: [RouteVerdict] = []
        verdicts.reserveCapacity(queries.count)
        for query in queries { verdicts.append(try route(to: query)) }
        return verdicts
    }

    /// Does nothing: all events are delivered.
    public func watch(_ destinations: Set<IPAddress>) {}

    /// Does nothing.
    public func didTellConditions() {}

    /// Does nothing: the host stays unresolved.
    public func resolve(_ host: String) {}

    /// Fails.
    public func addresses(of host: String) -> HostAnswer { .failed }
}

/// A question to the forwarding table.
public struct RouteQuery: Hashable, Sendable {
    /// Where a packet would go.
    public var destination: IPAddress
    /// The index of the interface that the socket is bound to.
    public var interface: UInt32?
    /// The socket's firewall mark.
    public var mark: UInt32?
    /// The socket's owner.
    public var uid: UInt32?
    /// Whether to answer with the entry of the table (RTM_F_FIB_MATCH) instead of the resolved route.
    public var wantsMatch: Bool

    /// Makes a question.
    public init(
        to destination: IPAddress, interface: UInt32? = nil, mark: UInt32? = nil, uid: UInt32? = nil, wantsMatch: Bool = false
    ) {
        self.destination = destination
        self.interface = interface
        self.mark = mark
        self.uid = uid
        self.wantsMatch = wantsMatch
    }
}

/// The forwarding table's answer.
public enum RouteVerdict: Hashable, Sendable {
    /// The kernel would send so.
    case route(Route)
    /// The kernel would not send: ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL (rtnetlink's reply to RTM_GETROUTE).
    case refused(errno: Int32)

    /// A resolved route, or with ``RouteQuery/wantsMatch`` an entry of the table.
    public struct Route: Hashable, Sendable {
        /// The index of the outgoing interface.
        public var interface: UInt32
        /// The next hop, `nil` on the link.
        public var gateway: IPAddress?
        /// The source address that the kernel would choose.
        public var source: IPAddress?
        /// The table the route is in.
        public var table: UInt32
        /// The metric, if the answer carries one.
        public var metric: UInt32?
        /// The length of the matched prefix; of use with ``RouteQuery/wantsMatch`` only.
        public var prefixLength: Int?
        /// Whether the destination is an address of this machine (RTN_LOCAL).
        public var isLocal: Bool

        /// Makes a route.
        public init(
            interface: UInt32, gateway: IPAddress? = nil, source: IPAddress? = nil, table: UInt32 = 254, metric: UInt32? = nil,
            prefixLength: Int? = nil, isLocal: Bool = false
        ) {
            self.interface = interface
            self.gateway = gateway
            self.source = source
            self.table = table
            self.metric = metric
            self.prefixLength = prefixLength
            self.isLocal = isLocal
        }
    }
}
