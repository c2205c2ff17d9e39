/// The topics of a site, below `reach/v1/{site}`.
enum FleetTopic: Hashable, Sendable {
    /// `…/{node}/status`: the retained word of a node.
    case status(FleetName)
    /// `…/trigger/{name}`: triggers, not retained.
    case trigger(FleetName)

    /// The name that no node may have: `…/trigger/status` would be its topic and that of a trigger.
    static let reservedNode = "trigger"

    /// Reads a topic; `nil` for those of other sites, versions and shapes.
    init?(_ text: String, site: FleetName) {
        // A longer topic is never one of these, and would take time to split.
        guard text.utf8.count <= 3 * FleetName.longest + 32 else { return nil }
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 5, parts[0] == "reach", parts[1] == "v1", parts[2] == site.description else { return nil }
        if parts[3] == Self.reservedNode {
            guard let name = try? FleetName(String(parts[4])) else { return nil }
            self = .trigger(name)
        } else {
            guard parts[4] == "status", let node = try? FleetName(String(parts[3])) else { return nil }
            self = .status(node)
        }
    }

    /// Returns the topic's text.
    func text(site: FleetName) -> String {
        switch self {
        case .status(let node): "reach/v1/\(site)/\(node)/status"
        case .trigger(let name): "reach/v1/\(site)/\(Self.reservedNode)/\(name)"
        }
    }

    /// Returns the filters of a subscription to everything above.
    static func filters(site: FleetName) -> [String] {
        ["reach/v1/\(site)/+/status", "reach/v1/\(site)/\(reservedNode)/+"]
    }
}
