import Reachability
import ReachabilityTesting

/// A generator of random changes, some of which the kernel must refuse.
struct OperationGenerator {
    static let links = ["cable0", "cable1", "cable2"]

    /// The index of the first link.
    static let firstIndex: UInt32 = 2

    private var random: SeededGenerator
    /// The next index; none is used twice.
    private var nextIndex = firstIndex + UInt32(links.count)

    init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    /// Returns a change that suits the model's state.
    mutating func next(_ kernel: SimulatedKernel) -> Operation {
        // Most changes need links.
        if kernel.interfaces.count <= Self.links.count, chance(1, of: 4) { return exchangeLink(kernel) }
        return switch Int.random(in: 0..<100, using: &random) {
        case 0..<12: .setUp(link(), chance(3, of: 4))
        case 12..<21: .setCarrier(link(), chance(2, of: 3))
        case 21: exchangeLink(kernel)
        case 22..<36: addAddress()
        case 36..<43: removeAddress(kernel)
        case 43..<56: addRoute(kernel)
        case 56..<60: replaceRoute()
        case 60..<64: .addRefusal(keyForSources(), pick([.unreachable, .prohibit, .blackhole, .throw]))
        case 64..<69: addMultipath()
        case 69..<79: removeRoute(kernel)
        case 79..<82: .addRule(rule(kernel))
        case 82..<85: removeRule(kernel)
        case 85..<96: nexthop(kernel)
        default: .setSysctl(pick(Self.sysctls), Int.random(in: 0...1, using: &random))
        }
    }

    private static let sysctls = [
        "net.ipv4.conf.all.ignore_routes_with_linkdown", "net.ipv6.conf.all.ignore_routes_with_linkdown",
        "net.ipv4.nexthop_compat_mode", "net.ipv6.route.skip_notify_on_dev_down", "net.ipv6.conf.all.keep_addr_on_down",
        "net.ipv6.conf.cable1.disable_ipv6", "net.ipv6.conf.all.disable_ipv6",
    ]

    private mutating func chance(_ part: Int, of whole: Int) -> Bool { Int.random(in: 0..<whole, using: &random) < part }

    private mutating func pick<Value>(_ values: [Value]) -> Value { values[Int.random(in: values.indices, using: &random)] }

    private mutating func link() -> String { pick(Self.links) }

    /// Removes a link, or adds a missing one.
    private mutating func exchangeLink(_ kernel: SimulatedKernel) -> Operation {
        let missing = Self.links.first { name in !kernel.interfaces.contains { $0.name == name } }
        guard let name = missing else { return .removeLink(link()) }
        defer { nextIndex += 1 }
        return .addLink(name, index: nextIndex)
    }

    private mutating func addAddress() -> Operation {
        let name = link()
        let number = name.suffix(1)
        let addresses = [
            "10.\(number).0.10/24", "10.\(number).0.20/24", "10.\(number).1.10/24", "10.9.0.10/16", "2001:db8:\(number)::10/64",
            "2001:db8:\(number):1::10/64", "fd00:\(number)::10/64", "2001:db8:9::10/128",
        ]
        return .addAddress(name, pick(addresses))
    }

    private mutating func removeAddress(_ kernel: SimulatedKernel) -> Operation {
        let held = kernel.interfaces.filter { !$0.isLoopback }.flatMap { interface in
            interface.addresses.filter { !$0.address.isLinkLocal }.map { (interface.name, "\($0.address)/\($0.prefixLength)") }
        }
        guard !held.isEmpty else { return addAddress() }
        let (name, address) = pick(held)
        return .removeAddress(name, address)
    }

    private mutating func key(isIPv6: Bool? = nil) -> Operation.Key {
        let isIPv6 = isIPv6 ?? chance(1, of: 2)
        let destinations =
            isIPv6
            ? ["::/0", "::/0", "::/0", "2000::/3", "2001:db8:ffff::/48"]
            : ["0.0.0.0/0", "0.0.0.0/0", "0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1", "198.51.100.0/24"]
        // Without a metric, IPv6 routes get one that iproute2 cannot match by 0.
        let metrics: [UInt32?] = isIPv6 ? [100, 200, 300] : [nil, 100, 200]
        return Operation.Key(destination: pick(destinations), metric: pick(metrics), table: chance(1, of: 6) ? 77 : 254)
    }

    /// Returns a key, sometimes with a source prefix.
    private mutating func keyForSources() -> Operation.Key {
        var key = key()
        if key.isIPv6, chance(1, of: 3) {
            key.sources = pick(["2001:db8:0::/64", "2001:db8:1::/64", "2001:db8::/32", "2001:db8:2::10/128", "fd00:1::/64"])
        }
        return key
    }

    /// Returns a gateway that is no link's address.
    ///
    /// IPv6 accepts a global one only if no route leads to it over another link, even with `onlink`.
    private mutating func gateway(_ isIPv6: Bool) -> String {
        let number = Int.random(in: 0...2, using: &random)
        return isIPv6 ? "fe80::f\(number)" : "10.\(number).\(pick([0, 1])).254"
    }

    private mutating func addRoute(_ kernel: SimulatedKernel) -> Operation {
        let key = keyForSources()
        let name = link()
        let ready = kernel.interfaces.filter { !$0.isLoopback }.flatMap(\.addresses).map(\.address).filter {
            ($0.family == .ipv6) == key.isIPv6 && !$0.isLinkLocal
        }
        let source = chance(1, of: 5) && !ready.isEmpty ? pick(ready).description : nil
        let isDirect = chance(1, of: 6)
        return .addRoute(key, via: isDirect ? nil : gateway(key.isIPv6), dev: name, source: source)
    }

