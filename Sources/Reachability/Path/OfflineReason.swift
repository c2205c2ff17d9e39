/// Why the network, or a host, cannot be reached.
///
/// Reasons are ordered by how far up the stack things are in order: a later one means that all layers before it are fine.
/// More may be added.
public struct OfflineReason: RawRepresentable, Hashable, Sendable, Comparable, CustomStringConvertible {
    // One byte, for reasons are compared and copied between each event and its verdict.
    private let rank: UInt8

    private static let names = [
        "noInterface", "adminDown", "noCarrier", "dormant", "noAddress", "addressTentative", "noRoute", "unreachable", "prohibited",
        "blackhole", "unresolved",
    ]

    /// The reason's stable name, as in JSON.
    public var rawValue: String { Self.names[Int(rank)] }

    /// Makes a reason from its name; `nil` for a name that is none.
    public init?(rawValue: String) {
        guard let rank = Self.names.firstIndex(of: rawValue) else { return nil }
        self.init(UInt8(rank))
    }

    private init(_ rank: UInt8) { self.rank = rank }

    /// There is no interface but the loopback device.
    public static let noInterface = OfflineReason(0)
    /// The interface is shut down (no IFF_UP).
    public static let adminDown = OfflineReason(1)
    /// The interface is up and has no carrier: no cable, no association.
    public static let noCarrier = OfflineReason(2)
    /// The interface has carrier but is not operational yet: 802.1X, a bonding decision.
    public static let dormant = OfflineReason(3)
    /// The interface works and has no usable address.
    public static let noAddress = OfflineReason(4)
    /// The only addresses are still being checked for duplicates (RFC 4862 §5.4).
    public static let addressTentative = OfflineReason(5)
    /// Everything is in order and no route leads there (ENETUNREACH).
    public static let noRoute = OfflineReason(6)
    /// A route of type "unreachable" says no (EHOSTUNREACH).
    ///
    /// A rule of that type counts as ``noRoute``: it answers ENETUNREACH (fib4_rule_action, net/ipv4/fib_rules.c).
    public static let unreachable = OfflineReason(7)
    /// A route or rule of type "prohibit" says no (EACCES).
    public static let prohibited = OfflineReason(8)
    /// A route or rule of type "blackhole" swallows everything (EINVAL).
    public static let blackhole = OfflineReason(9)
    /// The host's name has no address: there is none, or no name server answers.
    public static let unresolved = OfflineReason(10)

    /// All reasons, in order.
    public static let all: [OfflineReason] = names.indices.map { OfflineReason(UInt8($0)) }

    /// Whether both are the same reason.
    public static func == (left: OfflineReason, right: OfflineReason) -> Bool { left.rank == right.rank }

    /// Hashes the reason.
    public func hash(into hasher: inout Hasher) { hasher.combine(rank) }

    /// Orders by how much of the stack is in order.
    public static func < (left: OfflineReason, right: OfflineReason) -> Bool { left.rank < right.rank }

    /// The reason in words, for people.
    public var description: String {
        switch self {
        case .noInterface: "no network interface"
        case .adminDown: "interface is shut down"
        case .noCarrier: "no carrier"
        case .dormant: "interface is dormant"
        case .noAddress: "no usable address"
        case .addressTentative: "address is still being checked for duplicates"
        case .noRoute: "no route"
        case .unreachable: "a route says unreachable"
        case .prohibited: "a route says prohibited"
        case .blackhole: "a route is a blackhole"
        case .unresolved: "the host's name has no address"
        default: rawValue
        }
    }
}
