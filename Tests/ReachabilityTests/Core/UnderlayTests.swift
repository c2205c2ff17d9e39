import Glibc
import Reachability
import Testing

/// The parts of the machine that interfaces stand on: lower devices, VRFs, far ends of tunnels, ground, ports of bridges.
@Suite struct UnderlayTests {
    private typealias Answers = (RouteQuery) -> RouteVerdict

    private static let evaluator = PathEvaluator(
        ipv4Representatives: [[ip("198.41.0.4"), ip("193.0.14.129")], [ip("1.1.1.1")]],
        ipv6Representatives: [[ip("2001:503:ba3e::2:30")], [ip("2801:1b8:10::b")]])

    /// Hardware with an address of each family.
    private static func cable(
        _ index: UInt32 = 2, _ name: String = "eth0", isUp: Bool = true, hasCarrier: Bool = true, _ addresses: String...
    ) -> NetworkInterface {
        NetworkInterface(
            index: index, name: name, isUp: isUp, hasCarrier: isUp && hasCarrier,
            addresses: (addresses.isEmpty ? ["192.0.2.10/24"] : addresses).map { held($0) })
    }

    private static func device(
        _ index: UInt32, _ name: String, _ kind: NetworkInterface.Kind, _ underlay: NetworkInterface.Underlay = .none,
        linkKind: String = "", master: UInt32? = nil, hasCarrier: Bool = true, _ addresses: String...
    ) -> NetworkInterface {
        var interface = NetworkInterface(
            index: index, name: name, kind: kind, hasCarrier: hasCarrier, isPointToPoint: kind == .tunnel,
            operationalState: .unknown, addresses: addresses.map { held($0) })
        (interface.underlay, interface.linkKind, interface.master) = (underlay, linkKind, master)
        return interface
    }

    private static let wireGuard = device(9, "wg0", .tunnel, .ground, linkKind: "wireguard", "10.8.0.2/24")

    /// IPv4 goes through an interface, IPv6 nowhere.
    private static func all(through interface: UInt32, from source: String) -> Answers {
        { query in
            query.destination.family == .ipv6
                ? .refused(errno: ENETUNREACH) : .through(query.interface ?? interface, via: nil, from: source)
        }
    }

    /// Judges the internet, and returns the queries.
    private func judge(
        _ interfaces: [NetworkInterface], memory: UnderlayMemory = UnderlayMemory(), ownRoute: UInt32? = nil, _ answers: Answers
    ) throws -> (path: NetworkPath, asked: [RouteQuery], inspected: [[UInt32]]) {
        let table = InterfaceTable([.loopback] + interfaces, memory)
        var batch = LookupBatch()
        batch.append(Self.evaluator.lookups(for: .internet, table) ?? [])
        var (asked, inspected): ([RouteQuery], [[UInt32]]) = ([], [])
        while asked.count < 200 {
            let round = batch.nextRound()
            asked += round
            if !round.isEmpty {
                batch.accept(round.map { .success(answers($0)) }, table)
            } else if let candidates = batch.nextInspection() {
                inspected.append(candidates)
                batch.accept(ownRoute: ownRoute, table)
            } else {
                break
            }
        }
        return (Self.evaluator.path(for: .internet, try batch.decisions(about: 0), table), asked, inspected)
    }

    private func seen(_ ground: NetworkInterface...) -> UnderlayMemory {
        var memory = UnderlayMemory()
        memory.ground = ground.map(\.identity)
        return memory
    }

    // MARK: - Lower devices and VRFs

    @Test(arguments: [(false, false, OfflineReason.adminDown, "is shut down"), (true, false, .noCarrier, "has no carrier")])
    func stackedDeviceFallsWithItsParent(isUp: Bool, hasCarrier: Bool, reason: OfflineReason, words: String) throws {
        let upper = Self.device(5, "eth0.7", .virtual, .device(4), linkKind: "vlan", "192.0.2.20/24")
        let middle = Self.device(4, "mac0", .virtual, .device(2), linkKind: "macvlan")
        let answers = Self.all(through: 5, from: "192.0.2.20")
        #expect(try judge([Self.cable(), middle, upper], answers).path.isSatisfied)
        let (path, _, _) = try judge([Self.cable(isUp: isUp, hasCarrier: hasCarrier), middle, upper], answers)
        #expect(path.offlineReason == reason && path.summary == "eth0.7 stands on eth0, which \(words)")
    }

    @Test func parentElsewhereIsNotJudged() throws {
        let upper = Self.device(5, "mac0", .virtual, .device(77), linkKind: "macvlan", "192.0.2.20/24")
        #expect(try judge([upper], Self.all(through: 5, from: "192.0.2.20")).path.isSatisfied)
    }

