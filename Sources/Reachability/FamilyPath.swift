/// How one IP family reaches a scope, or why not.
///
/// It describes what the kernel answers for the scope's first address of the family; further representative addresses only
/// add to the verdict. Everything but ``isSatisfied`` and ``reason`` is `nil` while unsatisfied.
public struct FamilyPath: Hashable, Sendable {
    /// Whether the kernel would send: there is a route, through a usable interface, from a usable source.
    public var isSatisfied: Bool
    /// Why not; `nil` if satisfied, and for a family that the scope does not ask about.
    public var reason: OfflineReason?
    /// The interface that packets leave through.
    public var interface: NetworkInterface.Identity?
    /// The next hop; `nil` if the destination is on the link.
    ///
    /// An IPv4 path may have an IPv6 gateway (RTA_VIA, RFC 9229).
    public var gateway: IPAddress?
    /// The address that packets are sent from (RTA_PREFSRC).
    public var source: IPAddress?
    /// The routing table that the route was found in (RTA_TABLE).
    public var table: UInt32?
    /// The route's metric (RTA_PRIORITY).
    ///
    /// Read when a change is published, after conditions were told of it; not kept up to date in between.
    public var metric: UInt32?
    /// The length of the prefix that matched: 0 for a default route, 1 for half of a VPN's split default.
    ///
    /// Read like ``metric``.
    public var prefixLength: Int?
    /// If true, ``reason`` was inferred from the interfaces: no lookup chose one, and none was refused for a reason.
    package var isInferred = false

    /// Makes a family's path, by default one that is not asked about.
    public init(
        isSatisfied: Bool = false, reason: OfflineReason? = nil, interface: NetworkInterface.Identity? = nil,
        gateway: IPAddress? = nil, source: IPAddress? = nil, table: UInt32? = nil, metric: UInt32? = nil, prefixLength: Int? = nil
    ) {
        self.isSatisfied = isSatisfied
        self.reason = reason
        self.interface = interface
        self.gateway = gateway
        self.source = source
        self.table = table
        self.metric = metric
        self.prefixLength = prefixLength
    }
}
