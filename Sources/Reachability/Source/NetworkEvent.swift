/// One event of a source: a sign that the network may have changed.
public struct NetworkEvent: Hashable, Sendable {
    package enum Payload: Hashable, Sendable {
        /// Addresses of the interface are ignored: they have events of their own.
        case link(NetworkInterface)
        case linkRemoved(index: UInt32)
        case address(NetworkInterface.Address, interface: UInt32)
        case addressRemoved(NetworkInterface.Address, interface: UInt32)
        case route(RouteChange)
        case rule(isRemoval: Bool)
        case nexthop(id: UInt32, isRemoval: Bool)
        case netconf(interface: UInt32?)
        case neighbour(IPAddress, interface: UInt32, answers: Bool)
        case overrun
        case resumed(after: Duration)
        case host(String, HostAnswer)
        case resolverChanged(file: String)
    }

    package let payload: Payload

    /// Makes an event from its payload.
    package init(_ payload: Payload) { self.payload = payload }

    /// A link exists or changed (RTM_NEWLINK).
    ///
    /// Its addresses are ignored.
    public static func link(_ interface: NetworkInterface) -> NetworkEvent { NetworkEvent(.link(interface)) }
    /// A link is gone (RTM_DELLINK).
    public static func linkRemoved(index: UInt32) -> NetworkEvent { NetworkEvent(.linkRemoved(index: index)) }
    /// An interface has an address (RTM_NEWADDR).
    public static func address(_ address: NetworkInterface.Address, interface: UInt32) -> NetworkEvent {
        NetworkEvent(.address(address, interface: interface))
    }
    /// An interface lost an address (RTM_DELADDR).
    public static func addressRemoved(_ address: NetworkInterface.Address, interface: UInt32) -> NetworkEvent {
        NetworkEvent(.addressRemoved(address, interface: interface))
    }
    /// A route was added, replaced or removed (RTM_NEWROUTE, RTM_DELROUTE).
    public static func route(_ change: RouteChange) -> NetworkEvent { NetworkEvent(.route(change)) }
    /// A policy rule was added or removed (RTM_NEWRULE, RTM_DELRULE).
    public static func rule(isRemoval: Bool) -> NetworkEvent { NetworkEvent(.rule(isRemoval: isRemoval)) }
    /// A nexthop object was added, replaced or removed (RTM_NEWNEXTHOP, RTM_DELNEXTHOP).
    public static func nexthop(id: UInt32, isRemoval: Bool) -> NetworkEvent {
        NetworkEvent(.nexthop(id: id, isRemoval: isRemoval))
    }
    /// A sysctl changed (RTM_NEWNETCONF), of one interface or, with `nil`, of all.
    public static func netconf(interface: UInt32?) -> NetworkEvent { NetworkEvent(.netconf(interface: interface)) }
    /// A neighbour answers, or does not answer any more (RTM_NEWNEIGH, NUD_REACHABLE and NUD_FAILED).
    public static func neighbour(_ address: IPAddress, interface: UInt32, answers: Bool) -> NetworkEvent {
        NetworkEvent(.neighbour(address, interface: interface, answers: answers))
    }
    /// Events were lost (ENOBUFS, netlink(7), or a drop counter that moved), and the source read all that were left.
    public static let overrun = NetworkEvent(.overrun)
    /// The machine was suspended for a time.
    public static func resumed(after: Duration) -> NetworkEvent { NetworkEvent(.resumed(after: after)) }
    /// The answer to ``HostResolving/resolve(_:)``.
    public static func host(_ name: String, _ answer: HostAnswer) -> NetworkEvent { NetworkEvent(.host(name, answer)) }
    /// A file changed by which the system looks up names, such as `/etc/resolv.conf`: watched hosts are looked up again.
    public static func resolverChanged(file: String) -> NetworkEvent { NetworkEvent(.resolverChanged(file: file)) }
}

