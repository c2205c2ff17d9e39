/// The path from this machine to a scope, or the reason why there is none.
public struct NetworkPath: Hashable, Sendable, CustomStringConvertible {
    /// The verdict.
    public enum Status: String, Hashable, Sendable {
        /// Not known: the monitor has not started, has ended, or cannot see.
        case unknown
        /// The kernel would not send, or not through a usable interface from a usable address.
        case unsatisfied
        /// The kernel would send over at least one IP family. It says nothing about the far end.
        case satisfied
    }

    /// The data of a path.
    private struct Content: Hashable, Sendable {
        var status: Status
        var offlineReason: OfflineReason?
        var ipv4: FamilyPath
        var ipv6: FamilyPath
        var interface: NetworkInterface?
        var validation: PathValidation?
        var nameLookupFailure: NameLookupFailure?
        var obstacle: Obstacle?
    }

    /// An obstacle to packets, where a reason alone would name the wrong interface.
    package indirect enum Obstacle: Hashable, Sendable, CustomStringConvertible {
        /// No interface has the name that the scope is bound to.
        case missing(String)
        /// The scope is bound to the loopback interface.
        case loopback(String)
        /// The interface, such as a VLAN, needs another one below it or its VRF.
        case below(NetworkInterface.Identity, lower: NetworkInterface.Identity, OfflineReason)
        /// No way leads to a tunnel's far end, for the reason of an interface if the lookup chose one.
        case remote(tunnel: NetworkInterface.Identity, IPAddress, NetworkInterface.Identity?, OfflineReason)
        /// A tunnel has no ground left; the last one, or `nil` if it is not known.
        case ground(tunnel: NetworkInterface.Identity, last: NetworkInterface.Identity?, OfflineReason)
        /// The port by which a bridge last knew the gateway does not carry packets any more.
        case port(bridge: NetworkInterface.Identity, gateway: IPAddress, NetworkInterface.Identity, OfflineReason)

        package var description: String {
            switch self {
            case .missing(let name): "there is no interface named \(name)"
            case .loopback(let name): "\(name) is the loopback interface, which leads nowhere else"
            case .below(let upper, let lower, let reason): "\(upper.name) stands on \(lower.name), which \(reason.predicate)"
            case .remote(let tunnel, let address, let interface?, let reason):
                "\(tunnel.name) cannot reach \(address): \(interface.name) \(reason.predicate)"
            case .remote(let tunnel, let address, nil, let reason): "\(tunnel.name) cannot reach \(address): \(reason)"
            case .ground(let tunnel, let last?, let reason):
                "\(tunnel.name) has nothing to stand on: \(last.name) \(reason.predicate)"
            case .ground(let tunnel, nil, let reason): "\(tunnel.name) has nothing to stand on: \(reason)"
            case .port(let bridge, let gateway, let port, let reason):
                "\(bridge.name) reached \(gateway) by \(port.name), which \(reason.predicate)"
            }
        }

        /// The interface that packets would leave through.
        package var egress: NetworkInterface.Identity? {
            switch self {
            case .missing, .loopback: nil
            case .below(let upper, _, _): upper
            case .remote(let tunnel, _, _, _), .ground(let tunnel, _, _): tunnel
            case .port(let bridge, _, _, _): bridge
            }
        }

        /// The interface to mend, if the lookup's own is not it.
        package var culprit: NetworkInterface.Identity? {
            switch self {
            case .missing, .loopback: nil
            case .below(_, let lower, _): lower
            case .remote(_, _, let interface, _): interface
            case .ground(_, let last, _): last
            case .port(_, _, let port, _): port
            }
        }
    }

    /// The content, shared by copies: a path is copied with each transition to each listener.
    // Unchecked: it is only changed through a path that is its sole owner, so no other thread can read it meanwhile.
    private final class Storage: @unchecked Sendable {
        var content: Content

        init(_ content: Content) { self.content = content }
    }

    private var storage: Storage

