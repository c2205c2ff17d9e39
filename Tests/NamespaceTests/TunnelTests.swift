import Foundation
import Glibc
import Reachability
import Testing

/// The layouts of VPN programs, with tun devices; their simulated likes are many more.
///
/// A namespace has no hardware: a monitor that never saw ground lets a tunnel count by itself.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct TunnelTests {
    struct Layout: Sendable, CustomTestStringConvertible {
        var name: String
        var scope = Scope.internet
        /// The lines of `ip` after which the scope's packets go through tun0.
        var lines: String
        /// The lines of `ip` by which the uplink comes back after its address was removed.
        var restored = """
            addr add 192.0.2.10/24 dev cable0
            route add default via 192.0.2.1 metric 100
            """

        var testDescription: String { name }
    }

    private static let hostRoute = "\nroute add 203.0.113.5 via 192.0.2.1"

    /// The rules of WireGuard's programs, the tunnel's table first.
    private static func rules(_ mark: String, _ table: Int, _ priority: Int) -> String {
        """
        route add default dev tun0 table \(table)
        rule add not fwmark \(mark) lookup \(table) priority \(priority + 1)
        rule add lookup main suppress_prefixlength 0 priority \(priority)
        """
    }

    static let layouts = [
        Layout(
            name: "OpenVPN, redirect-gateway def1",
            lines: "route add 0.0.0.0/1 dev tun0\nroute add 128.0.0.0/1 dev tun0" + hostRoute),
        // With NetworkManager's metric; the default route of the cable stays behind it.
        Layout(name: "OpenVPN under NetworkManager", lines: "route add default dev tun0 metric 50" + hostRoute),
        // The host route holds the cable up.
        Layout(
            name: "OpenVPN, redirect-gateway",
            lines: "route add 203.0.113.5 via 192.0.2.1\nroute add default dev tun0\nroute del default via 192.0.2.1",
            restored: "addr add 192.0.2.10/24 dev cable0" + hostRoute),
        Layout(
            name: "a server on the own LAN", lines: "route add default dev tun0\nroute del default via 192.0.2.1",
            restored: "addr add 192.0.2.10/24 dev cable0"),
        Layout(name: "wg-quick", lines: rules("0xca6c", 51820, 32764)),
        Layout(name: "WireGuard under NetworkManager", lines: rules("0xcb51", 52049, 31489)),
        Layout(
            name: "split tunnel", scope: .address(IPAddress(family: .ipv4, value: 0x0a01_0203)),
            lines: "route add 10.0.0.0/8 dev tun0"),
    ]

    /// Brings tun0 up beside a cable.
    private func connect(_ network: CabledNetwork, _ layout: Layout) async throws {
        try await network.near.ip("link set tun0 up\naddr add 10.8.0.2/24 dev tun0\n\(layout.lines)")
    }

    /// NetworkManager and networkd remove the address of a dead cable, and the kernel the routes with it; ifupdown leaves both.
    @Test(arguments: layouts, [true, false]) func tunnelFallsAndReturnsWithItsCable(layout: Layout, isRemoved: Bool) async throws {
        let network = try await CabledNetwork.online()
        let holder = try await holdTun("tun0", in: network.near)
        defer { holder.signal(SIGKILL) }
        try await network.watching(layout.scope) { watcher in
            try await connect(network, layout)
            while watcher.path.interface?.name != "tun0" {
                try await watcher.next()
                #expect(watcher.path.isSatisfied, "an outage while the tunnel came up")
            }
            let epoch = watcher.epoch
            try await network.pull()
            while watcher.path.isSatisfied { try await watcher.next() }
            #expect(watcher.path.description == "unsatisfied: tun0 has nothing to stand on: cable0 has no carrier")
            if isRemoved { try await network.near.ip("addr del 192.0.2.10/24 dev cable0") }
            try await network.plug()
            if isRemoved { try await network.near.ip(layout.restored) }
            while !watcher.path.isSatisfied { try await watcher.next() }
            #expect(watcher.path.interface?.name == "tun0" && watcher.epoch == epoch + 1)
        }
    }

    /// Each change is an edge for what goes through the tunnel, and none is an outage.
    @Test(arguments: layouts) func changeOfGroundIsAnEdge(layout: Layout) async throws {
        let network = try await CabledNetwork.online()
        let holder = try await holdTun("tun0", in: network.near)
        defer { holder.signal(SIGKILL) }
        try await network.watching(layout.scope) { watcher in
            try await connect(network, layout)
            while watcher.path.interface?.name != "tun0" { try await watcher.next() }
            var epoch = watcher.epoch
            for isSecond in [false, true] {
                if isSecond { try await network.pull() } else { try await network.addIPv4(1, metric: 600) }
                while watcher.epoch == epoch {
                    try await watcher.next()
                    #expect(watcher.path.isSatisfied, "an outage while the ground changed")
                }
                epoch += 1
                #expect(watcher.path.interface?.name == "tun0" && watcher.epoch == epoch)
            }
            try await network.near.ip("addr del 192.0.2.10/24 dev cable0")
            try await network.pull(1)
            while watcher.path.isSatisfied { try await watcher.next() }
            #expect(watcher.epoch == epoch)
            #expect(watcher.path.description == "unsatisfied: tun0 has nothing to stand on: cable1 has no carrier")
        }
    }

    /// The state 15 s after the cable went: its manager has removed the address, and the routes went with it.
    @Test(arguments: layouts) func laterCommandsAgree(layout: Layout) async throws {
        let network = try await CabledNetwork.online()
        let holder = try await holdTun("tun0", in: network.near)
        defer { holder.signal(SIGKILL) }
        try await connect(network, layout)
        try await network.pull()
        try await network.near.ip("addr del 192.0.2.10/24 dev cable0")
        let scope = "\(layout.scope)"
        let status = try await Child.run(
            [WatchCommand.path, "status", "--netns", network.near.name, "--to", scope], allowFailure: true)
        #expect(status.code == 0 && status.output.contains("satisfied via tun0"), "\(status.output)")
        let run = try network.run("--to", scope, "--", "true")
        #expect(await run.exitCode() == 0)
        // The network below is down, whatever stands on it.
        let below = layout.scope == .internet ? ["--interface", "cable0"] : []
        let options = ["--netns", network.near.name] + below
        let lower = try await Child.run([WatchCommand.path, "status"] + options, allowFailure: true)
        #expect(lower.code == 1, "\(lower.output)")
        let waiting = try await network.runUntilWaiting(below + ["--", "true"])
        try await network.plug()
        try await network.near.ip("addr add 192.0.2.10/24 dev cable0\nroute add default via 192.0.2.1 metric 700")
        #expect(await waiting.exitCode() == 0)
    }

    /// slirp4netns and pasta give a container a tap, other programs a tun: nothing in its namespace is below it.
    @Test(arguments: [true, false]) func onlyDeviceOfAContainerRestarts(isTap: Bool) async throws {
        let container = try await Namespace()
        func start() async throws -> Child {
            let holder = try await holdTun("dev0", in: container, isTap: isTap)
            let route = isTap ? "default via 10.0.2.2" : "default dev dev0"
            try await container.ip("link set dev0 up\naddr add 10.0.2.100/24 dev dev0\nroute add \(route)")
            return holder
        }
        var holder = try await start()
        try await container.watching { watcher in
            #expect(watcher.path.isSatisfied && watcher.path.interface?.name == "dev0")
            for _ in 1...2 {
                holder.signal(SIGKILL)
                while watcher.path.isSatisfied { try await watcher.next() }
                _ = await holder.exitCode()
                holder = try await start()
                while !watcher.path.isSatisfied { try await watcher.next() }
            }
            #expect(watcher.epoch == 3)
        }
        #expect(try ReachabilityMonitor(KernelNetwork(networkNamespace: container.path)).path(to: .internet).isSatisfied)
        holder.signal(SIGKILL)
    }

    /// A tunnel in a container: the container's tap is its ground.
    @Test func tunnelFallsWithTheTapOfItsContainer() async throws {
        let container = try await Namespace()
        let tap = try await holdTun("tap0", in: container, isTap: true)
        let tun = try await holdTun("tun0", in: container)
        defer { tun.signal(SIGKILL) }
        try await container.ip(
            """
            link set tap0 up
            addr add 10.0.2.100/24 dev tap0
            route add default via 10.0.2.2
            link set tun0 up
            addr add 10.8.0.2/24 dev tun0
            route add 0.0.0.0/1 dev tun0
            route add 128.0.0.0/1 dev tun0
            """)
        try await container.watching { watcher in
            #expect(watcher.path.isSatisfied && watcher.path.interface?.name == "tun0")
            tap.signal(SIGKILL)
            while watcher.path.description != "unsatisfied: tun0 has nothing to stand on: tap0 is gone" { try await watcher.next() }
        }
    }

    /// A tunnel over a bridge that a virtual machine's port keeps up.
    @Test func tunnelFallsWithThePortOfItsBridge() async throws {
        let network = try await CabledNetwork()
        try await network.addBridge()
        try await network.addGateway()
        try await network.near.ip("link set cable1 master br0\nlink set cable1 up")
        while try await !network.isAnswered() {}
        #expect(try network.portOfGateway() == "cable0")
        let holder = try await holdTun("tun0", in: network.near)
        defer { holder.signal(SIGKILL) }
        try await network.watching(configuration: .audited) { watcher in
            #expect(watcher.path.interface?.name == "br0")
            try await network.near.ip(
                "link set tun0 up\naddr add 10.8.0.2/24 dev tun0\nroute add 0.0.0.0/1 dev tun0\nroute add 128.0.0.0/1 dev tun0")
            while watcher.path.interface?.name != "tun0" { try await watcher.next() }
            try await network.pull()
            while watcher.path.isSatisfied { try await watcher.next() }
            #expect(watcher.path.description == "unsatisfied: tun0 has nothing to stand on: cable0 has no carrier")
            // The gateway moves into the virtual machine.
            try await network.far.ip("addr del 192.0.2.1/24 dev remote0\naddr add 192.0.2.1/24 dev remote1")
            try await network.near.ip("neigh flush dev br0")
            while try await !network.isAnswered("192.0.2.1") {}
            while !watcher.path.isSatisfied { try await watcher.next() }
            #expect(watcher.path.interface?.name == "tun0")
        }
    }
}
