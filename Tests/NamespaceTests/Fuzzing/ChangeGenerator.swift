import ReachabilityTesting

/// A generator of random bursts of changes, some of which bring the machine online.
struct ChangeGenerator {
    private var random: SeededGenerator

    init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    /// The remaining bursts of a scenario, in reverse order.
    private var scenario: [[NetworkChange]] = []

    /// Returns a burst of one to six changes.
    mutating func burst() -> [NetworkChange] {
        if let next = scenario.popLast() { return next }
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<3: return Self.repair(port(), isIPv6: chance(1, of: 2), metric: pick([0, 100, 200]))
        case 3..<5: return Self.relief(isIPv6: chance(1, of: 2))
        case 5: return Self.replacement(port())
        case 6:
            // The kernel announces alternative names only of an interface that is up (netdev_state_change(), net/core/dev.c).
            let (verb, port, name) = (pick(["add", "add", "del"]), port(), pick([Self.alternativeName, "other"]))
            return [.near("link set cable\(port) up"), .near("link property \(verb) dev cable\(port) altname \(name)")]
        case 7..<12:
            let (isIPv6, one) = (chance(1, of: 2), port())
            let other = (one + Int.random(in: 1...2, using: &random)) % 3
            scenario =
                switch Int.random(in: 0..<17, using: &random) {
                case 0: backup(isIPv6, one, other)
                case 1: passage(isIPv6, one, other)
                case 2: departure(isIPv6, one, other)
                case 3: detour(isIPv6, one, other)
                case 4: poverty(isIPv6, one)
                case 5..<7: origin(isIPv6, one, other)
                case 7: service(isIPv6, one, other)
                case 8..<10: pins(isIPv6, one, other)
                case 10: locality(isIPv6, one, other)
                case 11: nickname(isIPv6, one, other)
                case 12..<14: lifetime(isIPv6, one, other)
                case 14..<16: share(isIPv6, one, other)
                default: delegation(one, other)
                }
            // From a clean state: leftovers would break most scenarios.
            scenario = ([Self.relief(isIPv6: isIPv6), Self.replacement(one), Self.replacement(other)] + scenario).reversed()
            return burst()
        // Mostly one: a second change's event may hide a missing one.
        default: return (0..<pick([1, 1, 1, 2, 3, 4, 6])).map { _ in change() }
        }
    }

    /// Returns changes that make one family work over one cable from any state.
    static func repair(_ port: Int, isIPv6: Bool, metric: Int) -> [NetworkChange] {
        let (address, gateway) =
            isIPv6 ? ("2001:db8:\(port)::10/64", "2001:db8:\(port)::1") : ("10.\(port).0.10/24", "10.\(port).0.1")
        let isUnchecked = isIPv6 ? " nodad" : ""
        return [
            .far("link set remote\(port) up"), .near("link set cable\(port) up"),
            .near("address replace \(address) dev cable\(port)\(isUnchecked)"),
            .near("route replace \(isIPv6 ? "::/0" : "0.0.0.0/0") via \(gateway) dev cable\(port) metric \(metric)"),
        ]
    }

    /// Removes rules and added routes.
    static func relief(isIPv6: Bool) -> [NetworkChange] {
        let option = isIPv6 ? "-6" : "-4"
        return (100...103).map { NetworkChange.near("rule del priority \($0)", option: option) } + [
            .near("route flush proto boot", option: option), .near("route flush table 77", option: option),
            .near("route flush table 78", option: option), .near("route flush table local proto boot", option: option),
        ]
    }

    /// Restores a removed cable from any state.
    private static func replacement(_ port: Int) -> [NetworkChange] {
        [
            .far("link set cable\(port) netns near"), .near("link set spare\(port) name cable\(port)"), link(port),
            .far("link set remote\(port) up"), .near("link set cable\(port) up"),
        ]
    }

    private mutating func change() -> NetworkChange {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<9: .near("link set \(link()) \(chance(2, of: 3) ? "up" : "down")")
        case 9..<18: .far("link set remote\(port()) \(chance(2, of: 3) ? "up" : "down")")
        case 18..<31: address()
        case 31..<59: route()
        case 59..<69: rule()
        case 69..<84: nexthop()
        case 84..<91: device()
        default: setting()
        }
    }

    // MARK: - Changes

    private mutating func address() -> NetworkChange {
        let (port, host) = (port(), pick([10, 20]))
        let isIPv6 = chance(1, of: 2)
        let text = isIPv6 ? "2001:db8:\(port)::\(host)/64" : "10.\(port).\(chance(1, of: 5) ? 1 : 0).\(host)/24"
        let isUnchecked = isIPv6 && chance(3, of: 4) ? " nodad" : ""
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<4: return .near("address add \(text) dev cable\(port)\(isUnchecked)")
        case 4..<7: return .near("address del \(text) dev cable\(port)")
        case 7: return .near("address replace \(text) dev cable\(port)\(isUnchecked) valid_lft 2 preferred_lft \(pick([1, 2]))")
        case 8 where !isIPv6: return .near("address \(pick(["add", "del"])) 169.254.\(port).10/16 dev cable\(port)")
        default: return .near("address flush dev \(link())", option: isIPv6 ? "-6" : "-4")
        }
    }

    private mutating func route() -> NetworkChange {
        let isIPv6 = chance(1, of: 2)
        let place = place(isIPv6)
        let option = isIPv6 ? "-6" : "-4"
        let verb = pick(["add", "append", "prepend", "replace"])
        switch Int.random(in: 0..<22, using: &random) {
        case 0..<7: return .near("route \(verb) \(place) \(way(isIPv6))", option: option)
        case 18: return .near("route \(pick(["add", "del"])) local \(local(isIPv6)) dev lo", option: option)
        case 19 where isIPv6: return .near("route replace \(place) \(way(true)) expires \(pick([1, 2]))", option: option)
        case 7: return .near("route \(verb) \(place) dev \(link())", option: option)
        case 8: return .near("route \(verb) \(place) \(way(isIPv6)) src \(source(isIPv6))", option: option)
        case 9..<11: return .near("route \(verb) \(refusal()) \(place)", option: option)
        case 11..<13:
            let hops = (0..<Int.random(in: 2...3, using: &random)).map { _ in "nexthop \(way(isIPv6))" }
            return .near("route \(verb) \(place) \(hops.joined(separator: " "))", option: option)
        case 13..<15: return .near("route \(verb) \(place) nhid \(pick(Self.nexthops + Self.groups))", option: option)
        case 15: return .near("route del \(place) \(way(isIPv6))", option: option)
        case 16 where isIPv6, 17 where isIPv6:
            // A route for some sources only, as a router with several providers announces it.
            let from = "from 2001:db8:\(port())::/\(pick([48, 64, 128]))"
            let words = place.split(separator: " ", maxSplits: 1).map(String.init)
            let whole = ([words[0], from] + words.dropFirst()).joined(separator: " ")
            return .near("route \(pick([verb, verb, "del"])) \(whole) \(way(true))", option: option)
        default: return .near("route del \(place)", option: option)
        }
    }

    private mutating func rule() -> NetworkChange {
        let isIPv6 = chance(1, of: 2)
        let priority = "priority \(Int.random(in: 100...103, using: &random))"
        guard chance(1, of: 2) else { return .near("rule del \(priority)", option: isIPv6 ? "-6" : "-4") }
        let destinations = isIPv6 ? ["2001:500::/24", "2801::/16", "::/0"] : ["1.0.0.0/8", "198.0.0.0/8", "0.0.0.0/0"]
        let transport = pick(["ipproto tcp", "ipproto udp", "ipproto tcp dport 443"])
        let selector = pick([
            "to \(pick(destinations))", "fwmark 7", "fwmark 7 to \(pick(destinations))", "iif lo", transport,
            "from \(origins(isIPv6))", "from \(origins(isIPv6))", "from \(origins(isIPv6)) \(transport)",
            "from \(origins(isIPv6)) to \(pick(destinations))", "uidrange \(Machine.otherUser)-\(Machine.otherUser)",
        ])
        let action = pick(["lookup 77", "lookup 77", "lookup 78", "unreachable", "prohibit", "blackhole"])
        return .near("rule add \(priority) \(selector) \(action)", option: isIPv6 ? "-6" : "-4")
    }

    private mutating func nexthop() -> NetworkChange {
        let isIPv6 = chance(1, of: 2)
        let option = isIPv6 ? "-6" : "-4"
        switch Int.random(in: 0..<12, using: &random) {
        case 0..<4: return .near("nexthop \(pick(["add", "replace"])) id \(pick(Self.nexthops)) \(way(isIPv6))", option: option)
        case 4: return .near("nexthop \(pick(["add", "replace"])) id \(pick(Self.nexthops)) blackhole", option: option)
        case 5..<7:
            let members = [pick(Self.nexthops), pick(Self.nexthops)].map(String.init).joined(separator: "/")
            return .near("nexthop \(pick(["add", "replace"])) id \(pick(Self.groups)) group \(members)")
        case 7..<9: return .near("nexthop del id \(pick(Self.nexthops + Self.groups))")
        default: return .near("route replace \(place(isIPv6)) nhid \(pick(Self.nexthops + Self.groups))", option: option)
        }
    }

    /// Deletes, creates, renames or moves a cable's near end.
    private mutating func device() -> NetworkChange {
        let port = port()
        switch Int.random(in: 0..<12, using: &random) {
        case 0: return .near("link del cable\(port)")
        case 1..<5: return Self.link(port)
        case 5: return .near("link set cable\(port) name spare\(port)")
        case 6..<9: return .near("link set spare\(port) name cable\(port)")
        case 9: return .near("link set cable\(port) netns far")
        default: return .far("link set cable\(port) netns near")
        }
    }

    private mutating func setting() -> NetworkChange {
        .sysctl(pick(Self.settings), Int.random(in: 0...1, using: &random))
    }

    /// Returns the command that creates a cable.
    ///
    /// The other end gets another index: with equal ones the kernel takes a cable for its own lower device and delays its carrier
    /// event for up to 1 s (linkwatch_urgent_event(), net/core/link_watch.c).
    static func link(_ port: Int) -> NetworkChange {
        .near("link add cable\(port) type veth peer name remote\(port) index \(1001 + port) netns far")
    }

    static let alternativeName = "uplink"
    static let nexthops = Array(1...6)
    private static let groups = Array(11...13)
    private static let settings = [
        "ipv4/nexthop_compat_mode", "ipv4/conf/all/ignore_routes_with_linkdown", "ipv6/conf/all/ignore_routes_with_linkdown",
        "ipv4/conf/cable0/ignore_routes_with_linkdown", "ipv6/conf/cable1/ignore_routes_with_linkdown",
        "ipv6/route/skip_notify_on_dev_down", "ipv6/conf/all/keep_addr_on_down", "ipv6/conf/cable2/disable_ipv6",
        "ipv4/conf/all/promote_secondaries",
    ]

    // MARK: - Words

    mutating func chance(_ part: Int, of whole: Int) -> Bool { Int.random(in: 0..<whole, using: &random) < part }

    mutating func pick<Value>(_ values: [Value]) -> Value { values[Int.random(in: values.indices, using: &random)] }

    private mutating func port() -> Int { Int.random(in: 0...2, using: &random) }

    private mutating func link() -> String { "cable\(port())" }

    private mutating func refusal() -> String { pick(["unreachable", "prohibit", "blackhole", "throw"]) }

    /// Returns a prefix that a route makes local: with a watched address, or with representatives of the internet.
    private mutating func local(_ isIPv6: Bool) -> String {
        isIPv6
            ? pick(["2001:db8:ff::/64", "2801:1b8:10::/48", "2001:503:ba3e::2:30/128"])
            : pick(["198.18.5.0/24", "198.18.5.0/24", "1.1.1.0/24", "198.41.0.4/32"])
    }

    private mutating func source(_ isIPv6: Bool) -> String {
        if !isIPv6 && chance(1, of: 4) { return "198.18.5.7" }
        return isIPv6 ? "2001:db8:\(port())::\(pick([10, 20]))" : "10.\(port()).0.\(pick([10, 20]))"
    }

    /// Returns an address of a cable, or all of them.
    private mutating func origins(_ isIPv6: Bool) -> String {
        pick([source(isIPv6), source(isIPv6), isIPv6 ? "2001:db8:\(port())::/64" : "10.\(port()).0.0/24"])
    }

    /// Returns a route's destination with its metric and table.
    private mutating func place(_ isIPv6: Bool) -> String {
        let prefixes =
            isIPv6
            ? [
                "::/0", "::/0", "::/0", "::/1", "8000::/1", "2801:1b8:10::b/128", "2001:500:2f::f/128", "2001:7fd::/32",
                "2001:db8:1::/64", "\(pick(PathOracle.internet[2] + PathOracle.internet[3]))/128",
            ]
            : [
                "0.0.0.0/0", "0.0.0.0/0", "0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1", "1.1.1.1/32", "64.6.64.0/24", "193.0.14.129/32",
                "10.1.0.0/24", "\(pick(PathOracle.internet[0] + PathOracle.internet[1]))/32",
            ]
        return pick(prefixes) + pick(["", " metric 100", " metric 200"]) + (chance(1, of: 5) ? " table \(pick([77, 77, 78]))" : "")
    }

    private mutating func way(_ isIPv6: Bool) -> String {
        let port = port()
        let gateway = isIPv6 ? pick(["2001:db8:\(port)::1", "fe80::1"]) : pick(["10.\(port).0.1", "10.\(port).0.2"])
        return "via \(!isIPv6 && chance(1, of: 8) ? "inet6 fe80::1" : gateway) dev cable\(port)\(chance(1, of: 3) ? " onlink" : "")"
    }
}