    @Test func loopOfParentsEnds() throws {
        let one = Self.device(4, "a", .virtual, .device(5), linkKind: "macvlan", "192.0.2.20/24")
        let two = Self.device(5, "b", .virtual, .device(4), linkKind: "macvlan")
        #expect(try judge([one, two], Self.all(through: 4, from: "192.0.2.20")).path.isSatisfied)
    }

    @Test func portFallsWithItsVRF() throws {
        var (port, vrf) = (Self.cable(), Self.device(8, "red", .virtual, linkKind: "vrf"))
        port.master = 8
        let answers = Self.all(through: 2, from: "192.0.2.10")
        #expect(try judge([port, vrf], answers).path.isSatisfied)
        vrf.isUp = false
        let (path, _, _) = try judge([port, vrf], answers)
        #expect(path.offlineReason == .adminDown && path.summary == "eth0 stands on red, which is shut down")
        // A bridge that is down is no reason: its ports are no way out by themselves.
        vrf.linkKind = "bridge"
        #expect(try judge([port, vrf], answers).path.isSatisfied)
    }

    // MARK: - Far ends of tunnels

    private static func gre(_ remote: String = "203.0.113.9") -> NetworkInterface {
        device(
            7, "gre1", .tunnel,
            .remote(
                .init(
                    address: ip(remote), source: ip("192.0.2.10"), interface: 2, mark: 7, typeOfService: 0x10,
                    transport: Scope.Transport(rawValue: 47))),
            linkKind: "gre", "10.9.0.1/30")
    }

    private func overGRE(_ outer: RouteVerdict) -> Answers {
        { query in
            if query.destination == ip("203.0.113.9") { return outer }
            return query.destination.family == .ipv6 ? .refused(errno: ENETUNREACH) : .through(7, via: nil, from: "10.9.0.1")
        }
    }

    @Test func farEndIsLookedUpLikeTheTunnelDoes() throws {
        let (path, asked, _) = try judge([Self.cable(), Self.gre()], overGRE(.through()))
        #expect(path.isSatisfied && path.ipv4.interface?.name == "gre1")
        var outer = RouteQuery(
            to: ip("203.0.113.9"), interface: 2, mark: 7, source: .address(ip("192.0.2.10")),
            transport: Scope.Transport(rawValue: 47))
        outer.typeOfService = 0x10
        #expect(asked.contains(outer))
        #expect(asked.filter { $0.destination == ip("203.0.113.9") }.allSatisfy { $0 == outer })
    }

    @Test func tunnelOverAPulledCableIsOffline() throws {
        let (path, _, _) = try judge([Self.cable(hasCarrier: false), Self.gre()], overGRE(.through()))
        #expect(path.offlineReason == .noCarrier && path.summary == "gre1 cannot reach 203.0.113.9: eth0 has no carrier")
        let (other, _, _) = try judge([Self.cable(), Self.gre()], overGRE(.refused(errno: ENETUNREACH)))
        #expect(other.offlineReason == .noRoute && other.summary == "gre1 cannot reach 203.0.113.9: no route")
        let (refused, _, _) = try judge([Self.cable(), Self.gre()], overGRE(.refused(errno: EHOSTUNREACH)))
        #expect(refused.offlineReason == .unreachable)
    }

    /// Rules may select by transport: each source is tried with the tunnel's own.
    @Test func sourcesOfOuterPacketsAreTriedWithTheTunnelsTransport() throws {
        let far = ip("2001:db8:f::9")
        let protocol47 = Scope.Transport(rawValue: 47)
        let tunnel = Self.device(
            7, "gre1", .tunnel, .remote(.init(address: far, transport: protocol47)), linkKind: "ip6gre", "10.9.0.1/30")
        let cable = Self.cable(2, "eth0", "2001:db8:1::10/64", "2001:db8:1::20/64")
        let (path, asked, _) = try judge([cable, tunnel]) { query in
            if query.destination != far { return overGRE(.noRoute)(query) }
            return switch query.source {
            case .unspecified: .refused(errno: EHOSTUNREACH)
            case .selected: .refused(errno: EACCES)
            case .address(let source) where query.transport == protocol47: .through(2, via: "fe80::1", from: source.description)
            case .address(let source) where source == ip("2001:db8:1::10"): .through(2, via: "fe80::1", from: source.description)
            // The socket was refused for this one.
            case .address: .refused(errno: EACCES)
            }
        }
        let tried = asked.filter { if case .address = $0.source { $0.destination == far } else { false } }
        // Two groups of destinations are looked up side by side.
        let one = [protocol47, protocol47, .udp, .udp]
        #expect(tried.map(\.transport) == one + one)
        #expect(path.isSatisfied)
    }

