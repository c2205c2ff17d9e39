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

    /// The verdict.
    public var status: Status
    /// Why not: the later of the families' reasons; `nil` unless unsatisfied.
    public var offlineReason: OfflineReason?
    /// The path over IPv4.
    public var ipv4: FamilyPath
    /// The path over IPv6.
    public var ipv6: FamilyPath
    /// The interface that packets leave through: IPv4's if satisfied, otherwise IPv6's.
    public var interface: NetworkInterface?

    /// Makes a path.
    public init(
        status: Status, offlineReason: OfflineReason? = nil, ipv4: FamilyPath = .init(), ipv6: FamilyPath = .init(),
        interface: NetworkInterface? = nil
    ) {
        self.status = status
        self.offlineReason = offlineReason
        self.ipv4 = ipv4
        self.ipv6 = ipv6
        self.interface = interface
    }

    /// The path before the first snapshot and after the end.
    public static let unknown = NetworkPath(status: .unknown)

    /// Whether the status is `satisfied`.
    public var isSatisfied: Bool { status == .satisfied }
    /// Whether IPv4 works.
    public var supportsIPv4: Bool { ipv4.isSatisfied }
    /// Whether IPv6 works.
    public var supportsIPv6: Bool { ipv6.isSatisfied }
    /// The next hops in use, IPv4's first, without repetition.
    public var gateways: [IPAddress] {
        guard let first = ipv4.gateway else { return ipv6.gateway.map { [$0] } ?? [] }
        guard let second = ipv6.gateway, second != first else { return [first] }
        return [first, second]
    }

    /// The path over one family.
    public subscript(family: IPAddress.Family) -> FamilyPath {
        get { family == .ipv4 ? ipv4 : ipv6 }
        set { if family == .ipv4 { ipv4 = newValue } else { ipv6 = newValue } }
    }
}
