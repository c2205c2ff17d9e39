import CommandKit
import ReachableFleet

/// The nodes of a site as the service shows them.
///
/// Pure.
struct FleetSnapshot {
    /// The number of nodes that are listed.
    static let most = 200

    /// The name of this machine.
    var node: FleetName
    var site: FleetName
    /// The broker: host and port.
    var broker: String
    var picture: FleetPicture
    /// True while the broker is connected.
    var isConnected: Bool
    /// The reason why the picture is unknown, or why this machine is not announced.
    var problem: String?
    var ignored = FleetCounts()

    /// The numbers of nodes by state, in the order of the states.
    var counts: [(state: FleetNode.State, count: Int)] {
        let counts = picture.nodes.reduce(into: [:]) { $0[$1.state, default: 0] += 1 }
        return FleetNode.State.allCases.map { ($0, counts[$0] ?? 0) }
    }

    /// The numbers of ignored messages, by reason.
    var ignoredByReason: [(reason: String, count: Int)] {
        [
            ("malformed", ignored.malformed), ("oversized", ignored.oversized), ("foreignVersion", ignored.foreignVersion),
            ("outdated", ignored.outdated), ("tooMany", ignored.tooMany), ("trigger", ignored.ignoredTriggers),
        ]
    }

    /// The listed nodes by name: of too many, those that are not there come before others.
    var listed: [FleetNode] {
        guard picture.nodes.count > Self.most else { return picture.nodes }
        let (trouble, rest) = (picture.nodes.filter { $0.state != .online }, picture.nodes.filter { $0.state == .online })
        return (trouble + rest).prefix(Self.most).sorted { $0.name < $1.name }
    }

    /// The fleet with the keys of docs/json.md.
    var json: JSONValue {
        .object([
            .init("node", .string("\(node)")), .init("site", .string("\(site)")), .init("broker", .string(broker)),
            .init("connected", .bool(isConnected)), .init("unknownSince", picture.unknownSince.map(JSONValue.wallTime) ?? .null),
            .init("problem", .optional(problem)),
            .init("counts", .object(counts.map { .init($0.state.rawValue, .integer($0.count)) })),
            .init("nodes", .array(listed.map(JSONValue.node))), .init("more", .bool(picture.nodes.count > Self.most)),
        ])
    }
}