    @Test func tunnelsInCirclesEnd() throws {
        // The far end is routed through the tunnel itself.
        let (path, asked, _) = try judge([Self.cable(), Self.gre()], overGRE(.through(7, via: nil, from: "10.9.0.1")))
        #expect(asked.count < 100 && path.status != .unknown)
    }

    // MARK: - Ground

    @Test func hardwareWithCarrierAndAddressIsGround() throws {
        let (path, asked, _) = try judge([Self.cable(), Self.wireGuard], Self.all(through: 9, from: "10.8.0.2"))
        #expect(path.isSatisfied && path.ipv4.ground == [2])
        #expect(asked.allSatisfy { $0.interface == nil }, "no lookup beyond those of the internet")
    }

    @Test func tunnelFallsWithItsLastGround() throws {
        let answers = Self.all(through: 9, from: "10.8.0.2")
        let pulled = Self.cable(hasCarrier: false)
        let (path, _, _) = try judge([pulled, Self.wireGuard], memory: seen(pulled), answers)
        #expect(path.offlineReason == .noCarrier && path.summary == "wg0 has nothing to stand on: eth0 has no carrier")
        let bare = NetworkInterface(index: 2, name: "eth0")
        #expect(try judge([bare, Self.wireGuard], memory: seen(bare), answers).path.offlineReason == .noAddress)
        // Started after the cable went: no hardware has carrier.
        #expect(try judge([pulled, Self.wireGuard], answers).path.offlineReason == .noCarrier)
        // A modem that was unplugged.
        let (gone, _, _) = try judge([Self.wireGuard], memory: seen(Self.cable(3, "wwan0")), answers)
        #expect(gone.summary == "wg0 has nothing to stand on: wwan0 is gone" && !gone.isSatisfied)
        // Another one is ground enough.
        #expect(try judge([pulled, Self.cable(3, "wlan0"), Self.wireGuard], memory: seen(pulled), answers).path.ipv4.ground == [3])
    }

    @Test func tunnelWithoutHardwareCountsByItself() throws {
        let answers = Self.all(through: 9, from: "10.8.0.2")
        #expect(try judge([Self.wireGuard], answers).path.isSatisfied)
        // An idle port beside one with carrier says nothing either, until ground was seen.
        let bare = NetworkInterface(index: 2, name: "eth0")
        #expect(try judge([bare, Self.wireGuard], answers).path.isSatisfied)
    }

    @Test func tunnelsMayStandAlone() throws {
        let pulled = Self.cable(hasCarrier: false)
        var memory = seen(pulled)
        memory.tunnelsStandAlone = true
        #expect(try judge([pulled, Self.wireGuard], memory: memory, Self.all(through: 9, from: "10.8.0.2")).path.isSatisfied)
    }

    @Test func tapCountsByItself() throws {
        let tap = Self.device(9, "tap0", .tunnel, .none, linkKind: "tun", "10.0.2.100/24")
        let (path, _, _) = try judge(
            [Self.cable(hasCarrier: false), tap], memory: seen(Self.cable()), Self.all(through: 9, from: "10.0.2.100"))
        #expect(path.isSatisfied && path.ipv4.ground.isEmpty)
    }

    /// A bridge is ground if it passes by itself, and not by the kernel's guess.
    @Test(arguments: [(UInt32(254), false, true), (0, false, false), (0, true, false)])
    func softwareIsGroundIfItPassesByItself(table: UInt32, isPointToPoint: Bool, isGround: Bool) throws {
        var bridge = Self.device(4, "br0", .virtual, linkKind: "bridge", "192.0.2.10/24")
        bridge.isPointToPoint = isPointToPoint
        let (path, asked, inspected) = try judge([bridge, Self.wireGuard], memory: seen(Self.cable(3, "wwan0"))) { query in
            if query.destination.family == .ipv6 { return .refused(errno: ENETUNREACH) }
            guard query.interface == 4 else { return .through(9, via: nil, from: "10.8.0.2") }
            return .route(.init(interface: 4, source: ip("192.0.2.10"), table: table))
        }
        #expect(asked.contains { $0.interface == 4 } && !asked.contains { $0.interface == 9 })
        #expect(path.isSatisfied == isGround && path.ipv4.ground == (isGround ? [4] : []))
        #expect(inspected.isEmpty == isGround)
    }

