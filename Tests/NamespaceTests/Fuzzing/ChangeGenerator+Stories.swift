/// Bursts that lead up to a change which chance would seldom find: one that nothing but a single message tells of.
extension ChangeGenerator {
    /// A cable without carrier that a setting makes the kernel see or not, beside one that works.
    mutating func backup(_ isIPv6: Bool, _ one: Int, _ other: Int) -> [[NetworkChange]] {
        let path = "\(isIPv6 ? "ipv6" : "ipv4")/conf/\(pick(["all", "cable\(one)"]))/ignore_routes_with_linkdown"
        let value = pick([0, 1])
        return [
            Self.repair(one, isIPv6: isIPv6, metric: 10), Self.repair(other, isIPv6: isIPv6, metric: 20),
            [.setting(path, value)], [.far("link set remote\(one) down")], [.setting(path, 1 - value)], [.setting(path, value)],
        ]
    }

    /// A way through a nexthop object, of which the object is taken away, or leads somewhere else.
    mutating func passage(_ isIPv6: Bool, _ one: Int, _ other: Int) -> [[NetworkChange]] {
        let option = isIPv6 ? "-6" : "-4"
        let id = pick(Self.nexthops)
        let gateways = [one, other].map { isIPv6 ? "2001:db8:\($0)::1 dev cable\($0)" : "10.\($0).0.1 dev cable\($0)" }
        let end = pick(["del id \(id)", "replace id \(id) blackhole", "replace id \(id) via \(gateways[1])"])
        return [
            Self.repair(other, isIPv6: isIPv6, metric: 30), Self.repair(one, isIPv6: isIPv6, metric: 20),
            // In compatibility mode routes would tell, too.
            [.setting("ipv4/nexthop_compat_mode", 0), .near("nexthop replace id \(id) via \(gateways[0])", option: option)],
            [.near("route replace \(isIPv6 ? "::/0" : "0.0.0.0/0") metric 5 nhid \(id)", option: option)],
            [.near("nexthop \(end)", option: option)],
        ]
    }

    /// The last address goes, and takes routes along; the other cable takes over.
    mutating func departure(_ isIPv6: Bool, _ one: Int, _ other: Int) -> [[NetworkChange]] {
        let address = isIPv6 ? "2001:db8:\(one)::10/64" : "10.\(one).0.10/24"
        let flush = NetworkChange.near("address flush dev cable\(one) scope global", option: isIPv6 ? "-6" : "-4")
        return [
            Self.repair(other, isIPv6: isIPv6, metric: 40), [flush], Self.repair(one, isIPv6: isIPv6, metric: 5),
            [.near("address del \(address) dev cable\(one)")], Self.repair(one, isIPv6: isIPv6, metric: 5),
            [pick([flush, .near("link set cable\(one) down"), .near("link del cable\(one)")])],
        ]
    }

    /// A rule that leads elsewhere or nowhere, and goes again.
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

    /// A way for which there is no address to send from but one that is valid on the link only.
    mutating func poverty(_ isIPv6: Bool, _ port: Int) -> [[NetworkChange]] {
        let option = isIPv6 ? "-6" : "-4"
        let flushes = (0...2).map { NetworkChange.near("address flush dev cable\($0) scope global", option: option) }
        let way = isIPv6 ? "::/0 via fe80::1" : "0.0.0.0/0"
        return [
            flushes + [.far("link set remote\(port) up"), .near("link set cable\(port) up")],
            // IPv6 may have to wait until no duplicate is found; IPv4 gets an address for the link.
            isIPv6
                ? [.setting("ipv6/conf/cable\(port)/accept_dad", pick([0, 1]))]
                : [.near("address replace 169.254.\(port).10/16 dev cable\(port) scope link")],
            [.near("route replace \(way) dev cable\(port) metric 1", option: option)],
            [.near("address replace \(isIPv6 ? "2001:db8:\(port)::10/64" : "10.\(port).0.10/24") dev cable\(port)")],
            [.near("route del \(way) metric 1", option: option)],
        ]
    }

    /// A rule for what is sent from an address: refused, or led over another cable, which is pulled and plugged; meanwhile the
    /// address goes and comes back.
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
            // The address took the routes along.
            Self.repair(one, isIPv6: isIPv6, metric: 10),
            [pick([.near("route flush table 78", option: option), .near("rule del priority 100", option: option)])],
        ]
    }

    /// A rule for a transport or a port.
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

    /// IPv6 defaults for one prefix each, as of several providers; addresses of these go and come.
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
}