/// Scenarios for rare changes: changes that a single message announces.
extension ChangeGenerator {
    /// A sysctl makes the kernel use or ignore a cable without carrier, beside one that works.
    mutating func backup(_ isIPv6: Bool, _ one: Int, _ other: Int) -> [[NetworkChange]] {
        let path = "\(isIPv6 ? "ipv6" : "ipv4")/conf/\(pick(["all", "cable\(one)"]))/ignore_routes_with_linkdown"
        let value = pick([0, 1])
        return [
            Self.repair(one, isIPv6: isIPv6, metric: 10), Self.repair(other, isIPv6: isIPv6, metric: 20),
            [.sysctl(path, value)], [.far("link set remote\(one) down")], [.sysctl(path, 1 - value)], [.sysctl(path, value)],
        ]
    }

    /// The nexthop object of a route is deleted or replaced.
    mutating func passage(_ isIPv6: Bool, _ one: Int, _ other: Int) -> [[NetworkChange]] {
        let option = isIPv6 ? "-6" : "-4"
        let id = pick(Self.nexthops)
        let gateways = [one, other].map { isIPv6 ? "2001:db8:\($0)::1 dev cable\($0)" : "10.\($0).0.1 dev cable\($0)" }
        let end = pick(["del id \(id)", "replace id \(id) blackhole", "replace id \(id) via \(gateways[1])"])
        return [
            Self.repair(other, isIPv6: isIPv6, metric: 30), Self.repair(one, isIPv6: isIPv6, metric: 20),
            // Compatibility mode would announce the routes, too.
            [.sysctl("ipv4/nexthop_compat_mode", 0), .near("nexthop replace id \(id) via \(gateways[0])", option: option)],
            [.near("route replace \(isIPv6 ? "::/0" : "0.0.0.0/0") metric 5 nhid \(id)", option: option)],
            [.near("nexthop \(end)", option: option)],
        ]
    }