    /// OpenVPN's redirect-gateway replaces the default route and leaves one host route to its server.
    @Test func ownRouteMakesGround() throws {
        let bridge = Self.device(4, "ppp0", .virtual, linkKind: "ppp", "192.0.2.10/32")
        let answers: Answers = { query in
            query.interface == nil && query.destination.family == .ipv4
                ? .through(9, via: nil, from: "10.8.0.2") : .refused(errno: ENETUNREACH)
        }
        let pulled = Self.cable(hasCarrier: false)
        let (path, _, inspected) = try judge([pulled, bridge, Self.wireGuard], memory: seen(pulled), ownRoute: 4, answers)
        #expect(path.isSatisfied && path.ipv4.ground == [4] && inspected.first == [4])
        let (lost, _, _) = try judge([pulled, bridge, Self.wireGuard], memory: seen(pulled), answers)
        #expect(lost.offlineReason == .noCarrier && lost.summary == "wg0 has nothing to stand on: eth0 has no carrier")
    }

    /// A server on the link needs no route: ground that was found before stays while it has carrier and an address.
    @Test func groundStaysWithoutItsRoute() throws {
        var bridge = Self.device(4, "br0", .virtual, linkKind: "bridge", "192.0.2.10/24")
        let answers: Answers = { query in
            if query.destination.family == .ipv6 { return .refused(errno: ENETUNREACH) }
            guard query.interface == 4 else { return .through(9, via: nil, from: "10.8.0.2") }
            return .route(.init(interface: 4, source: ip("192.0.2.10"), table: 0))
        }
        let (path, _, inspected) = try judge([bridge, Self.wireGuard], memory: seen(bridge), answers)
        #expect(path.isSatisfied && path.ipv4.ground == [4] && inspected.isEmpty)
        // Another one that passes joins it.
        let other = Self.device(5, "br1", .virtual, linkKind: "bridge", "198.51.100.10/24")
        let (both, _, _) = try judge([bridge, other, Self.wireGuard], memory: seen(bridge)) { query in
            query.interface == 5 && query.destination.family == .ipv4 ? .through(5, from: "198.51.100.10") : answers(query)
        }
        #expect(both.ipv4.ground == [4, 5])
        bridge.addresses = [held("fe80::10/64")]
        let (bare, _, _) = try judge([bridge, Self.wireGuard], memory: seen(bridge), answers)
        #expect(bare.summary == "wg0 has nothing to stand on: br0 has no usable address" && !bare.isSatisfied)
        bridge.hasCarrier = false
        #expect(try judge([bridge, Self.wireGuard], memory: seen(bridge), answers).path.offlineReason == .noCarrier)
        // A tunnel to a known far end is judged by it, and not by its own state.
        let gre = Self.gre()
        let (remote, _, _) = try judge([Self.cable(hasCarrier: false), gre, Self.wireGuard], memory: seen(gre)) { query in
            if query.destination == ip("203.0.113.9") { return .through() }
            return Self.all(through: 9, from: "10.8.0.2")(query)
        }
        #expect(!remote.isSatisfied)
    }

    /// A bridge with the port of a virtual machine keeps its carrier and its routes.
    @Test func bridgeIsNoGroundWithoutTheGatewaysPort() throws {
        var (interfaces, memory) = Self.bridged("eth0", uplink: false)
        interfaces.append(Self.wireGuard)
        memory.ground = [interfaces[0].identity]
        let answers: Answers = { query in
            if query.destination.family == .ipv6 { return .refused(errno: ENETUNREACH) }
            return query.interface == 4 ? .through(4) : .through(9, via: nil, from: "10.8.0.2")
        }
        let (path, _, inspected) = try judge(interfaces, memory: memory, ownRoute: 4, answers)
        #expect(path.summary == "wg0 has nothing to stand on: eth0 has no carrier" && !path.isSatisfied && inspected.isEmpty)
        // Another gateway behind it is a virtual machine.
        memory.ports[BridgedGateway(bridge: 4, interface: 4, gateway: ip("192.0.2.2"))] = interfaces[2].identity
        #expect(try judge(interfaces, memory: memory, ownRoute: 4, answers).path.ipv4.ground == [4])
    }

    @Test func nextHopThatTheKernelLeavesOutDoesNotFail() {
        let table = InterfaceTable([.loopback, Self.cable(hasCarrier: false), Self.cable(3, "wlan0")])
        var hops = [RouteVerdict.Route.NextHop(interface: 2), .init(interface: 3)]
        #expect(table.failure(among: hops) == .noCarrier)
        hops[0].isDead = true
        #expect(table.failure(among: hops) == nil)
    }