    /// The verdict.
    public var status: Status {
        get { storage.content.status }
        set { own().content.status = newValue }
    }
    /// The missing layer: the later of the families' reasons; `nil` unless unsatisfied.
    public var offlineReason: OfflineReason? {
        get { storage.content.offlineReason }
        set { own().content.offlineReason = newValue }
    }
    /// The path over IPv4.
    public var ipv4: FamilyPath {
        get { storage.content.ipv4 }
        set { own().content.ipv4 = newValue }
    }
    /// The path over IPv6.
    public var ipv6: FamilyPath {
        get { storage.content.ipv6 }
        set { own().content.ipv6 = newValue }
    }
    /// The interface that packets leave through: IPv4's if satisfied, otherwise IPv6's.
    ///
    /// As of the last evaluation: addresses of a family that the scope does not use may have changed since.
    public var interface: NetworkInterface? {
        get { storage.content.interface }
        set { own().content.interface = newValue }
    }

    /// The result of the last validation of this path; `nil` before the first.
    ///
    /// Only for the internet, in ``ReachabilityMonitor/path`` and ``ReachabilityMonitor/transitions``, and only if
    /// ``ReachabilityMonitor/Configuration/validator`` is set. It does not affect ``status``.
    public var validation: PathValidation? {
        get { storage.content.validation }
        set { own().content.validation = newValue }
    }

    /// The reason why the scope's host has no address; `nil` unless ``offlineReason`` is `unresolved`.
    public var nameLookupFailure: NameLookupFailure? {
        get { storage.content.nameLookupFailure }
        set { own().content.nameLookupFailure = newValue }
    }

    /// The obstacle to packets, if the reason alone would name the wrong interface.
    package var obstacle: Obstacle? {
        get { storage.content.obstacle }
        set { own().content.obstacle = newValue }
    }

    /// Makes a path.
    public init(
        status: Status, offlineReason: OfflineReason? = nil, ipv4: FamilyPath = .init(), ipv6: FamilyPath = .init(),
        interface: NetworkInterface? = nil, validation: PathValidation? = nil, nameLookupFailure: NameLookupFailure? = nil
    ) {
        storage = Storage(
            Content(
                status: status, offlineReason: offlineReason, ipv4: ipv4, ipv6: ipv6, interface: interface,
                validation: validation, nameLookupFailure: nameLookupFailure))
    }

    /// Returns the storage, copied first if another path shares it.
    private mutating func own() -> Storage {
        if !isKnownUniquelyReferenced(&storage) { storage = Storage(storage.content) }
        return storage
    }

    /// Returns true if all data are the same.
    public static func == (one: NetworkPath, other: NetworkPath) -> Bool {
        one.storage === other.storage || one.storage.content == other.storage.content
    }

    /// Hashes the data.
    public func hash(into hasher: inout Hasher) { hasher.combine(storage.content) }

    /// The path before the first snapshot and after the end.
    public static let unknown = NetworkPath(status: .unknown)

    /// True if the status is `satisfied`.
    public var isSatisfied: Bool { status == .satisfied }
    /// True if IPv4 works.
    public var supportsIPv4: Bool { storage.content.ipv4.isSatisfied }
    /// True if IPv6 works.
    public var supportsIPv6: Bool { storage.content.ipv6.isSatisfied }
    /// True if the status is `satisfied` and a part fails: see ``FamilyPath/partialReason``.
    public var isPartial: Bool { isSatisfied && (ipv4.partialReason ?? ipv6.partialReason) != nil }
    /// The next hops in use, IPv4's first, without repetition.
    public var gateways: [IPAddress] {
        guard let first = ipv4.gateway else { return ipv6.gateway.map { [$0] } ?? [] }
        guard let second = ipv6.gateway, second != first else { return [first] }
        return [first, second]
    }

    /// Returns the index of the interface that packets of one family leave through.
    ///
    /// Read in its place, like the source: a copy of a whole family path costs more than a verdict.
    package func link(over family: IPAddress.Family) -> UInt32? {
        family == .ipv4 ? storage.content.ipv4.interface?.index : storage.content.ipv6.interface?.index
    }