    /// The last address is removed with its routes; the other cable takes over.
    mutating func departure(_ isIPv6: Bool, _ one: Int, _ other: Int) -> [[NetworkChange]] {
        let address = isIPv6 ? "2001:db8:\(one)::10/64" : "10.\(one).0.10/24"
        let flush = NetworkChange.near("address flush dev cable\(one) scope global", option: isIPv6 ? "-6" : "-4")
        return [
            Self.repair(other, isIPv6: isIPv6, metric: 40), [flush], Self.repair(one, isIPv6: isIPv6, metric: 5),
            [.near("address del \(address) dev cable\(one)")], Self.repair(one, isIPv6: isIPv6, metric: 5),
            [pick([flush, .near("link set cable\(one) down"), .near("link del cable\(one)")])],
        ]
    }

    /// A rule selects another table or refuses, and is removed again.
    mutating func detour(_ isIPv6: Bool, _ one: Int, _ other: Int) -> [[NetworkChange]] {
        let option = isIPv6 ? "-6" : "-4"
        let gateway = isIPv6 ? "2001:db8:\(other)::1" : "10.\(other).0.1"
        let action = pick(["lookup 77", "unreachable", "prohibit", "blackhole"])
        let selector = pick(["iif lo", isIPv6 ? "to 2801::/16" : "to 1.0.0.0/8", "fwmark 7"])
        return [
            Self.repair(other, isIPv6: isIPv6, metric: 60), Self.repair(one, isIPv6: isIPv6, metric: 10),
            [.near("route replace \(isIPv6 ? "::/0" : "0.0.0.0/0") via \(gateway) dev cable\(other) table 77", option: option)],
            [.near("rule add priority 100 \(selector) \(action)", option: option)],
            [.near("rule del priority 100", option: option)],
        ]
    }

