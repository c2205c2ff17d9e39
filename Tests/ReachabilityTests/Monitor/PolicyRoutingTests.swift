import Reachability
import ReachabilityTesting
import Testing

/// Rules and routes that select by source, as in the second lookup of connect(2).
@Suite(.timeLimit(.minutes(10))) struct PolicyRoutingTests {
    private typealias Rule = SimulatedKernel.Rule

    /// Runs a body with a raw listener; losses are not held back.
    private func listening(
        hasIPv6: Bool = false, _ body: (ReachabilityMonitor, SimulatedNetwork, inout Listener) async throws -> Void
    ) async throws {
        let network = SimulatedNetwork.online(clock: ManualClock(), hasIPv6: hasIPv6)
        let monitor = ReachabilityMonitor(network)
        let running = Task { try? await monitor.run() }
        var listener = try await Listener(monitor.transitions(to: .internet, raw: true))
        try await body(monitor, network, &listener)
        running.cancel()
        await running.value
    }

    private static func fromCable(_ action: Rule.Action) -> Rule {
        Rule(priority: 100, from: prefix("192.0.2.10/32"), action)
    }

    /// A second cable with an address of its own.
    private func addSecondCable(_ network: SimulatedNetwork) throws {
        try network.addLink("eth1")
        try network.addAddress("eth1", "198.51.100.10/24")
    }

    @Test func refusingSourceRuleIsUnreachable() async throws {
        try await listening { monitor, network, listener in
            try network.addRoute(to: "default", type: .unreachable, table: 100)
            #expect(monitor.path.isSatisfied)
            try network.addRule(Self.fromCable(.lookup(table: 100)))
            let loss = try await listener.next()
            #expect(loss.kinds == .offline && loss.current.offlineReason == .unreachable && loss.cause.kind == .ruleChanged)
            #expect(try monitor.path(to: .internet).offlineReason == .unreachable)
            try network.removeRule(priority: 100)
            #expect(try await listener.next().kinds == .online)
            #expect(monitor.health.missedByEvents == 0)
        }
    }

    @Test(arguments: [(Rule.Action.prohibit, OfflineReason.prohibited), (.blackhole, .blackhole), (.unreachable, .noRoute)])
    func aRuleFromTheSourceRefusesInItsWay(action: SimulatedKernel.Rule.Action, reason: OfflineReason) async throws {
        try await listening { monitor, network, listener in
            try network.addRule(Self.fromCable(action))
            #expect(try await listener.next().current.offlineReason == reason)
        }
    }

    @Test func secondLookupsCableIsJudged() async throws {
        try await listening { monitor, network, listener in
            try addSecondCable(network)
            try network.addRoute(to: "default", via: "198.51.100.1", dev: "eth1", table: 100)
            try network.addRule(Self.fromCable(.lookup(table: 100)))
            let moved = try await listener.next()
            #expect(moved.kinds == [.interfaceChanged, .gatewayChanged] && moved.current.interface?.name == "eth1")
            #expect(moved.current.ipv4.source == ip("192.0.2.10") && moved.current.ipv4.table == 100)
            try network.pull("eth1")
            let lost = try await listener.next()
            #expect(lost.kinds == .offline && lost.current.offlineReason == .noCarrier)
            try network.plug("eth1")
            #expect(try await listener.next().kinds == .online)
            // The cable that the first lookup names carries nothing.
            try network.pull("eth0")
            #expect(monitor.path.isSatisfied)
        }
    }

    @Test func ruleOfAnotherSourceChangesNothing() async throws {
        try await listening { monitor, network, listener in
            try network.addRule(Rule(priority: 100, from: prefix("192.0.2.11/32"), .prohibit))
            #expect(monitor.path.isSatisfied)
            // Until the kernel chooses that source.
            try network.addAddress("eth0", "192.0.2.11/24")
            try network.replaceRoute(to: "default", via: "192.0.2.1", dev: "eth0", source: "192.0.2.11")
            let lost = try await listener.next()
            #expect(lost.kinds == .offline && lost.current.offlineReason == .prohibited)
            try network.removeAddress("eth0", "192.0.2.11/24")
            #expect(try await listener.next().current.offlineReason == .noRoute, "the route went with its source")
            try network.addRoute(to: "default", via: "192.0.2.1", dev: "eth0")
            #expect(try await listener.next().current.ipv4.source == ip("192.0.2.10"))
        }
    }

    @Test func anIPv6DefaultForOnePrefixSatisfies() async throws {
        try await listening(hasIPv6: true) { monitor, network, listener in
            try network.removeRoute(to: "default")
            #expect(try await listener.next().kinds == .familyLost)
            try network.removeRoute(to: "::/0")
            #expect(try await listener.next().kinds == .offline)
            try network.addRoute(to: "default", via: "fe80::1", dev: "eth0", from: "2001:db8::/64")
            let gained = try await listener.next()
            #expect(gained.kinds == .online && gained.cause.kind == .routeAdded)
            #expect(gained.current.ipv6.source == ip("2001:db8::10") && gained.current.ipv6.gateway == ip("fe80::1"))
            #expect(gained.current.ipv6.prefixLength == 0 && gained.current.ipv6.metric == 1024)
            #expect(try monitor.path(to: .internet).supportsIPv6)
            try network.pull("eth0")
            #expect(try await listener.next().current.offlineReason == .noCarrier)
        }
    }

    @Test func sourcesComeAndGo() async throws {
        try await listening(hasIPv6: true) { monitor, network, listener in
            try network.removeRoute(to: "default")
            _ = try await listener.next()
            try network.removeRoute(to: "::/0")
            #expect(try await listener.next().kinds == .offline)
            try network.addRoute(to: "default", via: "fe80::1", dev: "eth0", from: "2001:db8:1::/64")
            #expect(!monitor.path.isSatisfied)
            // An address of the prefix, which is the newest and so the source.
            try network.addAddress("eth0", "2001:db8:1::10/64")
            let gained = try await listener.next()
            #expect(gained.kinds == .online && gained.current.ipv6.source == ip("2001:db8:1::10"))
            try network.removeAddress("eth0", "2001:db8:1::10/64")
            #expect(try await listener.next().kinds == .offline)
            try network.addAddress("eth0", "2001:db8:1::11/64", isTentative: true)
            #expect(!monitor.path.isSatisfied)
            try network.finishDetection(of: "2001:db8:1::11", on: "eth0")
            #expect(try await listener.next().current.ipv6.source == ip("2001:db8:1::11"))
            #expect(monitor.health.missedByEvents == 0)
        }
    }

    @Test func transportAndPortSelectRules() async throws {
        try await listening { monitor, network, listener in
            var datagrams = Scope.address(ip("203.0.113.1"))
            (datagrams.transport, datagrams.port) = (.udp, 53)
            var web = Scope.address(ip("203.0.113.1"))
            web.port = 443
            let conditions = [datagrams, web, .address(ip("203.0.113.1"))].map { monitor.condition(for: $0) }
            try network.addRule(Rule(priority: 10, transport: .udp, .prohibit))
            #expect(conditions.map(\.state.isSatisfied) == [false, true, true] && monitor.path.isSatisfied)
            try network.addRule(Rule(priority: 11, ports: 400...500, .blackhole))
            #expect(conditions.map(\.state.isSatisfied) == [false, false, true] && monitor.path.isSatisfied)
            #expect(try monitor.path(to: datagrams).offlineReason == .prohibited)
            #expect(try monitor.path(to: web).offlineReason == .blackhole)
        }
    }

    @Test func boundSocketOnATunnelNeedsNoRoute() async throws {
        try await listening { monitor, network, listener in
            try network.addLink("tun0", kind: .tunnel)
            try network.addAddress("tun0", "10.8.0.2/24")
            try network.addLink("eth1")
            try network.addAddress("eth1", "198.51.100.10/24")
            var scope = Scope.internet
            scope.interface = "tun0"
            #expect(try monitor.path(to: scope).isSatisfied)
            scope.interface = "eth1"
            #expect(try monitor.path(to: scope).offlineReason == .noRoute)
            scope.interface = "lo"
            #expect(try monitor.path(to: scope).offlineReason == .noInterface)
            scope.interface = "eth9"
            #expect(try monitor.path(to: scope).offlineReason == .noInterface)
        }
    }

    @Test(arguments: ["0.0.0.0", "::"]) func unspecifiedAddressIsThisHost(address: String) async throws {
        try await listening { monitor, network, listener in
            let condition = monitor.condition(for: .address(ip(address)))
            #expect(condition.state.isSatisfied)
            try network.removeLink("eth0")
            #expect(condition.state.isSatisfied && condition.state.epoch == 1 && !monitor.path.isSatisfied)
        }
    }

    @Test func bridgeDoesNotHideThePulledCable() async throws {
        try await listening { monitor, network, listener in
            try network.addLink("docker0", kind: .virtual)
            try network.addAddress("docker0", "172.17.0.1/16")
            try network.pull("eth0")
            #expect(try await listener.next().current.offlineReason == .noCarrier)
            #expect(monitor.missing(for: .internet) == "eth0 has no carrier (noCarrier)")
        }
    }
}
