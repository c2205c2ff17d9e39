/// The missing layer of an unsatisfied path.
///
/// Reasons are ordered from the lowest layer up: a later one means that all layers before it work. More may be added.
public struct OfflineReason: RawRepresentable, Hashable, Sendable, Comparable, CustomStringConvertible {
    // One byte, because reasons are compared and copied between each event and its verdict.
    private let rank: UInt8

    private static let names = [
        "noInterface", "adminDown", "noCarrier", "dormant", "noAddress", "addressTentative", "noRoute", "unreachable", "prohibited",
        "blackhole", "unresolved",
    ]

    /// The reason's stable name, as in JSON.
    public var rawValue: String { Self.names[Int(rank)] }

    /// Makes a reason from its name; `nil` for an unknown name.
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
    /// All layers work, and no route leads there (ENETUNREACH).
    public static let noRoute = OfflineReason(6)
    /// A route of type "unreachable" refuses (EHOSTUNREACH).
    ///
    /// A rule of that type is treated as ``noRoute``: it answers ENETUNREACH (fib4_rule_action, net/ipv4/fib_rules.c).
    public static let unreachable = OfflineReason(7)
    /// A route or rule of type "prohibit" refuses (EACCES).
    public static let prohibited = OfflineReason(8)
    /// A route or rule of type "blackhole" drops all packets (EINVAL).
    public static let blackhole = OfflineReason(9)
    /// The host's name has no address: there is none, or no name server answers.
    public static let unresolved = OfflineReason(10)

    /// All reasons, in order.
    public static let all: [OfflineReason] = names.indices.map { OfflineReason(UInt8($0)) }

    /// Returns true if both are the same reason.
    public static func == (left: OfflineReason, right: OfflineReason) -> Bool { left.rank == right.rank }

    /// Hashes the reason.
    public func hash(into hasher: inout Hasher) { hasher.combine(rank) }

    /// Orders from the lowest layer up.
    public static func < (left: OfflineReason, right: OfflineReason) -> Bool { left.rank < right.rank }

    /// The fault of an interface as a predicate: `has no carrier`.
    package var predicate: String {
        switch self {
        case .noInterface: "is gone"
        case .adminDown: "is shut down"
        case .noCarrier: "has no carrier"
        case .dormant: "is dormant"
        case .noAddress: "has no usable address"
        case .addressTentative: "still checks its address for duplicates"
        default: "has no route"
        }
    }

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
