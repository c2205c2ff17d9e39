import CommandKit
import ReachableFleet

extension JSONValue {
    /// Returns the line about a whole picture, with the keys of docs/json.md.
    ///
    /// - Parameter problem: The reason why it is unknown.
    static func picture(_ picture: FleetPicture, of site: FleetName, problem: String?, at now: Duration) -> JSONValue {
        .object([
            .init("event", .string("picture")), .init("time", .wallTime(now)), .init("site", .string("\(site)")),
            .init("current", .bool(picture.isCurrent)),
            .init("unknownSince", picture.unknownSince.map(JSONValue.wallTime) ?? .null),
            .init("problem", .optional(picture.isCurrent ? nil : problem)), .init("nodes", .integer(picture.nodes.count)),
        ])
    }

    /// Returns the line about a node.
    static func node(_ node: FleetNode, at now: Duration) -> JSONValue {
        .object([.init("event", .string("node")), .init("time", .wallTime(now))] + members(of: node))
    }

    /// Returns the line about a removed node.
    static func removal(of name: FleetName, at now: Duration) -> JSONValue {
        .object([.init("event", .string("removed")), .init("time", .wallTime(now)), .init("name", .string("\(name)"))])
    }

    /// Returns a node as an object.
    static func node(_ node: FleetNode) -> JSONValue { .object(members(of: node)) }

    private static func members(of node: FleetNode) -> [Member] {
        [
            .init("name", .string("\(node.name)")), .init("state", .string(node.state.rawValue)),
            .init("lastState", .string(node.lastState.rawValue)), .init("reason", .optional(node.reason)),
            // A node whose clock was never set may say 1970.
            .init("since", .string(CalendarTime(node.since).rfc3339)),
            .init("lastSeen", .string(CalendarTime(node.lastSeen).rfc3339)), .init("old", .bool(node.isOld)),
            .init("run", .string("\(node.run)")), .init("epoch", .integer(node.epoch)),
        ]
    }
}
