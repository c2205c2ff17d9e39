import Reachability
import ReachabilityTesting

extension Operation: CustomStringConvertible {
    /// The command that makes the change to a namespace, without its name; `far` changes the other end of the cables.
    var description: String { words.joined(separator: " ") }

    /// The commands for a machine in namespace `near` whose cables lead to namespace `far`.
    func commands(near: String, far: String) -> [[String]] {
        switch self {
        case .setSysctl(let key, let value): [["ip", "netns", "exec", near, "sysctl", "-qw", "\(key)=\(value)"]]
        case .setCarrier: [["ip", "-n", far] + words.dropFirst()]
        case .addLink(let name, _):
            [["ip", "-n", near] + words.dropFirst() + ["netns", far], ["ip", "-n", far, "link", "set", "far-\(name)", "up"]]
        default: [["ip", "-n", near] + words.dropFirst()]
        }
    }

    private var words: [String] {
        switch self {
        case .addLink(let name, let index):
            // The other ends have other indices: if they are equal the kernel takes a cable for a device that is its own bottom,
            // and puts the news of its carrier off for a second (linkwatch_urgent_event(), net/core/link_watch.c).
            ["ip", "link", "add", name, "index", "\(index)", "address", "02:00:00:00:00:\(index / 16)\(Self.digit(index % 16))"]
                + ["type", "veth", "peer", "name", "far-\(name)", "index", "\(1000 + index)"]
        case .removeLink(let name): ["ip", "link", "del", name]
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

    private static func digit(_ value: UInt32) -> String { String(value, radix: 16) }

    private static func way(_ gateway: String?, _ name: String) -> [String] {
        guard let gateway else { return ["dev", name] }
        return ["via", gateway, "dev", name, "onlink"]
    }

    private static func option(_ family: IPAddress.Family) -> [String] { family == .ipv6 ? ["-6"] : [] }
}

extension Operation.Key {
    fileprivate var words: [String] {
        [destination] + (sources.map { ["from", $0] } ?? []) + (metric.map { ["metric", "\($0)"] } ?? [])
            + (table == 254 ? [] : ["table", "\(table)"])
    }
}

extension SimulatedKernel.Rule {
    fileprivate var words: [String] {
        var words = ["priority", "\(priority)"]
        if let source { words += ["from", source.text] }
        if let destination { words += ["to", destination.text] }
        if let mark { words += ["fwmark", "\(mark)"] }
        if let uids { words += ["uidrange", "\(uids.lowerBound)-\(uids.upperBound)"] }
        if let transport { words += ["ipproto", "\(transport.rawValue)"] }
        if let ports { words += ["dport", "\(ports.lowerBound)-\(ports.upperBound)"] }
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