    /// A route has only link-local sources; over IPv4 they suffice behind a gateway.
    mutating func poverty(_ isIPv6: Bool, _ port: Int) -> [[NetworkChange]] {
        let option = isIPv6 ? "-6" : "-4"
        let flushes = (0...2).map { NetworkChange.near("address flush dev cable\($0) scope global", option: option) }
        let way = isIPv6 ? "::/0 via fe80::1" : "0.0.0.0/0"
        let gateway = pick(["169.254.\(port).1", "10.\(port).0.1"])
        let behindGateway = [
            [NetworkChange.near("route replace \(way) via \(gateway) dev cable\(port) metric 1 onlink")],
            [.near("route replace \(way) dev cable\(port) metric 1")],
        ]
        return [
            flushes + [.far("link set remote\(port) up"), .near("link set cable\(port) up")],
            // IPv6 may wait for duplicate address detection; IPv4 gets a link-local address.
            isIPv6
                ? [.sysctl("ipv6/conf/cable\(port)/accept_dad", pick([0, 1]))]
                : [.near("address replace 169.254.\(port).10/16 dev cable\(port) scope \(pick(["link", "global"]))")],
            [.near("route replace \(way) dev cable\(port) metric 1", option: option)],
        ]
            + (isIPv6 ? [] : behindGateway) + [
                [.near("address replace \(isIPv6 ? "2001:db8:\(port)::10/64" : "10.\(port).0.10/24") dev cable\(port)")],
                [.near("route del \(way) metric 1", option: option)],
            ]
    }

