import Reachability
import ReachabilityTesting
import Testing

/// Machines whose traffic goes through a tunnel, with the routes, rules and addresses of the software that people use.
///
/// Two errors count: offline with a tunnel that works, and online above a pulled cable.
@Suite(.timeLimit(.minutes(10))) struct TunnelSceneTests {
    /// The software that configures the uplink; they leave different states after a loss of carrier.
    enum Manager: CaseIterable, Sendable {
        /// Removes the routes, then the addresses.
        case networkManager
        /// Removes the addresses, and the kernel removes the routes with them, without events.
        case networkd
        /// Leaves both, as networkd does with `IgnoreCarrierLoss=yes`.
        case ifupdown

        func react(to uplink: Uplink, in network: SimulatedNetwork) throws {
            guard self != .ifupdown, let link = network.kernel.interfaces.first(where: { $0.name == uplink.name }) else { return }
            if self == .networkManager {
                for route in network.kernel.routes where route.interface == link.index && !route.isConnected {
                    try network.removeRoute(
                        to: "\(route.destination)", via: route.gateway?.description, dev: uplink.name, metric: route.metric,
                        table: route.table)
                }
            }
            try network.removeAddress(uplink.name, uplink.address)
        }

        func restore(_ uplink: Uplink, _ layout: Layout, in network: SimulatedNetwork) throws {
            guard let link = network.kernel.interfaces.first(where: { $0.name == uplink.name }), link.addresses.isEmpty else {
                return
            }
            try network.addAddress(uplink.name, uplink.address)
            try network.addRoute(to: "default", via: uplink.gateway, dev: uplink.name, metric: 100)
            if layout.hasHostRoute { try uplink.addHostRoute(network) }
        }
    }

    /// A way out that a tunnel may stand on.
    struct Uplink: Sendable, CustomTestStringConvertible {
        var name: String
        /// The interface to mend after ``pull``, and its state.
        var loss: String
        var gateway: String? = "192.0.2.1"
        /// The reason that a monitor finds which starts later; `nil` if the tunnel counts by itself, for want of hardware.
        var lateReason: OfflineReason? = .noCarrier
        var add: @Sendable (inout SimulatedKernel) throws -> Void
        var pull: @Sendable (inout SimulatedKernel) throws -> Void
        var plug: @Sendable (inout SimulatedKernel) throws -> Void

        var testDescription: String { name }
        var address: String { gateway == nil ? "192.0.2.10/32" : "192.0.2.10/24" }

        func addHostRoute(_ network: SimulatedNetwork) throws {
            try network.addRoute(to: "203.0.113.5", via: gateway, dev: name)
        }

        /// Makes a machine that is online by this uplink alone.
        func machine() throws -> SimulatedNetwork {
            var kernel = SimulatedKernel()
            try add(&kernel)
            try kernel.addAddress(name, address)
            try kernel.addRoute(to: "default", via: gateway, dev: name, metric: 100)
            return SimulatedNetwork(kernel)
        }
    }

    /// The routes and rules of a VPN's program.
    struct Layout: Sendable, CustomTestStringConvertible {
        var name: String
        var tunnel: String
        var scope = Scope.internet
        /// True if the program adds a route to its server.
        var hasHostRoute = false
        var connect: @Sendable (SimulatedNetwork, Uplink) throws -> Void

        var testDescription: String { name }
    }

    // MARK: - Uplinks

    static let uplinks = [
        Uplink(
            name: "eth0", loss: "eth0 has no carrier", add: { try $0.addLink("eth0") }, pull: { try $0.pull("eth0") },
            plug: { try $0.plug("eth0") }),
        // Beside a port without a cable.
        Uplink(
            name: "wwan0", loss: "wwan0 has no carrier", gateway: nil,
            add: {
                try $0.addLink("eth0", hasCarrier: false)
                try $0.addLink("wwan0", kind: .cellular, isPointToPoint: true)
            }, pull: { try $0.pull("wwan0") }, plug: { try $0.plug("wwan0") }),
        Uplink(
            name: "ppp0", loss: "ppp0 is gone", gateway: nil,
            add: {
                try $0.addLink("eth0", hasCarrier: false)
                try addPPP(&$0)
            }, pull: { try $0.removeLink("ppp0") }, plug: addPPP),
        Uplink(
            name: "br0", loss: "br0 has no carrier",
            add: {
                try $0.addLink("eth0")
                try $0.addLink("br0", kind: .virtual)
                try $0.setUnderlay("br0", linkKind: "bridge")
                try $0.setUnderlay("eth0", master: "br0")
            },
            pull: {
                try $0.pull("eth0")
                try $0.pull("br0")
            },
            plug: {
                try $0.plug("eth0")
                try $0.plug("br0")
            }),
        // Its flags stay up when its parent is shut down.
        Uplink(
            name: "mac0", loss: "eth0 is shut down", lateReason: .adminDown,
            add: { kernel in
                let parent = try kernel.addLink("eth0")
                try kernel.addLink("mac0", kind: .virtual)
                try kernel.setUnderlay("mac0", .device(parent), linkKind: "macvlan")
            }, pull: { try $0.setUp("eth0", false) }, plug: { try $0.setUp("eth0", true) }),
        // In a container, whose namespace has no hardware.
        Uplink(
            name: "veth0", loss: "veth0 has no carrier", lateReason: nil,
            add: {
                try $0.addLink("veth0", kind: .virtual)
                try $0.setUnderlay("veth0", linkKind: "veth")
            }, pull: { try $0.pull("veth0") }, plug: { try $0.plug("veth0") }),
        Uplink(
            name: "tap0", loss: "tap0 has no carrier", lateReason: nil,
            add: { try $0.addLink("tap0", kind: .tunnel, isPointToPoint: false) }, pull: { try $0.pull("tap0") },
            plug: { try $0.plug("tap0") }),
    ]

    @Sendable private static func addPPP(_ kernel: inout SimulatedKernel) throws {
        try kernel.addLink("ppp0", kind: .tunnel)
        try kernel.setUnderlay("ppp0", linkKind: "ppp")
    }

    // MARK: - Layouts

    private static func addTunnel(_ name: String, _ network: SimulatedNetwork) throws {
        try network.addLink(name, kind: .tunnel)
        try network.addAddress(name, "10.8.0.2/24")
    }

    /// Adds the rules of WireGuard's programs: its own packets have a mark, and take the main table.
    private static func addRules(_ network: SimulatedNetwork, mark: UInt32, table: UInt32, priority: UInt32) throws {
        for family in IPAddress.Family.allCases {
            var main = SimulatedKernel.Rule(priority: priority, family: family, .lookup(table: 254))
            main.suppressedLength = 0
            var own = SimulatedKernel.Rule(priority: priority + 1, family: family, mark: mark, .lookup(table: table))
            own.isInverted = true
            // The tunnel's table first, so that nothing is without a way meanwhile.
            try network.addRule(own)
            try network.addRule(main)
        }
    }

    private static func connectWireGuard(
        _ network: SimulatedNetwork, mark: UInt32 = 0xca6c, table: UInt32 = 51820, priority: UInt32 = 32764
    ) throws {
        try addTunnel("wg0", network)
        try network.addRoute(to: "default", dev: "wg0", table: table)
        try addRules(network, mark: mark, table: table, priority: priority)
    }

    /// Adds tailscale's interface and its rules (fwmark 0x80000 for its own packets), whose table has the routes to peers.
    private static func connectTailscale(_ network: SimulatedNetwork, routes: [String]) throws {
        try network.addLink("tailscale0", kind: .tunnel)
        try network.addAddress("tailscale0", "100.100.1.2/32")
        for route in routes { try network.addRoute(to: route, dev: "tailscale0", table: 52) }
        for family in IPAddress.Family.allCases {
            let marked: [(UInt32, SimulatedKernel.Rule.Action)] = [
                (5210, .lookup(table: 254)), (5230, .lookup(table: 253)), (5250, .unreachable),
            ]
            for (priority, action) in marked {
                try network.addRule(.init(priority: priority, family: family, mark: 0x80000, action))
            }
            try network.addRule(.init(priority: 5270, family: family, .lookup(table: 52)))
        }
    }

    /// Replaces the default route in one batch; OpenVPN leaves a moment without one.
    private static func replaceDefault(_ network: SimulatedNetwork, _ uplink: Uplink) throws {
        try network.batch { kernel in
            try kernel.removeRoute(to: "default", via: uplink.gateway, dev: uplink.name)
            try kernel.addRoute(to: "default", via: "10.8.0.1", dev: "tun0")
        }
    }

    private static func split(_ network: SimulatedNetwork) throws {
        try network.addRoute(to: "0.0.0.0/1", via: "10.8.0.1", dev: "tun0")
        try network.addRoute(to: "128.0.0.0/1", via: "10.8.0.1", dev: "tun0")
    }

    private static let peer = Scope.address(ip("100.64.1.5"))

    static let layouts = [
        Layout(name: "OpenVPN, redirect-gateway def1", tunnel: "tun0", hasHostRoute: true) { network, uplink in
            try addTunnel("tun0", network)
            try uplink.addHostRoute(network)
            try split(network)
        },
        Layout(name: "OpenVPN, redirect-gateway", tunnel: "tun0", hasHostRoute: true) { network, uplink in
            try addTunnel("tun0", network)
            try uplink.addHostRoute(network)
            try replaceDefault(network, uplink)
        },
        Layout(name: "OpenVPN under NetworkManager", tunnel: "tun0", hasHostRoute: true) { network, uplink in
            try addTunnel("tun0", network)
            try uplink.addHostRoute(network)
            try network.addRoute(to: "default", via: "10.8.0.1", dev: "tun0", metric: 50)
        },
        Layout(name: "a server on the own LAN", tunnel: "tun0") { network, uplink in
            try addTunnel("tun0", network)
            try replaceDefault(network, uplink)
        },
        Layout(name: "WireGuard under NetworkManager", tunnel: "wg0") { network, uplink in
            try connectWireGuard(network, mark: 0xcb51, table: 52049, priority: 31_489)
        },
        Layout(name: "wg-quick", tunnel: "wg0") { network, uplink in try connectWireGuard(network) },
        Layout(name: "wg-quick with both families", tunnel: "wg0") { network, uplink in
            try connectWireGuard(network)
            try network.addAddress("wg0", "fd00:8::2/64", skipsDetection: true)
            try network.addRoute(to: "::/0", dev: "wg0", table: 51820)
        },
        Layout(name: "WireGuard under networkd", tunnel: "wg0") { network, uplink in
            try connectWireGuard(network, mark: 0x8888, table: 1000, priority: 9)
        },
        Layout(name: "split tunnel", tunnel: "wg0", scope: .address(ip("10.1.2.3"))) { network, uplink in
            try addTunnel("wg0", network)
            try network.addRoute(to: "10.0.0.0/8", dev: "wg0")
        },
        Layout(name: "tailscale beside a full tunnel", tunnel: "wg0") { network, uplink in
            try connectTailscale(network, routes: ["100.64.1.5", "100.100.100.100"])
            try connectWireGuard(network)
        },
        Layout(name: "a peer of tailscale beside a full tunnel", tunnel: "tailscale0", scope: peer) { network, uplink in
            try connectTailscale(network, routes: ["100.64.1.5", "100.100.100.100"])
            try connectWireGuard(network)
        },
        Layout(name: "tailscale with an exit node", tunnel: "tailscale0") { network, uplink in
            if uplink.gateway != nil { try network.addRoute(to: "192.0.2.0/24", type: .throw, table: 52) }
            try connectTailscale(network, routes: ["100.64.1.5", "100.100.100.100", "default"])
        },
        Layout(name: "a full routing table beside a tunnel", tunnel: "tun0", hasHostRoute: true) { network, uplink in
            try network.changeSilently { kernel in
                for block in 0..<250 { try kernel.addRoute(to: "198.18.\(block).0/24", via: uplink.gateway, dev: uplink.name) }
            }
            try addTunnel("tun0", network)
            try uplink.addHostRoute(network)
            try split(network)
        },
    ]

    // MARK: - The cable goes and comes back

    private func running(
        _ network: SimulatedNetwork, _ body: (ReachabilityMonitor) async throws -> Void
    ) async throws {
        let monitor = ReachabilityMonitor(network)
        let running = Task { try? await monitor.run() }
        try await network.untilRunning()
        do { try await body(monitor) } catch {
            running.cancel()
            throw error
        }
        running.cancel()
        await running.value
    }

    @Test(arguments: uplinks, layouts) func tunnelFallsAndReturnsWithItsUplink(uplink: Uplink, layout: Layout) async throws {
        for manager in Manager.allCases {
            let network = try uplink.machine()
            try await running(network) { monitor in
                let condition = monitor.condition(for: layout.scope)
                try layout.connect(network, uplink)
                #expect(try monitor.path(to: layout.scope).interface?.name == layout.tunnel)
                #expect(condition.state == .init(isSatisfied: true, epoch: 2), "an outage while the tunnel came up")
                network.clock.advance(by: .seconds(60))
                #expect(condition.state == .init(isSatisfied: true, epoch: 2))

                try network.batch { try uplink.pull(&$0) }
                let words = "\(layout.tunnel) has nothing to stand on: \(uplink.loss)"
                #expect(!condition.state.isSatisfied, "\(manager)")
                #expect(try monitor.path(to: layout.scope).summary == words)
                network.clock.advance(by: .seconds(5))
                try manager.react(to: uplink, in: network)
                #expect(!condition.state.isSatisfied, "\(manager)")
                network.clock.advance(by: .seconds(60))
                #expect(try monitor.path(to: layout.scope).summary == words)
                #expect(condition.state == .init(isSatisfied: false, epoch: 2))

                try network.batch { try uplink.plug(&$0) }
                try manager.restore(uplink, layout, in: network)
                #expect(condition.state == .init(isSatisfied: true, epoch: 3), "\(manager)")
                #expect(try monitor.path(to: layout.scope).interface?.name == layout.tunnel)
            }
            #expect(try ReachabilityMonitor(network).path(to: layout.scope).isSatisfied, "\(manager)")
        }
    }

    /// As `status` and `run` do when they start 15 s after the loss.
    @Test(arguments: uplinks, layouts) func laterMonitorJudgesTheTunnel(uplink: Uplink, layout: Layout) async throws {
        for manager in Manager.allCases {
            let network = try uplink.machine()
            try layout.connect(network, uplink)
            try network.batch { try uplink.pull(&$0) }
            try manager.react(to: uplink, in: network)
            let path = try ReachabilityMonitor(network).path(to: layout.scope)
            #expect(path.offlineReason == uplink.lateReason, "\(manager)")
            try await running(network) { monitor in
                let condition = monitor.condition(for: layout.scope)
                #expect(condition.state.isSatisfied == (uplink.lateReason == nil), "\(manager)")
                network.clock.advance(by: .seconds(60))
                #expect(condition.state.isSatisfied == (uplink.lateReason == nil))
                try network.batch { try uplink.plug(&$0) }
                try manager.restore(uplink, layout, in: network)
                #expect(condition.state == .init(isSatisfied: true, epoch: 1), "\(manager)")
            }
        }
    }

    // MARK: - Changes of ground

    /// From the cable to Wi-Fi to a modem: each is an edge for what goes through the tunnel, and none is an outage.
    @Test(arguments: layouts) func changeOfGroundIsAnEdgeWithoutAnOutage(layout: Layout) async throws {
        let cable = Self.uplinks[0]
        let network = try cable.machine()
        try await running(network) { monitor in
            let condition = monitor.condition(for: layout.scope)
            try layout.connect(network, cable)
            var epoch: UInt64 = 2
            func expectEdge(_ change: () throws -> Void, _ location: SourceLocation = #_sourceLocation) throws {
                try change()
                epoch += 1
                #expect(condition.state == .init(isSatisfied: true, epoch: epoch), sourceLocation: location)
                network.clock.advance(by: .seconds(31))
                #expect(condition.state == .init(isSatisfied: true, epoch: epoch), sourceLocation: location)
            }
            try network.addLink("wlan0", kind: .wireless)
            try expectEdge {
                try network.addAddress("wlan0", "198.51.100.10/24")
                try network.addRoute(to: "default", via: "198.51.100.1", dev: "wlan0", metric: 600)
            }
            try expectEdge {
                try network.pull("eth0")
                try Manager.networkManager.react(to: cable, in: network)
            }
            try network.addLink("wwan0", kind: .cellular, isPointToPoint: true)
            try expectEdge {
                try network.addAddress("wwan0", "10.64.0.2/32")
                try network.addRoute(to: "default", dev: "wwan0", metric: 700)
            }
            try expectEdge { try network.removeLink("wlan0") }
            #expect(try monitor.path(to: layout.scope).interface?.name == layout.tunnel)
            try network.pull("wwan0")
            #expect(!condition.state.isSatisfied)
            try network.plug("eth0")
            try Manager.networkManager.restore(cable, layout, in: network)
            #expect(condition.state == .init(isSatisfied: true, epoch: epoch + 1))
        }
    }

    /// A container holds the device of a VPN without its socket, and an interface to another network.
    @Test func wayToAnotherNetworkIsNoGround() async throws {
        let network = SimulatedNetwork()
        try network.addLink("veth0", kind: .virtual)
        try network.addAddress("veth0", "172.18.0.3/16")
        try network.addRoute(to: "172.30.0.0/16", via: "172.18.0.1", dev: "veth0")
        try Self.addTunnel("wg0", network)
        try network.addRoute(to: "default", dev: "wg0")
        try await running(network) { monitor in
            let other = monitor.condition(for: .address(ip("172.30.0.5")))
            #expect(other.state.isSatisfied && monitor.path.isSatisfied)
            try network.pull("veth0")
            network.clock.advance(by: .seconds(60))
            #expect(!other.state.isSatisfied && monitor.path.isSatisfied)
        }
    }

    /// A change below the ground without an event of its own is found by the evaluations after another event.
    @Test func linksBelowTheGroundAreReadAgain() async throws {
        let uplink = Self.uplinks[4]
        let network = try uplink.machine()
        try await running(network) { monitor in
            try Self.layouts[5].connect(network, uplink)
            network.clock.advance(by: .seconds(1))
            try network.changeSilently { try uplink.pull(&$0) }
            network.announce(.netconf(interface: nil))
            #expect(monitor.path.isSatisfied)
            network.clock.advance(by: .milliseconds(60))
            #expect(monitor.path.summary == "wg0 has nothing to stand on: eth0 is shut down")
        }
    }

    // MARK: - Tunnels that stand alone

    /// Flannel: a VXLAN device without a fixed remote, and the bridge of the pods.
    @Test(arguments: Manager.allCases) func overlayIsNotJudgedByGround(manager: Manager) async throws {
        let cable = Self.uplinks[0]
        let network = try cable.machine()
        try network.addLink("flannel.1", kind: .tunnel, isPointToPoint: false)
        try network.addAddress("flannel.1", "10.244.0.0/32")
        try network.addRoute(to: "10.244.1.0/24", via: "10.244.1.0", dev: "flannel.1")
        try network.addLink("cni0", kind: .virtual)
        try network.addAddress("cni0", "10.244.0.1/24")
        try await running(network) { monitor in
            let pods = ["10.244.1.5", "10.244.0.7"].map { monitor.condition(for: .address(ip($0))) }
            #expect(monitor.path.interface?.name == "eth0" && pods.allSatisfy(\.state.isSatisfied))
            try network.pull("eth0")
            #expect(monitor.path.offlineReason == .noCarrier)
            try manager.react(to: cable, in: network)
            network.clock.advance(by: .seconds(60))
            #expect(!monitor.path.isSatisfied && pods.allSatisfy(\.state.isSatisfied))
            #expect(try !ReachabilityMonitor(network).path(to: .internet).isSatisfied)
            try network.plug("eth0")
            try manager.restore(cable, Self.layouts[3], in: network)
            #expect(monitor.path.isSatisfied && pods.map(\.state.epoch) == [1, 1])
        }
    }

    /// slirp4netns and pasta give a container a tap; other programs a tun.
    @Test(arguments: [false, true]) func onlyDeviceOfAContainerCountsByItself(isTun: Bool) async throws {
        func start(_ network: SimulatedNetwork) throws {
            try network.addLink("dev0", kind: .tunnel, isPointToPoint: isTun)
            try network.addAddress("dev0", "10.0.2.100/24")
            try network.addRoute(to: "default", via: isTun ? nil : "10.0.2.2", dev: "dev0")
        }
        let network = SimulatedNetwork()
        try start(network)
        try await running(network) { monitor in
            #expect(monitor.path.isSatisfied)
            // The program dies, and the device with it; then it starts again.
            try network.pull("dev0")
            #expect(monitor.path.offlineReason == .noCarrier)
            try network.removeLink("dev0")
            network.clock.advance(by: .seconds(10))
            #expect(!monitor.path.isSatisfied)
            try start(network)
            #expect(monitor.condition(for: .internet).state == .init(isSatisfied: true, epoch: 2))
            #expect(try ReachabilityMonitor(network).path(to: .internet).isSatisfied)
        }
    }
}
