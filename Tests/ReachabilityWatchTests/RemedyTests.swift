import CommandKit
import Reachability
import ReachabilityTesting
import Testing

/// The advice for scenes that people meet, from the scene itself to the words.
@Suite struct RemedyTests {
    /// A change of a machine with a cable, and the advice for it.
    struct Scene: Sendable, CustomTestStringConvertible {
        var name: String
        var reason: OfflineReason
        var missing: String
        var next: String
        var scope = Scope.internet
        var hasIPv6 = false
        var make: @Sendable (SimulatedNetwork) throws -> Void

        var testDescription: String { name }
    }

    @Test(arguments: gone + spares + cables + addresses + routes) func adviceFollowsFromTheScene(scene: Scene) throws {
        let network = SimulatedNetwork.online(hasIPv6: scene.hasIPv6)
        try scene.make(network)
        let explanation = try #require(try ReachabilityMonitor(network).explanations(of: [scene.scope]).first)
        #expect(explanation.path.offlineReason == scene.reason)
        let remedy = try #require(Remedy(explanation))
        #expect(remedy.missing == scene.missing)
        #expect(remedy.command == scene.next)
    }

    /// The advice for a satisfied path of which a next hop fails.
    @Test(arguments: partial) func adviceForAPartialPathNamesTheNextHop(scene: PartialScene) throws {
        let network = SimulatedNetwork.online(hasIPv6: true)
        try network.addLink("wlan0")
        try network.addAddress("wlan0", "198.51.100.10/24")
        try network.addAddress("wlan0", "2001:db8:2::10/64", skipsDetection: true)
        try network.removeRoute(to: "default", via: "192.0.2.1")
        try network.addRoute(
            to: "default", through: [.init(via: "192.0.2.1", dev: "eth0"), .init(via: "198.51.100.1", dev: "wlan0")])
        try scene.make(network)
        let explanation = try #require(try ReachabilityMonitor(network).explanations(of: [.internet]).first)
        #expect(explanation.path.isSatisfied)
        let remedy = try #require(Remedy(explanation))
        #expect(remedy.missing == scene.missing)
        #expect(remedy.command == scene.next)
        let lines = statusLines(explanation, .text, TextStyle())
        #expect(lines.count == 3 && lines[0].contains("connections fail: ") && lines[1] == "  missing: \(scene.missing)")
    }