    /// A rule for a source address refuses, or selects another cable, which is pulled and plugged.
    ///
    /// Meanwhile the address goes and comes back.
    mutating func origin(_ isIPv6: Bool, _ one: Int, _ other: Int) -> [[NetworkChange]] {
        let option = isIPv6 ? "-6" : "-4"
        let (all, gateway) = isIPv6 ? ("::/0", "2001:db8:\(other)::1") : ("0.0.0.0/0", "10.\(other).0.1")
        let (address, length) = isIPv6 ? ("2001:db8:\(one)::10", "64") : ("10.\(one).0.10", "24")
        let refusal = "\(pick(["unreachable", "prohibit", "blackhole", "throw"])) \(all)"
        let entry = pick([refusal, "\(all) via \(gateway) dev cable\(other)", "\(all) via \(gateway) dev cable\(other)"])
        let sources = pick([address, address, "\(address)/\(length)"])
        let again = NetworkChange.near("address replace \(address)/\(length) dev cable\(one)\(isIPv6 ? " nodad" : "")")
        return [
            Self.repair(other, isIPv6: isIPv6, metric: 60), Self.repair(one, isIPv6: isIPv6, metric: 10),
            [.near("route replace \(entry) table 78", option: option)],
            [.near("rule add priority 100 from \(sources) lookup 78", option: option)],
            [.far("link set remote\(other) down")], [.far("link set remote\(other) up")],
            [.near("address del \(address)/\(length) dev cable\(one)")], [again],
            // The kernel removed the routes with the address.
            Self.repair(one, isIPv6: isIPv6, metric: 10),
            [pick([.near("route flush table 78", option: option), .near("rule del priority 100", option: option)])],
        ]
    }

    /// A rule applies to a transport or a port.
    mutating func service(_ isIPv6: Bool, _ one: Int, _ other: Int) -> [[NetworkChange]] {
        let option = isIPv6 ? "-6" : "-4"
        let (all, gateway) = isIPv6 ? ("::/0", "2001:db8:\(other)::1") : ("0.0.0.0/0", "10.\(other).0.1")
        let entry = pick(["unreachable \(all)", "\(all) via \(gateway) dev cable\(other)"])
        let selector = pick(["ipproto tcp", "ipproto udp", "ipproto tcp dport 443", "dport 443"])
        return [
            Self.repair(other, isIPv6: isIPv6, metric: 60), Self.repair(one, isIPv6: isIPv6, metric: 10),
            [.near("route replace \(entry) table 78", option: option)],
            [.near("rule add priority 100 \(selector) lookup 78", option: option)],
            [.near("route del \(all) metric 10", option: option)], [.near("route del \(all) metric 60", option: option)],
            [.near("rule del priority 100", option: option)],
        ]
    }