    private mutating func replaceRoute() -> Operation {
        let key = keyForSources()
        return .replaceRoute(key, via: gateway(key.isIPv6), dev: link())
    }

    private mutating func addMultipath() -> Operation {
        let key = key()
        let hops = Self.links.shuffled(using: &random).prefix(Int.random(in: 2...3, using: &random)).map { name in
            SimulatedKernel.Hop(via: gateway(key.isIPv6), dev: name)
        }
        return .addMultipath(key, hops)
    }

    private mutating func removeRoute(_ kernel: SimulatedKernel) -> Operation {
        let own = kernel.routes.filter { !$0.isConnected }
        guard !own.isEmpty, chance(9, of: 10) else { return .removeRoute(key(), via: nil, dev: nil) }
        let route = pick(own)
        let destination = "\(route.destination.address)/\(route.destination.length)"
        let key = Operation.Key(
            destination: destination, metric: route.metric == 0 ? nil : route.metric, table: route.table,
            sources: route.sourcePrefix.map { "\($0.address)/\($0.length)" })
        guard let nextHop = route.nextHops.randomElement(using: &random), chance(1, of: 2) else {
            return .removeRoute(key, via: nil, dev: nil)
        }
        let name = kernel.interfaces.first { $0.index == nextHop.interface }?.name
        return .removeRoute(key, via: nextHop.gateway?.description, dev: name)
    }

    private mutating func rule(_ kernel: SimulatedKernel) -> SimulatedKernel.Rule {
        let family = pick(IPAddress.Family.allCases)
        let held = kernel.interfaces.filter { !$0.isLoopback }.flatMap(\.addresses).filter {
            $0.address.family == family && !$0.address.isLinkLocal
        }
        if chance(1, of: 2), !held.isEmpty { return rule(from: pick(held)) }
        let prefixes =
            (family == .ipv4 ? ["198.51.100.0", "0.0.0.0"] : ["2001:db8:ffff::", "2000::"]).compactMap { IPAddress($0) }
        let prefix = IPPrefix(pick(prefixes), length: family == .ipv4 ? pick([1, 24]) : pick([3, 48]))
        let filter = Int.random(in: 0..<6, using: &random)
        var rule = SimulatedKernel.Rule(
            priority: UInt32.random(in: 100...103, using: &random), family: family, from: filter == 0 ? prefix : nil,
            to: filter < 3 ? prefix : nil, mark: filter == 3 || filter == 2 ? 7 : nil, uids: filter == 4 ? 1000...1001 : nil,
            pick([.lookup(table: 77), .lookup(table: 77), .unreachable, .prohibit, .blackhole]))
        // As WireGuard's programs do.
        rule.isInverted = filter > 1 && filter < 5 && chance(1, of: 3)
        if case .lookup = rule.action, chance(1, of: 3) {
            rule.suppressedLength = pick([0, 1, 24])
            if chance(1, of: 2) { rule.action = .lookup(table: SimulatedKernel.Route.mainTable) }
        }
        return rule
    }

    /// Returns a rule for an address of the machine, or for its prefix; sometimes for one transport or port.
    private mutating func rule(from held: NetworkInterface.Address) -> SimulatedKernel.Rule {
        let family = held.address.family
        let length = pick([family.bitWidth, family.bitWidth, held.prefixLength])
        let transport = pick([nil, nil, Scope.Transport.tcp, .udp])
        return SimulatedKernel.Rule(
            priority: UInt32.random(in: 100...103, using: &random), family: family,
            from: chance(4, of: 5) ? IPPrefix(held.address, length: length) : nil, transport: transport,
            ports: transport == nil || chance(1, of: 2) ? nil : 443...443,
            pick([.lookup(table: 77), .lookup(table: 77), .lookup(table: 77), .unreachable, .prohibit, .blackhole]))
    }

    private mutating func removeRule(_ kernel: SimulatedKernel) -> Operation {
        let own = kernel.rules.filter { (100...103).contains($0.priority) }
        guard !own.isEmpty else { return .removeRule(100, .ipv4) }
        let rule = pick(own)
        return .removeRule(rule.priority, rule.family)
    }

    private mutating func nexthop(_ kernel: SimulatedKernel) -> Operation {
        let known = kernel.nexthops
        let id = UInt32.random(in: 1...6, using: &random)
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<3: return .addNexthop(id, via: gateway(chance(1, of: 2)), dev: link())
        case 3: return .addBlackholeNexthop(id, pick(IPAddress.Family.allCases))
        case 4..<8 where !known.isEmpty: return .addRouteThroughNexthop(key(isIPv6: pick(known).family == .ipv6), pick(known).id)
        case 8 where !known.isEmpty:
            let old = pick(known)
            guard chance(3, of: 4) else { return .replaceNexthopByBlackhole(old.id, old.family) }
            return .replaceNexthop(old.id, via: gateway(old.family == .ipv6), dev: link())
        case 9 where !known.isEmpty: return .removeNexthop(pick(known).id)
        default:
            let members = Set([pick(known.map(\.id) + [id]), pick(known.map(\.id) + [id])]).sorted()
            return .addNexthopGroup(UInt32.random(in: 11...13, using: &random), members)
        }
    }
}