    /// Two tunnels are no ground for each other.
    @Test func tunnelIsNoGround() throws {
        let other = Self.device(8, "tun0", .tunnel, .ground, linkKind: "tun", "10.9.0.2/24")
        let pulled = Self.cable(hasCarrier: false)
        let (path, asked, _) = try judge([pulled, other, Self.wireGuard], Self.all(through: 9, from: "10.8.0.2"))
        #expect(!path.isSatisfied && !asked.contains { $0.interface == 8 })
    }

    @Test func changeOfGroundIsAnEdge() {
        func path(on ground: [UInt32]) -> NetworkPath {
            var path = NetworkPath.online("wg0", index: 9)
            path.ipv4.ground = ground
            return path
        }
        let table = InterfaceTable([.loopback, Self.cable(), Self.cable(3, "wlan0"), Self.wireGuard])
        var level = ScopeLevel()
        _ = level.observe(path(on: [2]), table, resumed: false)
        #expect(level.observe(path(on: [2]), table, resumed: false).conditionChanged == false && level.epoch == 1)
        #expect(level.observe(path(on: [2, 3]), table, resumed: false).changedGround && level.epoch == 2)
        #expect(level.observe(path(on: [3]), table, resumed: false).changedGround && level.epoch == 3)
        // Without ground before or after, other rules decide.
        #expect(!level.observe(path(on: []), table, resumed: false).changedGround && level.epoch == 3)
    }

    // MARK: - Bridges

    private static func bridged(
        _ port: String?, uplink: Bool, other: (kind: String, hasCarrier: Bool)? = nil
    ) -> ([NetworkInterface], UnderlayMemory) {
        let bridge = device(4, "br0", .virtual, linkKind: "bridge", "192.0.2.10/24")
        var nic = NetworkInterface(index: 2, name: "eth0", hasCarrier: uplink)
        nic.master = 4
        let guest = device(5, "tap5", .tunnel, linkKind: "tun", master: 4)
        var interfaces = [bridge, nic, guest]
        if let other { interfaces.append(device(6, "x6", .virtual, linkKind: other.kind, master: 4, hasCarrier: other.hasCarrier)) }
        var memory = UnderlayMemory()
        if let port, let known = interfaces.first(where: { $0.name == port }) ?? Optional(NetworkInterface(index: 77, name: port)) {
            memory.ports[BridgedGateway(bridge: 4, interface: 4, gateway: ip("192.0.2.1"))] = known.identity
        }
        return (interfaces, memory)
    }

    private func overBridge(_ scene: ([NetworkInterface], UnderlayMemory)) throws -> NetworkPath {
        try judge(scene.0, memory: scene.1) { query in
            query.destination.family == .ipv6 ? .refused(errno: ENETUNREACH) : .through(4)
        }.path
    }

    @Test func bridgeFallsWithTheGatewaysPort() throws {
        #expect(try overBridge(Self.bridged("eth0", uplink: true)).isSatisfied)
        let path = try overBridge(Self.bridged("eth0", uplink: false))
        #expect(path.offlineReason == .noCarrier && path.summary == "br0 reached 192.0.2.1 by eth0, which has no carrier")
        #expect(try overBridge(Self.bridged("enx7", uplink: true, other: ("veth", true))).isSatisfied, "eth0 has carrier")
        let gone = try overBridge(Self.bridged("enx7", uplink: false))
        #expect(gone.summary == "br0 reached 192.0.2.1 by enx7, which is gone" && !gone.isSatisfied)
    }

    @Test func bridgeStandsWhileItsPortIsUnknownOrAnotherMayDo() throws {
        #expect(try overBridge(Self.bridged(nil, uplink: false)).isSatisfied)
        // A gateway that is a virtual machine.
        #expect(try overBridge(Self.bridged("tap5", uplink: false)).isSatisfied)
        // A second uplink under STP, by which nothing was heard yet.
        #expect(try overBridge(Self.bridged("eth0", uplink: false, other: ("", true))).isSatisfied)
        #expect(try !overBridge(Self.bridged("eth0", uplink: false, other: ("", false))).isSatisfied)
        #expect(try !overBridge(Self.bridged("eth0", uplink: false, other: ("veth", true))).isSatisfied)
    }

    @Test func stackNamesAllThatDecides() {
        var port = Self.cable()
        port.master = 8
        let table = InterfaceTable([
            .loopback, port, Self.device(5, "eth0.7", .virtual, .device(2), linkKind: "vlan"),
            Self.device(8, "red", .virtual, linkKind: "vrf"),
        ])
        #expect(table.stack(of: 5) == [5, 2, 8] && table.stack(of: 2) == [2, 8] && table.stack(of: 99).isEmpty)
    }
}