    /// Returns the source address of packets of one family.
    package func source(over family: IPAddress.Family) -> IPAddress? {
        family == .ipv4 ? storage.content.ipv4.source : storage.content.ipv6.source
    }

    /// Returns true if the route of one family has several next hops.
    fileprivate func isMultipath(over family: IPAddress.Family) -> Bool {
        family == .ipv4 ? storage.content.ipv4.isMultipath : storage.content.ipv6.isMultipath
    }

    /// Returns true if packets of one family go through a tunnel whose ground is known.
    package func hasGround(over family: IPAddress.Family) -> Bool {
        family == .ipv4 ? !storage.content.ipv4.ground.isEmpty : !storage.content.ipv6.ground.isEmpty
    }

    /// Returns true if one family works.
    package func supports(_ family: IPAddress.Family) -> Bool { family == .ipv4 ? supportsIPv4 : supportsIPv6 }

    /// Fills in the data of a family's table entry.
    ///
    /// - Parameter failing: the reason of a next hop that does not work; `nil` if all do.
    package mutating func describe(_ family: IPAddress.Family, _ entry: RouteVerdict.Route, failing: OfflineReason?) {
        var described = self[family]
        (described.metric, described.prefixLength) = (entry.metric, entry.prefixLength)
        described.isMultipath = !entry.nextHops.isEmpty
        described.partialReason = described.partialReason ?? failing
        self[family] = described
    }

    /// The path over one family.
    public subscript(family: IPAddress.Family) -> FamilyPath {
        get { family == .ipv4 ? ipv4 : ipv6 }
        set { if family == .ipv4 { ipv4 = newValue } else { ipv6 = newValue } }
    }

    /// The path in words: `satisfied via eth0, gateway 192.0.2.1, source 192.0.2.10, IPv4`, or `unsatisfied: no carrier`.
    ///
    /// Interface names in it are as the kernel has them: escape it before it reaches a terminal.
    public var description: String {
        switch status {
        case .unknown: "unknown"
        case .unsatisfied: "unsatisfied: \(summary)"
        case .satisfied: "satisfied \(summary)"
        }
    }

    /// The path in words without its status: `via eth0, gateway 192.0.2.1, …`, or the reason why there is none.
    package var summary: String {
        switch status {
        case .unknown: return "not known"
        case .unsatisfied:
            return obstacle?.description ?? nameLookupFailure?.description ?? offlineReason?.description ?? "no path"
        case .satisfied: break
        }
        let family = ipv4.isSatisfied ? ipv4 : ipv6
        var parts: [String] = []
        if let name = interface?.name ?? family.interface?.name { parts.append("via \(name)") }
        if let gateway = family.gateway { parts.append("gateway \(gateway)") }
        if let source = family.source { parts.append("source \(source)") }
        let families = [ipv4.isSatisfied ? "IPv4" : nil, ipv6.isSatisfied ? "IPv6" : nil].compactMap(\.self)
        parts.append(families.joined(separator: "+"))
        for (name, family) in [("IPv4", ipv4), ("IPv6", ipv6)] where family.isSatisfied {
            if let reason = family.partialReason { parts.append("some \(name) connections fail: \(reason)") }
        }
        // The families may leave by different interfaces.
        if ipv4.isSatisfied, ipv6.isSatisfied, let other = ipv6.interface, other.index != ipv4.interface?.index {
            parts.append("IPv6 via \(other.name)")
        }
        return parts.joined(separator: ", ")
    }
}

