/// Why the network, or a host, cannot be reached.
///
/// Reasons are ordered by how far up the stack things are in order: a later one means that all layers before it are fine.
/// More may be added.
public struct OfflineReason: RawRepresentable, Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The reason's stable name, as in JSON.
    public let rawValue: String

    /// Makes a reason from its name; `nil` for a name that is none.
    public init?(rawValue: String) {
        guard Self.all.contains(where: { $0.rawValue == rawValue }) else { return nil }
        self.rawValue = rawValue
    }

    private init(_ name: String) { rawValue = name }

    /// There is no interface but the loopback device.
    public static let noInterface = OfflineReason("noInterface")
    /// The interface is shut down (no IFF_UP).
    public static let adminDown = OfflineReason("adminDown")
    /// The interface is up and has no carrier: no cable, no association.
    public static let noCarrier = OfflineReason("noCarrier")
    /// The interface has carrier but is not operational yet: 802.1X, a bonding decision.
    public static let dormant = OfflineReason("dormant")
    /// The interface works and has no usable address.
    public static let noAddress = OfflineReason("noAddress")
    /// The only addresses are still being checked for duplicates (RFC 4862 §5.4).
    public static let addressTentative = OfflineReason("addressTentative")
    /// Everything is in order and no route leads there (ENETUNREACH).
    public static let noRoute = OfflineReason("noRoute")
    /// A route of type "unreachable" says no (EHOSTUNREACH).
    ///
    /// A rule of that type counts as ``noRoute``: it answers ENETUNREACH (fib4_rule_action, net/ipv4/fib_rules.c).
    public static let unreachable = OfflineReason("unreachable")
    /// A route or rule of type "prohibit" says no (EACCES).
    public static let prohibited = OfflineReason("prohibited")
    /// A route or rule of type "blackhole" swallows everything (EINVAL).
    public static let blackhole = OfflineReason("blackhole")
    /// The host's name has no address: there is none, or no name server answers.
    public static let unresolved = OfflineReason("unresolved")

    /// All reasons, in order.
    public static let all: [OfflineReason] = [
        .noInterface, .adminDown, .noCarrier, .dormant, .noAddress, .addressTentative, .noRoute, .unreachable, .prohibited,
        .blackhole, .unresolved,
    ]

    private var rank: Int { Self.all.firstIndex(of: self) ?? Self.all.count }

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
