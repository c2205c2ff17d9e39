import Reachability
import ReachabilityTesting

extension Operation: CustomStringConvertible {
    /// The command that makes the change to a namespace, without its name; `far` changes the other end of the cables.
    var description: String { words.joined(separator: " ") }

    /// Whether the change is made at the other end of the cables.
    var isFar: Bool {
        if case .setCarrier = self { true } else { false }
    }

    /// The command for a machine in namespace `near` whose cables lead to namespace `far`.
    func command(near: String, far: String) -> [String] {
        if case .setSysctl(let key, let value) = self {
            return ["ip", "netns", "exec", near, "sysctl", "-qw", "\(key)=\(value)"]
        }
        return ["ip", "-n", isFar ? far : near] + words.dropFirst()
    }

    private var words: [String] {
        switch self {
        case .setUp(let name, let isUp): ["ip", "link", "set", name, isUp ? "up" : "down"]
        case .setCarrier(let name, let hasCarrier): ["far", "link", "set", "far-\(name)", hasCarrier ? "up" : "down"]
        case .addAddress(let name, let address):
            ["ip", "address", "add", address, "dev", name] + (address.contains(":") ? ["nodad"] : [])
        case .removeAddress(let name, let address): ["ip", "address", "del", address, "dev", name]
        case .addRoute(let key, let gateway, let name, let source):
            ["ip", "route", "add"] + key.words + Self.way(gateway, name) + (source.map { ["src", $0] } ?? [])
        case .replaceRoute(let key, let gateway, let name): ["ip", "route", "replace"] + key.words + Self.way(gateway, name)
        case .addRefusal(let key, let type): ["ip", "route", "add", type.rawValue] + key.words
        case .addMultipath(let key, let hops):
            ["ip", "route", "add"] + key.words + hops.flatMap { ["nexthop"] + Self.way($0.gateway, $0.name) }
        case .addRouteThroughNexthop(let key, let id): ["ip", "route", "add"] + key.words + ["nhid", "\(id)"]
        case .removeRoute(let key, let gateway, let name):
            ["ip", "route", "del"] + key.words + (gateway.map { ["via", $0] } ?? []) + (name.map { ["dev", $0] } ?? [])
        case .addRule(let rule): ["ip"] + Self.option(rule.family) + ["rule", "add"] + rule.words
        case .removeRule(let priority, let family):
            ["ip"] + Self.option(family) + ["rule", "del", "priority", "\(priority)"]
        case .addNexthop(let id, let gateway, let name): ["ip", "nexthop", "add", "id", "\(id)"] + Self.way(gateway, name)
        case .addBlackholeNexthop(let id, let family):
            ["ip"] + Self.option(family) + ["nexthop", "add", "id", "\(id)", "blackhole"]
        case .addNexthopGroup(let id, let members):
            ["ip", "nexthop", "add", "id", "\(id)", "group", members.map(String.init).joined(separator: "/")]
        case .replaceNexthop(let id, let gateway, let name):
            ["ip", "nexthop", "replace", "id", "\(id)"] + Self.way(gateway, name)
        case .replaceNexthopByBlackhole(let id, let family):
            ["ip"] + Self.option(family) + ["nexthop", "replace", "id", "\(id)", "blackhole"]
        case .removeNexthop(let id): ["ip", "nexthop", "del", "id", "\(id)"]
        case .setSysctl(let key, let value): ["sysctl", "\(key)=\(value)"]
        }
    }

    private static func way(_ gateway: String?, _ name: String) -> [String] {
        guard let gateway else { return ["dev", name] }
        return ["via", gateway, "dev", name, "onlink"]
    }

    private static func option(_ family: IPAddress.Family) -> [String] { family == .ipv6 ? ["-6"] : [] }
}

extension Operation.Key {
    fileprivate var words: [String] {
        [destination] + (metric.map { ["metric", "\($0)"] } ?? []) + (table == 254 ? [] : ["table", "\(table)"])
    }
}

extension SimulatedKernel.Rule {
    fileprivate var words: [String] {
        var words = ["priority", "\(priority)"]
        if let source { words += ["from", source.text] }
        if let destination { words += ["to", destination.text] }
        if let mark { words += ["fwmark", "\(mark)"] }
        if let uids { words += ["uidrange", "\(uids.lowerBound)-\(uids.upperBound)"] }
        switch action {
        case .lookup(let table): words += ["lookup", "\(table)"]
        case .unreachable: words += ["unreachable"]
        case .prohibit: words += ["prohibit"]
        case .blackhole: words += ["blackhole"]
        }
        return words
    }
}

extension IPPrefix {
    fileprivate var text: String { "\(address)/\(length)" }
}
