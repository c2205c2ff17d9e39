/// Whether and how this machine can reach a scope: the network, or one host.
public struct NetworkPath: Hashable, Sendable {
    /// The verdict.
    public enum Status: String, Hashable, Sendable {
        /// Not known: the monitor has not started, has ended, or cannot see.
        case unknown
        /// The kernel would not send, or not through a working interface from a usable address.
        case unsatisfied
        /// The kernel would send over at least one IP family. It says nothing about the far end.
        case satisfied
    }

    /// What a path consists of.
    private struct Content: Hashable, Sendable {
        var status: Status
        var offlineReason: OfflineReason?
        var ipv4: FamilyPath
        var ipv6: FamilyPath
        var interface: NetworkInterface?
        var validation: PathValidation?
    }

    /// The content, shared by copies: a path is copied with each transition to each listener.
    // Unchecked, for it is only changed through a path that is its sole owner: nobody else can read it meanwhile.
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
    /// Why not: the later of the families' reasons; `nil` unless unsatisfied.
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
    /// As it was when the path was last asked for: addresses of a family that the scope does not ask about may have changed since.
    public var interface: NetworkInterface? {
        get { storage.content.interface }
        set { own().content.interface = newValue }
    }

    /// What a validator found at the far end of this path; `nil` if nobody looked, or if it is not known yet.
    ///
    /// Only of the internet, as ``ReachabilityMonitor/path`` and ``ReachabilityMonitor/transitions`` show it, and only if
    /// ``ReachabilityMonitor/Configuration/validator`` is set. It says nothing about ``status``.
    public var validation: PathValidation? {
        get { storage.content.validation }
        set { own().content.validation = newValue }
    }

    /// Makes a path.
    public init(
        status: Status, offlineReason: OfflineReason? = nil, ipv4: FamilyPath = .init(), ipv6: FamilyPath = .init(),
        interface: NetworkInterface? = nil, validation: PathValidation? = nil
    ) {
        storage = Storage(
            Content(
                status: status, offlineReason: offlineReason, ipv4: ipv4, ipv6: ipv6, interface: interface,
                validation: validation))
    }

    /// The storage, copied if another path has it, too.
    private mutating func own() -> Storage {
        if !isKnownUniquelyReferenced(&storage) { storage = Storage(storage.content) }
        return storage
    }

    /// Whether all is the same.
    public static func == (one: NetworkPath, other: NetworkPath) -> Bool {
        one.storage === other.storage || one.storage.content == other.storage.content
    }

    /// Hashes what makes paths equal.
    public func hash(into hasher: inout Hasher) { hasher.combine(storage.content) }

    /// The path before the first snapshot and after the end.
    public static let unknown = NetworkPath(status: .unknown)

    /// Whether the status is `satisfied`.
    public var isSatisfied: Bool { status == .satisfied }
    /// Whether IPv4 works.
    public var supportsIPv4: Bool { storage.content.ipv4.isSatisfied }
    /// Whether IPv6 works.
    public var supportsIPv6: Bool { storage.content.ipv6.isSatisfied }
    /// The next hops in use, IPv4's first, without repetition.
    public var gateways: [IPAddress] {
        guard let first = ipv4.gateway else { return ipv6.gateway.map { [$0] } ?? [] }
        guard let second = ipv6.gateway, second != first else { return [first] }
        return [first, second]
    }

    /// The index of the interface that packets of one family leave through.
    ///
    /// This and the next are read where they are: a copy of all that is said of a family costs more than a verdict.
    package func link(over family: IPAddress.Family) -> UInt32? {
        family == .ipv4 ? storage.content.ipv4.interface?.index : storage.content.ipv6.interface?.index
    }

    /// The address that packets of one family are sent from.
    package func source(over family: IPAddress.Family) -> IPAddress? {
        family == .ipv4 ? storage.content.ipv4.source : storage.content.ipv6.source
    }

    /// Whether one family works.
    package func supports(_ family: IPAddress.Family) -> Bool { family == .ipv4 ? supportsIPv4 : supportsIPv6 }

    /// Fills in what only the table's entry tells of a family.
    package mutating func describe(_ family: IPAddress.Family, metric: UInt32?, prefixLength: Int?) {
        let storage = own()
        if family == .ipv4 {
            (storage.content.ipv4.metric, storage.content.ipv4.prefixLength) = (metric, prefixLength)
        } else {
            (storage.content.ipv6.metric, storage.content.ipv6.prefixLength) = (metric, prefixLength)
        }
    }

    /// The path over one family.
    public subscript(family: IPAddress.Family) -> FamilyPath {
        get { family == .ipv4 ? ipv4 : ipv6 }
        set { if family == .ipv4 { ipv4 = newValue } else { ipv6 = newValue } }
    }
}