/// The path of one IP family to a scope, or the reason why there is none.
///
/// It describes the kernel's answer for the scope's first address of the family; further representative addresses only add to
/// the verdict. All properties but ``isSatisfied`` and ``reason`` are `nil` while unsatisfied.
public struct FamilyPath: Hashable, Sendable {
    /// True if the kernel would send: there is a route, through a usable interface, from a usable source.
    public var isSatisfied: Bool
    /// The missing layer; `nil` if satisfied, and for a family that the scope does not use.
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
    /// Read when a change is published, after conditions were updated; not kept up to date in between.
    public var metric: UInt32?
    /// The length of the prefix that matched: 0 for a default route, 1 for half of a VPN's split default.
    ///
    /// Read like ``metric``.
    public var prefixLength: Int?
    /// The reason why some packets get lost although others arrive: a next hop of a multipath route does not work.
    ///
    /// `nil` if all work. Which next hop the kernel chooses depends on a hash of the addresses: one destination always has the
    /// same. If the hash is of ports, too, each connection has its own (fib_multipath_hash_policy, docs/networking/ip-sysctl.rst).
    /// Read like ``metric``, and whenever the route is looked up.
    public var partialReason: OfflineReason?
    /// True if the route has several next hops.
    package var isMultipath = false
    /// True if ``reason`` was inferred from the interfaces: no lookup chose one, and none was refused for a reason.
    package var isInferred = false
    /// The obstacle to packets, if the reason alone would name the wrong interface.
    package var obstacle: NetworkPath.Obstacle?
    /// The indices of the interfaces that the egress tunnel stands on; empty for any other egress.
    package var ground: [UInt32] = []
    /// The index of the interface that the deciding lookup chose and that cannot be used; `nil` if it chose none.
    package var refusedInterface: UInt32?

    /// Makes a family's path, by default that of an unused family.
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

extension NetworkPath {
    /// Returns the kinds of change from an earlier path.
    ///
    /// Empty for differences that are not published: metric, prefix length, table, lifetimes, or the reasons of families while the
    /// path's status and reason stay.
    package func kinds(since old: NetworkPath) -> Transition.Kinds {
        switch (old.isSatisfied, isSatisfied) {
        case (false, true): return .online
        case (true, false): return .offline
        case (false, false):
            let isSame =
                old.status == status && old.offlineReason == offlineReason && old.nameLookupFailure == nameLookupFailure
                && old.obstacle == obstacle
            return isSame ? [] : .reasonChanged
        case (true, true):
            var kinds: Transition.Kinds = []
            for family in IPAddress.Family.allCases { kinds.formUnion(self[family].kinds(since: old[family])) }
            if interface?.identity != old.interface?.identity { kinds.insert(.interfaceChanged) }
            if validation != old.validation { kinds.insert(.validationChanged) }
            return kinds
        }
    }

    /// Returns true if the table entries must be read again, because packets take another way than the described one.
    package func takesAnotherWay(than old: NetworkPath?) -> Bool {
        guard let old else { return true }
        return IPAddress.Family.allCases.contains { family in
            // Next hops come and go without another way, or a message.
            supports(family)
                && (!old.supports(family) || old.isMultipath(over: family) || !self[family].kinds(since: old[family]).isEmpty)
        }
    }

    /// Takes over the details, which are only read on change.
    package mutating func copyDetails(from old: NetworkPath) {
        for family in IPAddress.Family.allCases where supports(family) && old.supports(family) {
            (self[family].metric, self[family].prefixLength) = (old[family].metric, old[family].prefixLength)
            (self[family].isMultipath, self[family].partialReason) = (old[family].isMultipath, old[family].partialReason)
        }
    }
}

extension FamilyPath {
    fileprivate func kinds(since old: FamilyPath) -> Transition.Kinds {
        switch (old.isSatisfied, isSatisfied) {
        case (false, false): return []
        case (false, true): return .familyGained
        case (true, false): return .familyLost
        case (true, true):
            var kinds: Transition.Kinds = []
            if old.interface != interface { kinds.insert(.interfaceChanged) }
            if old.gateway != gateway { kinds.insert(.gatewayChanged) }
            if old.source != source { kinds.insert(.sourceChanged) }
            if old.partialReason != partialReason { kinds.insert(.reasonChanged) }
            return kinds
        }
    }
}