    /// IPv6 defaults apply to one prefix each, as with several providers; their addresses go and come.
    mutating func delegation(_ one: Int, _ other: Int) -> [[NetworkChange]] {
        func repair(_ port: Int) -> [NetworkChange] {
            Array(Self.repair(port, isIPv6: true, metric: 10).dropLast()) + [
                .near("route replace ::/0 from 2001:db8:\(port)::/64 via 2001:db8:\(port)::1 dev cable\(port) metric 10")
            ]
        }
        func address(_ verb: String, _ port: Int) -> NetworkChange {
            .near("address \(verb) 2001:db8:\(port)::10/64 dev cable\(port)\(verb == "del" ? "" : " nodad")")
        }
        return [
            repair(one), [address("del", one)], [address("add", one)], repair(one) + repair(other), [address("del", one)],
            [.far("link set remote\(other) down")], [.far("link set remote\(other) up")], [address("add", one)],
            [.near("route del ::/0 from 2001:db8:\(pick([one, other]))::/64 metric 10")],
        ]
    }

    /// Members of a group of representatives have routes of their own: over the other cable, which is pulled, or into a black hole.
    mutating func pins(_ isIPv6: Bool, _ one: Int, _ other: Int) -> [[NetworkChange]] {
        let option = isIPv6 ? "-6" : "-4"
        let gateway = isIPv6 ? "2001:db8:\(other)::1" : "10.\(other).0.1"
        let members = PathOracle.internet[isIPv6 ? pick([2, 3]) : pick([0, 1])]
        func route(_ verb: String, _ member: String, _ way: String = "") -> NetworkChange {
            .near("route \(verb) \(member) \(way)", option: option)
        }
        let pin = route("replace", members[0], "via \(gateway) dev cable\(other)")
        let refusals = members.map { route("replace \(pick(["blackhole", "unreachable"]))", $0) }
        return [
            Self.repair(other, isIPv6: isIPv6, metric: 60), Self.repair(one, isIPv6: isIPv6, metric: 10),
            [pick([pin, refusals[0]])], [.far("link set remote\(other) down")], [refusals[1]], refusals,
            [route("del", pick(members))], [.far("link set remote\(other) up")], [route("del", members[0]), pin],
            [.far("link set remote\(one) down")], members.map { route("del", $0) },
        ]
    }

    /// A route makes a prefix local; then it holds the source of the default route, or representatives.
    mutating func locality(_ isIPv6: Bool, _ one: Int, _ other: Int) -> [[NetworkChange]] {
        let option = isIPv6 ? "-6" : "-4"
        let (prefix, gateway) = isIPv6 ? ("2001:db8:ff::/64", "2001:db8:\(one)::1") : ("198.18.5.0/24", "10.\(one).0.1")
        let way = "\(isIPv6 ? "::/0" : "0.0.0.0/0") via \(gateway) dev cable\(one)"
        let source = isIPv6 ? "2001:db8:\(other)::10" : "198.18.5.7"
        let members = PathOracle.internet[isIPv6 ? pick([2, 3]) : pick([0, 1])]
        func local(_ verb: String, _ prefix: String) -> NetworkChange {
            .near("route \(verb) local \(prefix) dev lo", option: option)
        }
        return [
            Self.repair(other, isIPv6: isIPv6, metric: 60), Self.repair(one, isIPv6: isIPv6, metric: 10), [local("add", prefix)],
            [.near("route replace \(way) metric 5 src \(source)", option: option)], [local("del", prefix)], [local("add", prefix)],
            [.near("route replace \(way) metric 5", option: option)], [local("del", prefix)],
            [local("add", members[0])], members.map { local("add", $0) }, [local("del", pick(members))],
            [.near("route flush table local proto boot", option: option)],
        ]
    }

    /// An alternative name is given to an interface, moves to another one and is taken away.
    mutating func nickname(_ isIPv6: Bool, _ one: Int, _ other: Int) -> [[NetworkChange]] {
        func name(_ verb: String, _ port: Int) -> NetworkChange {
            .near("link property \(verb) dev cable\(port) altname \(Self.alternativeName)")
        }
        return [
            Self.repair(other, isIPv6: isIPv6, metric: 60), Self.repair(one, isIPv6: isIPv6, metric: 10),
            (0...2).flatMap { [.near("link set cable\($0) up"), name("del", $0)] } + [name("add", one)],
            [.far("link set remote\(one) down")],
            [name("del", one), name("add", other)], [.far("link set remote\(one) up"), name("del", other), name("add", one)],
            [pick([.near("link set cable\(one) name spare\(one)"), name("del", one), .near("link del cable\(one)")])],
            [.near("link set spare\(one) name cable\(one)")],
        ]
    }

