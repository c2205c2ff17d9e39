import CSandbox
import Glibc
import Reachability
import Testing

/// The verdict is the result of connect(2), plus usable source and interface.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct ConnectTests {
    // MARK: - Rules that select by source, transport or port

    @Test(arguments: [("unreachable", OfflineReason.unreachable), ("prohibit", .prohibited), ("blackhole", .blackhole)])
    func sourceRuleMayRefuse(type: String, reason: OfflineReason) async throws {
        let network = try await CabledNetwork.online()
        try await network.near.ip("route add \(type) default table 100")
        try await network.watching { watcher in
            try await watcher.expect(.unsatisfied, reason) {
                try await network.near.ip("rule add from 192.0.2.10 lookup 100 priority 50")
            }
            try await watcher.expect(.satisfied) { try await network.near.ip("rule del priority 50") }
        }
    }

    @Test func sourceRuleMayUseOtherCable() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4(0)
        try await network.addIPv4(1, metric: 200)
        try await network.near.ip("route add default via 198.51.100.1 dev cable1 table 100")
        try await network.watching { watcher in
            try await watcher.expect(interface: "cable1") {
                try await network.near.ip("rule add from 192.0.2.10 lookup 100 priority 50")
            }
            #expect(watcher.path.ipv4.source == IPAddress("192.0.2.10") && watcher.path.ipv4.table == 100)
            try await watcher.expect(.unsatisfied, .noCarrier, delay: Watcher.carrierDelay) { try await network.pull(1) }
            try await watcher.expect(.satisfied) { try await network.plug(1) }
            #expect(watcher.path.interface?.name == "cable1")
        }
    }

    @Test func sourceRuleAppliesWhileSourceExists() async throws {
        let network = try await CabledNetwork.online()
        try await network.near.ip("rule add from 192.0.2.10 blackhole priority 50")
        try await network.watching { watcher in
            #expect(watcher.path.offlineReason == .blackhole)
            try await watcher.expect(.unsatisfied, .noAddress) {
                try await network.near.ip("addr del 192.0.2.10/24 dev cable0")
            }
            try await watcher.expect(.satisfied) {
                try await network.near.ip("addr add 192.0.2.11/24 dev cable0\nroute add default via 192.0.2.1")
            }
        }
    }

    @Test func portRuleAppliesToThatPortOnly() async throws {
        let network = try await CabledNetwork.online()
        try await network.near.ip("route add unreachable default table 100")
        var secure = Scope.internet
        secure.port = 443
        try await network.watching(secure) { watcher in
            try await watcher.expect(.unsatisfied, .unreachable) {
                try await network.near.ip("rule add dport 443 lookup 100 priority 50")
            }
            #expect(try watcher.monitor.path(to: .internet).isSatisfied)
        }
    }

    @Test func transportRuleAppliesToThatTransportOnly() async throws {
        let network = try await CabledNetwork.online()
        try await network.addIPv6()
        try await network.near.ip("route add unreachable default table 100\nroute add unreachable ::/0 table 100")
        var datagrams = Scope.internet
        datagrams.transport = .udp
        try await network.watching(datagrams) { watcher in
            try await network.near.ip("rule add ipproto tcp lookup 100 priority 50")
            try await watcher.expect(kinds: .familyLost) {
                try await network.near.ip("rule add ipproto udp lookup 100 priority 51")
            }
            #expect(!watcher.path.supportsIPv4 && watcher.path.supportsIPv6)
            let own = try watcher.monitor.path(to: .internet)
            #expect(!own.supportsIPv4 && own.supportsIPv6)
        }
    }

    // MARK: - IPv6 routes for some sources

    @Test func ipv6DefaultForOnePrefixSelectsThatSource() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv6()
        try await network.near.ip("route del ::/0")
        try await network.watching { watcher in
            #expect(watcher.path.offlineReason == .noRoute)
            try await watcher.expect(.satisfied) {
                try await network.near.ip("route add ::/0 from 2001:db8:0::/64 via 2001:db8:0::1 dev cable0")
            }
            #expect(watcher.path.ipv6.source == IPAddress("2001:db8::10") && watcher.path.interface?.name == "cable0")
            // Otherwise a cable without an address would be the reason.
            try await network.near.ip("link set cable1 up")
            try await watcher.expect(.unsatisfied, .noCarrier, delay: Watcher.carrierDelay) { try await network.pull() }
            try await watcher.expect(.satisfied) { try await network.plug() }
            try await watcher.expect(.unsatisfied, .noAddress) {
                try await network.near.ip("addr del 2001:db8:0::10/64 dev cable0")
            }
            try await watcher.expect(.satisfied) {
                try await network.near.ip("addr add 2001:db8:0::11/64 dev cable0 nodad")
            }
        }
    }

    /// Only a datagram socket reveals its source without sending a packet.
    @Test func ipv6SourceRuleForTCPApplies() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv6()
        try await network.near.ip("route del ::/0\nroute add ::/0 via 2001:db8:0::1 dev cable0 table 100")
        try await network.watching { watcher in
            try await watcher.expect(.satisfied) {
                try await network.near.run(
                    "ip", "-6", "rule", "add", "from", "2001:db8::10", "ipproto", "tcp", "lookup", "100", "priority", "50")
            }
            try await watcher.expect(.unsatisfied, .noRoute) {
                try await network.near.run("ip", "-6", "rule", "del", "priority", "50")
            }
            // A rule for UDP does not apply to TCP.
            try await network.near.run(
                "ip", "-6", "rule", "add", "from", "2001:db8::10", "ipproto", "udp", "prohibit", "priority", "50")
            #expect(try watcher.monitor.path(to: .internet).offlineReason == .noRoute)
        }
    }

    /// SO_MARK needs CAP_NET_ADMIN (socket(7)).
    @Test func unprivilegedMarkTriesEachIPv6Source() async throws {
        let network = try await CabledNetwork.withIPv6(
            "2001:db8:0::10", "2001:db8:1::10", route: "::/0 from 2001:db8:1::/64 via 2001:db8:1::1 dev cable1 table 100")
        try await network.near.run("ip", "-6", "rule", "add", "fwmark", "7", "lookup", "100", "priority", "50")
        func status(_ words: String...) async throws -> String {
            let unprivileged = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", WatchCommand.path, "status"]
            let command = ["ip", "netns", "exec", network.near.name] + unprivileged + words
            return try await Child.run(command, allowFailure: true).output
        }
        #expect(try await status() == "internet: unsatisfied: no route")
        let marked = try await status("--mark", "7")
        #expect(
            marked.hasPrefix("internet mark 0x7: satisfied via cable1") && marked.contains("source 2001:db8:1::10"), "\(marked)")
    }

    @Test(.enabled(if: Machine.otherUser != geteuid(), "this user namespace has one user"))
    func otherUserTriesEachIPv6Source() async throws {
        let network = try await CabledNetwork.withIPv6(
            "2001:db8:0::10", "2001:db8:1::10", route: "::/0 from 2001:db8:1::/64 via 2001:db8:1::1 dev cable1")
        var user = Scope.internet
        user.uid = Machine.otherUser
        try await network.watching(user) { watcher in
            #expect(watcher.path.ipv6.source == IPAddress("2001:db8:1::10"))
            try await watcher.expect(.unsatisfied, .noRoute) { try await network.near.ip("addr del 2001:db8:1::10/64 dev cable1") }
        }
    }

    @Test func vanishedInterfaceIsNoFailure() async throws {
        let network = try await CabledNetwork()
        let kernel = KernelNetwork(networkNamespace: network.near.path)
        for address in ["1.1.1.1", "2801:1b8:10::b"] {
            let query = RouteQuery(to: try #require(IPAddress(address)), interface: 9999, source: .selected)
            #expect(try kernel.routes(to: [query]).map { try $0.get() } == [.refused(errno: ENODEV)])
        }
    }

    // MARK: - This host, broadcasts

    @Test(arguments: ["0.0.0.0", "::"]) func unspecifiedAddressIsThisHost(text: String) async throws {
        let network = try await CabledNetwork.online()
        let address = try #require(IPAddress(text))
        try await network.watching(.address(address)) { watcher in
            #expect(watcher.path.isSatisfied && watcher.path.interface?.name == "lo")
            // The kernel still connects over IPv4, but through an interface that is down; over IPv6 ::1 is gone with it.
            try await watcher.expect(.unsatisfied, address.family == .ipv4 ? .adminDown : .noAddress) {
                try await network.near.ip("link set lo down")
            }
            try await watcher.expect(.satisfied) { try await network.near.ip("link set lo up") }
        }
    }

    @Test(arguments: [Scope.Transport.tcp, .udp]) func broadcastsAreRefused(transport: Scope.Transport) async throws {
        let network = try await CabledNetwork.online()
        var scope = Scope.address(try #require(IPAddress("192.0.2.255")))
        scope.transport = transport
        try await network.watching(scope) { watcher in
            let verdicts = try await PathOracle.verdicts(on: scope, in: network.near)
            #expect(!watcher.path.isSatisfied && verdicts == [Verdict(watcher.path)], "\(verdicts)")
        }
    }

    // MARK: - The interface

    @Test func pulledCableIsTheReasonBesideBusyBridge() async throws {
        let network = try await CabledNetwork.online()
        // The state of a container engine: a bridge with an address, and a running container.
        try await network.near.ip(
            """
            link add brd0 type bridge
            link add vet0 type veth peer name vet1
            link set vet0 master brd0
            link set vet0 up
            link set vet1 up
            link set brd0 up
            addr add 172.17.0.1/16 dev brd0
            addr add fd00:17::1/64 dev brd0 nodad
            """)
        try await network.watching { watcher in
            try await watcher.expect(.unsatisfied, .noCarrier, delay: Watcher.carrierDelay) { try await network.pull() }
            let explained = try await network.status()
            #expect(explained.hasPrefix("internet: unsatisfied: no carrier\n  missing: carrier on cable0: "), "\(explained)")
            try await watcher.expect(.satisfied) { try await network.plug() }
        }
    }

    @Test func pointToPointDeviceNeedsNoRoute() async throws {
        let network = try await CabledNetwork()
        let tunnel = csandbox_open_tunnel(network.near.path, "tun0")
        try #require(tunnel >= 0, "no tunnel: \(String(cString: strerror(-tunnel)))")
        try await network.near.ip("addr add 10.8.0.2/32 dev tun0\nlink set tun0 up")
        var bound = Scope.internet
        bound.interface = "tun0"
        try await network.watching(bound) { watcher in
            #expect(watcher.path.isSatisfied && watcher.path.ipv4.source == IPAddress("10.8.0.2"))
            #expect(try !watcher.monitor.path(to: .internet).isSatisfied)
            try await watcher.expect(.unsatisfied, .noInterface) { close(tunnel) }
        }
    }

    @Test func onLinkGuessIsNoRoute() async throws {
        let network = try await CabledNetwork.online()
        try await network.near.ip("route del default")
        #expect(try await network.status("--interface", "cable0") == "internet%cable0: unsatisfied: no route")
        let explained = try await network.status("--interface", "cable0", command: "explain")
        #expect(!explained.contains("source address cannot be used"), "\(explained)")
    }

    @Test func loopbackAndMissingInterfacesAreReported() async throws {
        let network = try await CabledNetwork.online()
        #expect(
            try await network.status("--interface", "lo")
                == "internet%lo: unsatisfied: lo is the loopback interface, which leads nowhere else")
        #expect(
            try await network.status("--interface", "eth7") == "internet%eth7: unsatisfied: there is no interface named eth7")
        var bound = Scope.internet
        bound.interface = "patch0"
        try await network.watching(bound) { watcher in
            #expect(watcher.path.description == "unsatisfied: there is no interface named patch0")
            try await watcher.expect(.satisfied) {
                try await network.near.ip("link set cable0 name patch0")
            }
        }
    }
}

