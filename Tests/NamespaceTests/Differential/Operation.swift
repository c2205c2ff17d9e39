import Reachability
import ReachabilityTesting

/// A change for a network namespace and for the model.
enum Operation: Hashable, Sendable {
    /// The key of a route: its destination and its place.
    struct Key: Hashable, Sendable {
        var destination: String
        var metric: UInt32?
        var table: UInt32 = 254
        /// The source prefix of an IPv6 route.
        var sources: String?

        var isIPv6: Bool { destination.contains(":") }
    }

    case addLink(String, index: UInt32)
    case removeLink(String)
    case setUp(String, Bool)
    case setCarrier(String, Bool)
    case addAddress(String, String)
    case removeAddress(String, String)
    case addRoute(Key, via: String?, dev: String, source: String?)
    case replaceRoute(Key, via: String?, dev: String)
    case addRefusal(Key, SimulatedKernel.RouteType)
    case addMultipath(Key, [SimulatedKernel.Hop])
    case addRouteThroughNexthop(Key, UInt32)
    case removeRoute(Key, via: String?, dev: String?)
    case addRule(SimulatedKernel.Rule)
    case removeRule(UInt32, IPAddress.Family)
    case addNexthop(UInt32, via: String, dev: String)
    case addBlackholeNexthop(UInt32, IPAddress.Family)
    case addNexthopGroup(UInt32, [UInt32])
    case replaceNexthop(UInt32, via: String, dev: String)
    case replaceNexthopByBlackhole(UInt32, IPAddress.Family)
    case removeNexthop(UInt32)
    case setSysctl(String, Int)

    /// Applies the change to the model.
    func apply(to network: SimulatedNetwork) throws(SimulationError) {
        switch self {
        case .addLink(let name, let index):
            let given = try network.addLink(name, kind: .virtual, isUp: false)
            if given != index { throw SimulationError("addLink(\"\(name)\")", "its index is \(given), not \(index)") }
        case .removeLink(let name): try network.removeLink(name)
        case .setUp(let name, let isUp): try network.setUp(name, isUp)
        case .setCarrier(let name, let hasCarrier): try network.setCarrier(name, hasCarrier)
        case .addAddress(let name, let address):
            try network.addAddress(name, address, skipsDetection: address.contains(":"))
        case .removeAddress(let name, let address): try network.removeAddress(name, address)
        case .addRoute(let key, let gateway, let name, let source):
            try network.addRoute(
                to: key.destination, via: gateway, dev: name, metric: key.metric, source: source, table: key.table,
                from: key.sources)
        case .replaceRoute(let key, let gateway, let name):
            try network.replaceRoute(
                to: key.destination, via: gateway, dev: name, metric: key.metric, table: key.table, from: key.sources)
        case .addRefusal(let key, let type):
            try network.addRoute(to: key.destination, metric: key.metric, type: type, table: key.table, from: key.sources)
        case .addMultipath(let key, let hops):
            try network.addRoute(to: key.destination, through: hops, metric: key.metric, table: key.table)
        case .addRouteThroughNexthop(let key, let id):
            try network.addRoute(to: key.destination, nexthop: id, metric: key.metric, table: key.table)
        case .removeRoute(let key, let gateway, let name):
            try network.removeRoute(
                to: key.destination, via: gateway, dev: name, metric: key.metric, table: key.table, from: key.sources)
        case .addRule(let rule): try network.addRule(rule)
        case .removeRule(let priority, let family): try network.removeRule(priority: priority, family: family)
        case .addNexthop(let id, let gateway, let name): try network.addNexthop(id, via: gateway, dev: name)
        case .addBlackholeNexthop(let id, let family): try network.addBlackholeNexthop(id, family: family)
        case .addNexthopGroup(let id, let members): try network.addNexthopGroup(id, of: members)
        case .replaceNexthop(let id, let gateway, let name): try network.replaceNexthop(id, via: gateway, dev: name)
        case .replaceNexthopByBlackhole(let id, _): try network.replaceNexthopByBlackhole(id)
        case .removeNexthop(let id): try network.removeNexthop(id)
        case .setSysctl(let key, let value): try network.setSysctl(key, value)
        }
    }
}

extension Operation: CustomStringConvertible {
    /// The command for the change, without the namespace; `far` marks the other end of the cables.
    var description: String { words.joined(separator: " ") }

    /// Returns the commands for a machine in namespace `near` with cables to namespace `far`.
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
            // The other ends have other indices: with equal ones the kernel takes a cable for its own lower device and delays
            // its carrier event for 1 s (linkwatch_urgent_event(), net/core/link_watch.c).
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
        var words = (isInverted ? ["not"] : []) + ["priority", "\(priority)"]
        if let source { words += ["from", source.text] }
        if let destination { words += ["to", destination.text] }
        if let mark { words += ["fwmark", "\(mark)"] }
        if let uids { words += ["uidrange", "\(uids.lowerBound)-\(uids.upperBound)"] }
        if let transport { words += ["ipproto", "\(transport.rawValue)"] }
        if let ports { words += ["dport", "\(ports.lowerBound)-\(ports.upperBound)"] }
        switch action {
        case .lookup(let table):
            words += ["lookup", "\(table)"] + (suppressedLength.map { ["suppress_prefixlength", "\($0)"] } ?? [])
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