/// A route that was added, replaced or removed.
public struct RouteChange: Hashable, Sendable {
    /// The destination of the route.
    public var destination: IPPrefix
    /// The next hop.
    public var gateway: IPAddress?
    /// The index of the outgoing interface.
    public var interface: UInt32?
    /// True if the route was removed.
    public var isRemoval: Bool

    /// Makes a change.
    public init(_ destination: IPPrefix, gateway: IPAddress? = nil, interface: UInt32? = nil, isRemoval: Bool = false) {
        self.destination = destination
        self.gateway = gateway
        self.interface = interface
        self.isRemoval = isRemoval
    }
}

/// The events of a source at one moment.
public struct NetworkEventBatch: Sendable {
    /// The events, in order; empty if the batch only carries the time.
    public var events: [NetworkEvent]
    /// The time on the source's clock.
    public var now: BootInstant
    /// The time of day: since 1970-01-01T00:00:00Z.
    public var wallTime: Duration
    /// True if more events wait to be read, so that the monitor may delay its verdict for a moment.
    public var hasMore: Bool
    /// The number of datagrams that were dropped because their sender is not the kernel.
    public var spoofed: Int
    /// The number of malformed messages.
    public var malformed: Int
    /// The number of datagrams that the kernel dropped because the receive buffer was full (SO_MEMINFO, socket(7)).
    public var drops: Int
    /// True if the source hears no events, so that the monitor evaluates at intervals
    /// (``ReachabilityMonitor/Configuration/pollInterval``).
    public var isPolled: Bool
    /// The number of new event sockets in place of unreliable ones.
    public var reopens: Int
    /// The size of the socket's receive buffer in bytes, when it is first known or changes.
    public var receiveBuffer: Int?
    /// The reason why the source hears no events; `nil` if it hears them.
    public var impairment: ReachabilityError?

    /// Makes a batch.
    public init(
        _ events: [NetworkEvent] = [], now: BootInstant, wallTime: Duration, hasMore: Bool = false, spoofed: Int = 0,
        malformed: Int = 0, drops: Int = 0, reopens: Int = 0, isPolled: Bool = false, receiveBuffer: Int? = nil,
        impairment: ReachabilityError? = nil
    ) {
        self.events = events
        self.now = now
        self.wallTime = wallTime
        self.hasMore = hasMore
        self.spoofed = spoofed
        self.malformed = malformed
        self.drops = drops
        self.reopens = reopens
        self.isPolled = isPolled
        self.receiveBuffer = receiveBuffer
        self.impairment = impairment
    }
}

/// The result of looking up a host's addresses.
public enum HostAnswer: Hashable, Sendable {
    /// The host's addresses.
    case addresses([IPAddress])
    /// No addresses, for a reason.
    case failed(NameLookupFailure)

    /// The reason for the failure; `nil` if there are addresses.
    package var failure: NameLookupFailure? {
        if case .failed(let failure) = self { failure } else { nil }
    }
}

/// The reason why the name of a host has no address.
///
/// More may be added.
public struct NameLookupFailure: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The stable name, as in JSON.
    public let rawValue: String
    /// Makes a reason from its name.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The name does not exist, or has no addresses (EAI_NONAME, EAI_NODATA; getaddrinfo(3)).
    public static let notFound = NameLookupFailure(rawValue: "notFound")
    /// No name server answered in time (EAI_AGAIN).
    public static let noAnswer = NameLookupFailure(rawValue: "noAnswer")
    /// A name server refused, or failed on, the query (EAI_AGAIN at once, EAI_FAIL).
    public static let refused = NameLookupFailure(rawValue: "refused")
    /// The name was not looked up: no interface could carry the answer, or the source looks up no names.
    public static let notAsked = NameLookupFailure(rawValue: "notAsked")

    /// The reason in words, for people.
    public var description: String {
        switch self {
        case .notFound: "the name does not exist"
        case .noAnswer: "no name server answered"
        case .refused: "the name server refused"
        case .notAsked: "the name was not looked up"
        default: rawValue
        }
    }
}