    /// Lifetimes of routes and addresses end: the kernel announces the end of a route up to half a minute late.
    mutating func lifetime(_ isIPv6: Bool, _ one: Int, _ other: Int) -> [[NetworkChange]] {
        let address = isIPv6 ? "2001:db8:\(one)::10/64" : "10.\(one).0.10/24"
        let aged = NetworkChange.near(
            "address replace \(address) dev cable\(one)\(isIPv6 ? " nodad" : "") valid_lft 2 preferred_lft \(pick([1, 2]))")
        let starts = [Self.repair(other, isIPv6: isIPv6, metric: 60), Self.repair(one, isIPv6: isIPv6, metric: 10)]
        guard isIPv6, chance(3, of: 4) else {
            return starts + [[aged], [.pause(milliseconds: 1300)], [.pause(milliseconds: 1300)]]
        }
        // The internet, one of its halves, or one of its representatives.
        let place = pick(["::/0", "::/0", "::/3", "2001:500::/24", "2801::/16"])
        let way = NetworkChange.near("route replace \(place) via 2001:db8:\(one)::1 dev cable\(one) metric 5 expires 2")
        let pause = NetworkChange.pause(milliseconds: 2300)
        return starts + [
            [.sysctl("ipv6/conf/all/ignore_routes_with_linkdown", 0), way], [pause],
            // Again beside a default route of another cable, and over a pulled one.
            [.near("route del ::/0 via 2001:db8:\(one)::1 dev cable\(one)"), way], [pause],
            [.far("link set remote\(one) down"), way], [pause], [way], [pause, .far("link set remote\(one) up")],
        ]
    }

    /// A multipath route has a dead next hop; rules may send each source by its own cable.
    mutating func share(_ isIPv6: Bool, _ one: Int, _ other: Int) -> [[NetworkChange]] {
        let option = isIPv6 ? "-6" : "-4"
        let all = isIPv6 ? "::/0" : "0.0.0.0/0"
        let ways = [one, other].map { "via \(isIPv6 ? "2001:db8:\($0)::1" : "10.\($0).0.1") dev cable\($0)" }
        let ignore = "\(isIPv6 ? "ipv6" : "ipv4")/conf/all/ignore_routes_with_linkdown"
        let address = isIPv6 ? "2001:db8:\(other)::10/64" : "10.\(other).0.10/24"
        let routes: [NetworkChange] =
            chance(2, of: 3)
            ? [.near("route replace \(all) metric 5 nexthop \(ways[0]) nexthop \(ways[1])", option: option)]
            : [
                .near("nexthop replace id 1 \(ways[0])", option: option), .near("nexthop replace id 2 \(ways[1])", option: option),
                .near("nexthop replace id 11 group 1/2"), .near("route replace \(all) metric 5 nhid 11", option: option),
            ]
        let rules =
            chance(1, of: 2)
            ? []
            : zip([one, other], zip([77, 78], ways)).flatMap { port, own in
                let source = isIPv6 ? "2001:db8:\(port)::10" : "10.\(port).0.10"
                return [
                    NetworkChange.near("route replace \(all) \(own.1) table \(own.0)", option: option),
                    .near("rule add priority 100 from \(source) lookup \(own.0)", option: option),
                ]
            }
        // Without other default routes.
        let starts = [one, other].map { Array(Self.repair($0, isIPv6: isIPv6, metric: 60).dropLast()) }
        return starts + [
            [.sysctl(ignore, 0)] + routes + rules, [.far("link set remote\(one) down")], [.sysctl(ignore, 1)],
            [.far("link set remote\(other) down")], [.sysctl(ignore, 0), .far("link set remote\(one) up")],
            [.near("link set cable\(other) down")],
            [.near("link set cable\(other) up"), .far("link set remote\(other) up")] + routes,
            [pick([.near("address del \(address) dev cable\(other)"), .far("link set remote\(other) down")])],
            [.near("route del \(all) metric 5", option: option)],
        ]
    }
}