extension CabledNetwork {
    /// Returns a machine with an IPv6 address on each cable, and one route.
    fileprivate static func withIPv6(_ first: String, _ second: String, route: String) async throws -> CabledNetwork {
        let network = try await CabledNetwork()
        try await network.near.ip(
            """
            link set cable0 up
            link set cable1 up
            addr add \(first)/64 dev cable0 nodad
            addr add \(second)/64 dev cable1 nodad
            route add \(route)
            """)
        return network
    }

    /// Returns the output of a `reachability-watch` command in the machine.
    fileprivate func status(_ words: String..., command: String = "status") async throws -> String {
        try await Child.run([WatchCommand.path, command, "--netns", near.name] + words, allowFailure: true).output
    }
}

/// IPv6 sockets bound to an interface, with routes for some sources only.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct BoundSocketTests {
    /// Two cables with one prefix; the first one's default route is the better one.
    private func network() async throws -> CabledNetwork {
        try await .withIPv6(
            "2001:db8:1::10", "2001:db8:1::11", route: "::/0 from 2001:db8:1::/64 via fe80::1 dev cable0 metric 50")
    }

    private func bound(to name: String) -> Scope {
        var scope = Scope.internet
        scope.interface = name
        return scope
    }

    /// A lookup with a source finds the first cable's route; a bound socket does not connect.
    @Test func routeThroughOtherInterfaceIsNotEnough() async throws {
        let network = try await network()
        let monitor = ReachabilityMonitor(KernelNetwork(networkNamespace: network.near.path))
        #expect(try monitor.path(to: bound(to: "cable0")).ipv6.isSatisfied)
        #expect(try monitor.path(to: bound(to: "cable1")).offlineReason == .noRoute)
    }

    /// A lookup with a source finds the first cable's route, although the socket connects through the second one.
    @Test func worseRouteThroughBoundInterfaceSatisfies() async throws {
        let network = try await network()
        try await network.near.ip("route add ::/0 from 2001:db8:1::/64 via fe80::2 dev cable1 metric 60")
        let monitor = ReachabilityMonitor(KernelNetwork(networkNamespace: network.near.path))
        for name in ["cable0", "cable1"] {
            let path = try monitor.path(to: bound(to: name))
            #expect(path.ipv6.isSatisfied && path.interface?.name == name && path.ipv6.source != nil)
        }
    }

    @Test func removedIPv4SourceIsRefused() async throws {
        let network = try await CabledNetwork.online()
        let kernel = KernelNetwork(networkNamespace: network.near.path)
        let gone = RouteQuery(to: try #require(IPAddress("1.1.1.1")), source: .address(try #require(IPAddress("192.0.2.99"))))
        let verdict = try #require(kernel.routes(to: [gone]).first).get()
        #expect(verdict.mayLackSource)
    }
}