    /// A change of a machine with a default route through two interfaces.
    struct PartialScene: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var missing: String
        var next: String
        var make: @Sendable (SimulatedNetwork) throws -> Void
    }

    static let partial = [
        PartialScene(
            testDescription: "the second cable is out",
            missing: "carrier on wlan0: a part of the IPv4 connections goes there", next: "sysctl net.ipv4.\(isIgnored)"
        ) { network in try network.pull("wlan0") },
        PartialScene(
            testDescription: "the first cable is out",
            missing: "carrier on eth0: a part of the IPv4 connections goes there", next: "sysctl net.ipv4.\(isIgnored)"
        ) { network in try network.pull("eth0") },
        PartialScene(
            testDescription: "over both families",
            missing: "carrier on wlan0: a part of the IPv4 and IPv6 connections goes there",
            next: "sysctl net.ipv4.\(isIgnored) net.ipv6.\(isIgnored)"
        ) { network in
            try network.removeRoute(to: "::/0", via: "fe80::1")
            try network.addRoute(
                to: "::/0", through: [.init(via: "fe80::1", dev: "eth0"), .init(via: "2001:db8:2::1", dev: "wlan0")])
            try network.pull("wlan0")
        },
        PartialScene(
            testDescription: "a next hop below a VLAN is out",
            missing: "another state of wlan0, which has no carrier: a part of the IPv4 connections goes there",
            next: "ip -details link show dev wlan0"
        ) { network in
            let index = try network.addLink("wan0", hasCarrier: false)
            try network.batch { kernel throws(SimulationError) in
                try kernel.setUnderlay("wlan0", .device(index), linkKind: "vlan")
            }
        },
    ]

    @Test func tetheringThatIsGoneIsNamed() async throws {
        let network = SimulatedNetwork.online()
        try network.rename("eth0", to: "enx0a1b2c3d4e5f")
        let monitor = ReachabilityMonitor(network)
        let running = Task { try await monitor.run() }
        try await network.untilRunning()
        try network.removeLink("enx0a1b2c3d4e5f")
        let explanation = try #require(try monitor.explanations(of: [.internet]).first)
        #expect(explanation.path.offlineReason == .noInterface)
        #expect(Remedy(explanation)?.missing == "enx0a1b2c3d4e5f, which led there: it is gone")
        #expect(Remedy(explanation)?.command == "ip link show")
        running.cancel()
        _ = try? await running.value
    }

    /// Evidence of a culprit adds two lines to a verdict, and without it there is nothing to add.
    @Test func statusNamesOnlyWhatIsKnown() throws {
        let network = SimulatedNetwork.online()
        let monitor = ReachabilityMonitor(network)
        func lines(_ format: OutputFormat = .text) throws -> [String] {
            try monitor.explanations(of: [.internet]).flatMap { statusLines($0, format, TextStyle()) }
        }
        #expect(try lines().count == 1)
        try network.removeRoute(to: "default", via: "192.0.2.1")
        #expect(try lines() == ["internet: unsatisfied: no route"])
        try network.addLink("eth1", hasCarrier: false)
        #expect(try lines() == ["internet: unsatisfied: no route"], "a port that may never have led there")
        try network.setUp("eth0", false)
        try network.removeLink("eth1")
        #expect(
            try lines() == [
                "internet: unsatisfied: interface is shut down", "  missing: an interface that is set up: eth0 is shut down",
                "  next:    ip link set dev eth0 up",
            ])
        #expect(try lines(.json).count == 1)
    }

    // MARK: - Devices that are gone

    /// Nothing tells a command that is started afterwards which interface led to the internet.
    static let gone = [
        Scene(
            name: "modem gone, NIC shut down", reason: .adminDown, missing: "an interface that leads there: wan0 is shut down",
            next: "ip link show; ip -4 route show table all"
        ) { network in
            try network.removeLink("eth0")
            try network.addLink("wan0", isUp: false)
        },
        Scene(
            name: "modem gone, NIC without cable, another shut down", reason: .noCarrier,
            missing: "an interface that leads there: wan0 has no carrier, eth1 is shut down",
            next: "ip link show; ip -4 route show table all"
        ) { network in
            try network.removeLink("eth0")
            try network.addLink("wan0", hasCarrier: false)
            try network.addLink("eth1", isUp: false)
        },
        Scene(
            name: "modem gone, idle bridge of a container engine", reason: .noCarrier,
            missing: "an interface that leads there: wan0 is shut down", next: "ip link show; ip -4 route show table all"
        ) { network in
            try network.removeLink("eth0")
            try network.addLink("wan0", isUp: false)
            try network.addLink("docker0", kind: .virtual, hasCarrier: false)
            try network.addAddress("docker0", "172.17.0.1/16")
        },
        Scene(
            name: "modem gone, busy bridge of a container engine", reason: .noRoute,
            missing: "a route that the rules select, such as a default route; wan0 has no carrier",
            next: "ip link show; ip -4 route show table all; ip -4 rule show"
        ) { network in
            try network.removeLink("eth0")
            try network.addLink("wan0", hasCarrier: false)
            try network.addLink("docker0", kind: .virtual)
            try network.addAddress("docker0", "172.17.0.1/16")
        },
        Scene(name: "USB tethering gone", reason: .noInterface, missing: "a network interface", next: "ip link show") { network in
            try network.removeLink("eth0")
        },
        Scene(
            name: "USB tethering gone, many ports", reason: .noCarrier,
            missing: "an interface that leads there: eth1 has no carrier, eth2 has no carrier, eth3 has no carrier, "
                + "2 more stop, too", next: "ip link show; ip -4 route show table all"
        ) { network in
            try network.removeLink("eth0")
            for port in 1...5 { try network.addLink("eth\(port)", hasCarrier: false) }
        },
    ]

    // MARK: - A working route behind a dead one

    private static let isIgnored = "conf.all.ignore_routes_with_linkdown=1"

    private static func addWireless(_ network: SimulatedNetwork, kind: NetworkInterface.Kind = .wireless) throws {
        try network.addLink("wlan0", kind: kind)
        try network.addAddress("wlan0", "198.51.100.10/24")
    }

    static let spares = [
        Scene(
            name: "cable out, wireless behind it", reason: .noCarrier,
            missing: "carrier on eth0, whose route precedes the working one through wlan0", next: "sysctl net.ipv4.\(isIgnored)"
        ) { network in
            try addWireless(network)
            try network.addRoute(to: "default", via: "198.51.100.1", dev: "wlan0", metric: 600)
            try network.pull("eth0")
        },
        Scene(
            name: "the same over both families", reason: .noCarrier,
            missing: "carrier on eth0, whose route precedes the working one through wlan0",
            next: "sysctl net.ipv4.\(isIgnored) net.ipv6.\(isIgnored)", hasIPv6: true
        ) { network in
            try addWireless(network)
            try network.addAddress("wlan0", "2001:db8:2::10/64", skipsDetection: true)
            try network.addRoute(to: "default", via: "198.51.100.1", dev: "wlan0", metric: 600)
            try network.addRoute(to: "::/0", via: "2001:db8:2::1", dev: "wlan0", metric: 2048)
            try network.pull("eth0")
        },
        Scene(
            name: "of several, the kernel takes the best one", reason: .noCarrier,
            missing: "carrier on eth0, whose route precedes the working one through wlan0", next: "sysctl net.ipv4.\(isIgnored)"
        ) { network in
            let devices: [(String, String, UInt32)] = [
                ("wwan0", "203.0.113.10/24", 700), ("wlan0", "198.51.100.10/24", 600), ("usb0", "10.0.0.10/24", 800),
            ]
            for (name, address, metric) in devices {
                try network.addLink(name)
                try network.addAddress(name, address)
                try network.addRoute(to: "default", dev: name, metric: metric)
            }
            try network.pull("eth0")
        },
        Scene(
            name: "wireless has a route by its source only", reason: .noCarrier,
            missing: "carrier on eth0: plug in the cable, or join a wireless network", next: "ip -details link show dev eth0"
        ) { network in
            try addWireless(network)
            try network.addRoute(to: "default", via: "198.51.100.1", dev: "wlan0", table: 200)
            try network.addRule(
                .init(priority: 100, from: IPPrefix(Samples.address("198.51.100.10"), length: 32), .lookup(table: 200)))
            try network.pull("eth0")
        },
        Scene(
            name: "the default is another network than the neighbours'", reason: .noCarrier,
            missing: "carrier on eth0: plug in the cable, or join a wireless network", next: "ip -details link show dev eth0",
            scope: .address(Samples.address("192.0.2.77"))
        ) { network in
            try addWireless(network)
            try network.addRoute(to: "default", via: "198.51.100.1", dev: "wlan0", metric: 600)
            try network.pull("eth0")
        },
        Scene(
            name: "wireless without a working address", reason: .noCarrier,
            missing: "carrier on eth0: plug in the cable, or join a wireless network", next: "ip -details link show dev eth0"
        ) { network in
            try addWireless(network)
            try network.addRoute(to: "default", via: "198.51.100.1", dev: "wlan0", metric: 600)
            try network.removeAddress("wlan0", "198.51.100.10/24")
            try network.pull("eth0")
        },
        Scene(
            name: "the spare's address is prohibited", reason: .noCarrier,
            missing: "carrier on eth0: plug in the cable, or join a wireless network", next: "ip -details link show dev eth0"
        ) { network in
            try addWireless(network)
            try network.addRoute(to: "default", via: "198.51.100.1", dev: "wlan0", metric: 600)
            try network.addRule(.init(priority: 100, from: IPPrefix(Samples.address("198.51.100.10"), length: 32), .prohibit))
            try network.pull("eth0")
        },
        Scene(
            name: "a bound socket takes no spare", reason: .noCarrier,
            missing: "carrier on eth0: plug in the cable, or join a wireless network", next: "ip -details link show dev eth0",
            scope: bound("eth0")
        ) { network in
            try addWireless(network)
            try network.addRoute(to: "default", via: "198.51.100.1", dev: "wlan0", metric: 600)
            try network.pull("eth0")
        },
        Scene(
            name: "the dead route is the one for the source", reason: .noCarrier,
            missing: "carrier on eth0: plug in the cable, or join a wireless network", next: "ip -details link show dev eth0"
        ) { network in
            // Packets take the address of wwan0, for which there is only the dead route: ignoring it would leave none.
            let source = IPPrefix(Samples.address("203.0.113.10"), length: 32)
            try network.addLink("wwan0", kind: .cellular)
            try network.addAddress("wwan0", "203.0.113.10/24")
            try network.removeRoute(to: "default", via: "192.0.2.1")
            try network.addRoute(to: "default", via: "203.0.113.1", dev: "wwan0")
            try addWireless(network)
            try network.addRoute(to: "default", via: "198.51.100.1", dev: "wlan0", metric: 600)
            try network.addRoute(to: "default", via: "192.0.2.1", dev: "eth0", table: 100)
            try network.addRule(.init(priority: 100, from: source, .lookup(table: 100)))
            try network.addRule(.init(priority: 101, from: source, .unreachable))
            try network.pull("eth0")
        },
        Scene(
            name: "nothing goes around a dead tunnel", reason: .noCarrier, missing: "the program that holds tun0: it has ended",
            next: "ip -details link show dev tun0"
        ) { network in
            try network.replaceRoute(to: "default", via: "192.0.2.1", dev: "eth0", metric: 100)
            try network.removeRoute(to: "default", via: "192.0.2.1", dev: "eth0", metric: 0)
            try network.addLink("tun0", kind: .tunnel)
            try network.addAddress("tun0", "10.8.0.2/24")
            try network.addRoute(to: "default", dev: "tun0", metric: 50)
            try network.setCarrier("tun0", false)
        },
        Scene(
            name: "a tunnel is no spare", reason: .noCarrier,
            missing: "carrier on eth0: plug in the cable, or join a wireless network", next: "ip -details link show dev eth0"
        ) { network in
            try addWireless(network, kind: .tunnel)
            try network.addRoute(to: "default", dev: "wlan0", metric: 600)
            try network.pull("eth0")
        },
    ]

    // MARK: - Cables and switches

    static let cables = [
        Scene(
            name: "cable out", reason: .noCarrier, missing: "carrier on eth0: plug in the cable, or join a wireless network",
            next: "ip -details link show dev eth0"
        ) { network in try network.pull("eth0") },
        Scene(
            name: "cable out, another port unused", reason: .noCarrier,
            missing: "carrier on eth1: plug in the cable, or join a wireless network", next: "ip -details link show dev eth1"
        ) { network in
            try network.pull("eth0")
            try network.removeRoute(to: "default", via: "192.0.2.1")
            try network.addLink("eth1")
            try network.addAddress("eth1", "198.51.100.10/24")
            try network.addRoute(to: "default", via: "198.51.100.1", dev: "eth1")
            try network.pull("eth1")
        },
        Scene(
            name: "each half through another dead port", reason: .noCarrier,
            missing: "carrier on eth1: plug in the cable, or join a wireless network", next: "ip -details link show dev eth1"
        ) { network in
            for (name, half) in [("eth1", "128.0.0.0/1"), ("eth2", "0.0.0.0/1")] {
                try network.addLink(name)
                try network.addAddress(name, "198.51.100.1\(name.last ?? "0")/24")
                try network.addRoute(to: half, dev: name)
                try network.pull(name)
            }
        },
        Scene(
            name: "a tunnel's program has ended", reason: .noCarrier, missing: "the program that holds tun0: it has ended",
            next: "ip -details link show dev tun0"
        ) { network in
            try network.addLink("tun0", kind: .tunnel)
            try network.addAddress("tun0", "10.8.0.2/24")
            try network.addRoute(to: "0.0.0.0/1", dev: "tun0")
            try network.addRoute(to: "128.0.0.0/1", dev: "tun0")
            try network.setCarrier("tun0", false)
        },
        Scene(
            name: "shut down", reason: .adminDown, missing: "an interface that is set up: eth0 is shut down",
            next: "ip link set dev eth0 up"
        ) { network in try network.setUp("eth0", false) },
        Scene(
            name: "shut down, another port unused", reason: .noCarrier,
            missing: "an interface that is set up: eth0 is shut down", next: "ip link set dev eth0 up"
        ) { network in
            try network.addLink("eth1", hasCarrier: false)
            try network.setUp("eth0", false)
        },
        Scene(
            name: "bound to a port without cable", reason: .noCarrier,
            missing: "carrier on eth1: plug in the cable, or join a wireless network", next: "ip -details link show dev eth1",
            scope: bound("eth1")
        ) { network in try network.addLink("eth1", hasCarrier: false) },
    ]

    private static func bound(_ name: String) -> Scope {
        var scope = Scope.internet
        scope.interface = name
        return scope
    }

    // MARK: - Addresses

    private static func loseLease(_ network: SimulatedNetwork) throws {
        try network.addAddress("eth0", "fe80::7/64", skipsDetection: true)
        try network.removeAddress("eth0", "192.0.2.10/24")
    }

    private static let far6 = Scope.address(Samples.address("2001:db8:7::7"))

    static let addresses = [
        Scene(
            name: "no lease", reason: .noAddress, missing: "an address on eth0: is a DHCP client running?",
            next: "ip address show dev eth0"
        ) { network in try loseLease(network) },
        Scene(
            name: "no lease, another port unused", reason: .noAddress, missing: "an address on eth0: is a DHCP client running?",
            next: "ip address show dev eth0"
        ) { network in
            try network.addLink("eth1", hasCarrier: false)
            try loseLease(network)
        },
        Scene(
            name: "no lease on a bridge", reason: .noAddress, missing: "an address on br0: is a DHCP client running?",
            next: "ip address show dev br0"
        ) { network in
            try network.addLink("br0", kind: .virtual)
            try network.addAddress("br0", "fe80::7/64", skipsDetection: true)
            try network.removeAddress("eth0", "192.0.2.10/24")
            try network.batch { kernel throws(SimulationError) in
                try kernel.setUnderlay("br0", linkKind: "bridge")
                try kernel.setUnderlay("eth0", master: "br0")
            }
        },
        Scene(
            name: "IPv6 alone, with disable_ipv6", reason: .noAddress,
            missing: "an address on eth0: it has none of IPv4, and IPv6 is off (disable_ipv6 is set, or the MTU is below 1280)",
            next: "ip address show dev eth0", hasIPv6: true
        ) { network in
            try network.removeAddress("eth0", "192.0.2.10/24")
            try network.setSysctl("net.ipv6.conf.eth0.disable_ipv6", 1)
        },
        Scene(
            name: "IPv6 alone, with an MTU of 1200", reason: .noAddress,
            missing: "an address on eth0: it has none of IPv4, and IPv6 is off (disable_ipv6 is set, or the MTU is below 1280)",
            next: "ip address show dev eth0"
        ) { network in
            // The kernel removes every IPv6 address, as for disable_ipv6 (addrconf_notify, net/ipv6/addrconf.c).
            try network.removeAddress("eth0", "192.0.2.10/24")
        },
        Scene(
            name: "no lease on two ports", reason: .noAddress,
            missing: "an interface that leads there: eth0 has no usable address, eth1 has no usable address",
            next: "ip link show; ip -4 route show table all"
        ) { network in
            try network.addLink("eth1")
            try network.removeAddress("eth0", "192.0.2.10/24")
        },
        Scene(
            name: "duplicate address", reason: .noAddress,
            missing: "another address on eth0: another machine has 2001:db8::7, too", next: "ip -6 address show dev eth0",
            scope: far6
        ) { network in
            try network.addAddress("eth0", "2001:db8::7/64", isTentative: true)
            try network.finishDetection(of: "2001:db8::7", on: "eth0", hasFailed: true)
        },
        Scene(
            name: "IPv6 disabled", reason: .noAddress, missing: "IPv6 on eth0: disable_ipv6 is set, or the MTU is below 1280",
            next: "ip -6 address show dev eth0", scope: far6
        ) { _ in },
        Scene(
            name: "no router", reason: .noAddress, missing: "an address on eth0: does a router announce one?",
            next: "ip -6 address show dev eth0", scope: far6
        ) { network in try network.addAddress("eth0", "fe80::7/64", skipsDetection: true) },
    ]

    // MARK: - Routes and rules

    private static let marked = {
        var scope = Scope.internet
        scope.mark = 0xca6c
        return scope
    }()

    static let routes = [
        Scene(
            name: "default route lost", reason: .noRoute, missing: "a route that the rules select, such as a default route",
            next: "ip -4 route show table all; ip -4 rule show"
        ) { network in try network.removeRoute(to: "default", via: "192.0.2.1") },
        Scene(
            name: "default route lost, idle bridge of a container engine", reason: .noRoute,
            missing: "a route that the rules select, such as a default route",
            next: "ip -4 route show table all; ip -4 rule show"
        ) { network in
            try network.addLink("docker0", kind: .virtual, hasCarrier: false)
            try network.removeRoute(to: "default", via: "192.0.2.1")
        },
        Scene(
            name: "default route lost, another port without lease", reason: .noRoute,
            missing: "a route that the rules select, such as a default route; eth1 has no usable address",
            next: "ip link show; ip -4 route show table all; ip -4 rule show"
        ) { network in
            try network.addLink("eth1")
            try network.removeRoute(to: "default", via: "192.0.2.1")
        },
        Scene(
            name: "default to lo", reason: .noRoute,
            missing: "a route to another machine: this one leads to the loopback interface",
            next: "ip -4 route show table all; ip -4 rule show"
        ) { network in
            try network.removeRoute(to: "default", via: "192.0.2.1")
            try network.addRoute(to: "default", dev: "lo")
            try network.addLink("eth1", hasCarrier: false)
        },
        Scene(
            name: "rule of type prohibit", reason: .prohibited, missing: "a way around the prohibit route or rule",
            next: "ip -4 route show table all type prohibit; ip -4 rule show"
        ) { network in try network.addRule(.init(priority: 100, .prohibit)) },
        Scene(
            name: "rule of type blackhole", reason: .blackhole, missing: "a way around the blackhole route or rule",
            next: "ip -4 route show table all type blackhole; ip -4 rule show"
        ) { network in try network.addRule(.init(priority: 100, .blackhole)) },
        Scene(
            name: "rule of type unreachable", reason: .noRoute,
            missing: "a route that the rules select, such as a default route",
            next: "ip -4 route show table all; ip -4 rule show"
        ) { network in try network.addRule(.init(priority: 100, .unreachable)) },
        Scene(
            name: "unreachable default", reason: .unreachable, missing: "a way around the unreachable route or rule",
            next: "ip -4 route show table all type unreachable; ip -4 rule show"
        ) { network in
            try network.removeRoute(to: "default", via: "192.0.2.1")
            try network.addRoute(to: "default", type: .unreachable)
        },
        Scene(
            name: "rule for a mark", reason: .noRoute, missing: "a route that the rules select, such as a default route",
            next: "ip -4 route show table all; ip -4 rule show; ip -4 route get 198.41.0.4 mark 0xca6c", scope: marked
        ) { network in try network.addRule(.init(priority: 100, mark: 0xca6c, .unreachable)) },
        Scene(
            name: "rule for main deleted", reason: .noRoute, missing: "a route that the rules select, such as a default route",
            next: "ip -4 route show table all; ip -4 rule show"
        ) { network in try network.removeRule(priority: 32766) },
    ]
}
