// Interfaces stand on others: a VLAN on its parent, a port on its VRF, a tunnel on the way to its far end or on ground, a bridge
// on the port of the gateway. A VLAN's flags stay up when its parent is shut down, and a tunnel's always do: packets that leave
// through them go nowhere.

/// The findings of earlier evaluations below interfaces.
package struct UnderlayMemory: Equatable, Sendable {
    /// True if tunnels count by themselves, whatever they stand on.
    package var tunnelsStandAlone = false
    /// The last ground that was found; empty before the first.
    package var ground: [NetworkInterface.Identity] = []
    /// The ports by which bridges last knew gateways.
    package var ports: [BridgedGateway: NetworkInterface.Identity] = [:]

    package init(tunnelsStandAlone: Bool = false) { self.tunnelsStandAlone = tunnelsStandAlone }
}

/// A gateway behind a bridge.
package struct BridgedGateway: Hashable, Sendable {
    /// The bridge.
    package var bridge: UInt32
    /// The interface that holds the source: the bridge itself, or a VLAN on it.
    package var interface: UInt32
    package var gateway: IPAddress

    package init(bridge: UInt32, interface: UInt32, gateway: IPAddress) {
        (self.bridge, self.interface, self.gateway) = (bridge, interface, gateway)
    }

    package var inspection: Inspection { .port(bridge: bridge, interface: interface, gateway: gateway) }
}

/// The answer that decides about a group of destinations.
package struct Decision: Sendable {
    /// The state of what the egress interface stands on.
    package enum Underlay: Equatable, Sendable {
        /// It carries packets, or there is nothing below.
        case sound
        /// The indices of the interfaces that the egress tunnel stands on.
        case ground([UInt32])
        /// It carries no packets.
        indirect case failed(OfflineReason, NetworkPath.Obstacle)

        var ground: [UInt32] { if case .ground(let indices) = self { indices } else { [] } }
    }

    package var query: RouteQuery
    package var verdict: RouteVerdict
    package var underlay = Underlay.sound
    /// The reason of the next hop that the kernel chose, if another one of the same route decides.
    package var partialReason: OfflineReason?

    package init(query: RouteQuery, verdict: RouteVerdict, underlay: Underlay = .sound, partialReason: OfflineReason? = nil) {
        (self.query, self.verdict, self.underlay, self.partialReason) = (query, verdict, underlay, partialReason)
    }
}

extension InterfaceTable {
    /// The number of stacked devices that are followed; more would be a loop, which the kernel refuses to build.
    private static let depthLimit = 8

    /// Returns the place of the device below an interface, if it is in the table.
    private func place(below place: Int) -> Int? {
        guard case .device(let lower) = all[place].underlay else { return nil }
        return position(of: lower)
    }

    /// Returns the places of an interface and all devices below it, from the top.
    private func places(from index: UInt32) -> [Int] {
        var places: [Int] = []
        var next = position(of: index)
        while let place = next, places.count < Self.depthLimit {
            places.append(place)
            next = self.place(below: place)
        }
        return places
    }

    /// Returns the place of the interface that stops packets out of another one: itself, a device below it or its VRF.
    package func obstacle(at place: Int) -> Int? {
        var place = place
        for _ in 0..<Self.depthLimit {
            guard all[place].isUsable else { return place }
            // A VRF that is down has no routes, but IPv6 addresses of its ports keep their own (net/ipv6/route.c).
            if let master = all[place].master.flatMap(position), all[master].linkKind == "vrf", !all[master].isUp { return master }
            guard let lower = self.place(below: place) else { return nil }
            place = lower
        }
        return nil
    }

    /// Returns the gateway of a route behind a bridge; `nil` for any other route.
    package func bridgedGateway(of interface: UInt32, _ gateway: IPAddress?) -> BridgedGateway? {
        guard let gateway, let bridge = places(from: interface).first(where: { all[$0].linkKind == "bridge" }) else { return nil }
        return BridgedGateway(bridge: all[bridge].index, interface: interface, gateway: gateway)
    }

    /// Returns the reason why a bridge does not reach a gateway any more; `nil` if it may.
    ///
    /// Carrier at the port of a virtual machine keeps the bridge up when the uplink's cable is out. Another port with a cable may
    /// be a second uplink under STP, by which nothing was heard yet.
    func lackOfPort(to bridged: BridgedGateway) -> (OfflineReason, NetworkPath.Obstacle)? {
        guard let port = memory.ports[bridged], let bridge = self[bridged.bridge] else { return nil }
        var reason = OfflineReason.noInterface
        if let interface = self[port.index], interface.master == bridged.bridge {
            if interface.isUp && interface.hasCarrier { return nil }
            reason = interface.isUp ? .noCarrier : .adminDown
        }
        let others = all.filter { $0.master == bridged.bridge && $0.index != port.index && $0.isUp && $0.hasCarrier }
        if others.contains(where: { !["tun", "veth"].contains($0.linkKind) }) { return nil }
        return (reason, .port(bridge: bridge.identity, gateway: bridged.gateway, port, reason))
    }

    /// Returns the reason why no known gateway behind an interface's bridge is reached any more; `nil` if one may, or none is
    /// known.
    private func lackOfPorts(below index: UInt32) -> (OfflineReason, NetworkPath.Obstacle)? {
        let stack = places(from: index).map { all[$0].index }
        var lack: (OfflineReason, NetworkPath.Obstacle)?
        for bridged in memory.ports.keys where stack.contains(bridged.bridge) {
            guard let failure = lackOfPort(to: bridged) else { return nil }
            if lack.map({ $0.0 < failure.0 }) ?? true { lack = failure }
        }
        return lack
    }

    /// Returns the reason of the first next hop that the kernel may choose and that does not work; `nil` if all do.
    package func failure(among nextHops: [RouteVerdict.Route.NextHop]) -> OfflineReason? {
        for hop in nextHops where !hop.isDead {
            if let reason = failure(of: hop) { return reason }
        }
        return nil
    }

    /// Returns the missing layer of a next hop's interface, or of what it stands on; `nil` if none is missing.
    package func failure(of hop: RouteVerdict.Route.NextHop) -> OfflineReason? {
        guard let place = position(of: hop.interface) else { return .noInterface }
        return obstacle(at: place).map { PathEvaluator.layer(of: all[$0], for: nil) }
    }

    /// Returns the interfaces whose state decides about packets out of one: itself, and all below it.
    package func stack(of index: UInt32) -> [UInt32] {
        places(from: index).flatMap { place in
            let vrf = all[place].master.flatMap { self[$0]?.linkKind == "vrf" ? $0 : nil }
            return [all[place].index] + (vrf.map { [$0] } ?? [])
        }
    }

    /// Returns the tunnel that packets out of an interface go through, if it is one or lies on one.
    func tunnel(below index: UInt32) -> NetworkInterface? {
        guard var place = position(of: index) else { return nil }
        for _ in 0..<Self.depthLimit {
            switch all[place].underlay {
            case .none: return nil
            case .remote, .ground: return all[place]
            case .device:
                guard let lower = self.place(below: place) else { return nil }
                place = lower
            }
        }
        return nil
    }

    /// The hardware with carrier and an address of its own: ground without a lookup.
    var groundOfHardware: [UInt32] {
        all.indices.filter { all[$0].kind.isHardware && obstacle(at: $0) == nil && all[$0].hasGroundSource }.map { all[$0].index }
    }

    /// The lookups whose success makes other interfaces ground: those that are no such tunnel, have carrier and an address.
    func groundProbes(_ destinations: [IPAddress]) -> [RouteQuery] {
        var probes: [RouteQuery] = []
        for place in all.indices where !all[place].isLoopback && obstacle(at: place) == nil {
            if case .ground = tunnel(below: all[place].index)?.underlay { continue }
            for destination in destinations where all[place].addresses.contains(where: { $0.isSource(destination.family) }) {
                probes.append(
                    RouteQuery(to: destination, interface: all[place].index, transport: .udp))
            }
        }
        return probes
    }

    /// The ground of earlier evaluations that still has carrier and an address.
    ///
    /// A route that was replaced or removed says nothing: the far end may be on the link.
    var keptGround: [UInt32] {
        memory.ground.map(\.index).filter { index in
            guard let place = position(of: index) else { return false }
            return lack(ofGround: all[place].identity).reason == .noRoute && tunnel(below: index) == nil
        }
    }

    /// Returns true unless an interface is known to lead nowhere, whatever its routes say.
    func mayBeGround(_ index: UInt32) -> Bool { lackOfPorts(below: index) == nil }

    /// Returns the reason why an interface is no ground, and the interface to mend; `noRoute` if it has carrier and an address.
    private func lack(
        ofGround interface: NetworkInterface.Identity
    ) -> (interface: NetworkInterface.Identity, reason: OfflineReason) {
        guard let place = position(of: interface.index) else { return (interface, .noInterface) }
        if let obstacle = obstacle(at: place) { return (all[obstacle].identity, PathEvaluator.layer(of: all[obstacle], for: nil)) }
        if let (reason, obstacle) = lackOfPorts(below: interface.index) { return (obstacle.culprit ?? interface, reason) }
        let layer = PathEvaluator.layer(of: all[place], for: nil)
        return (all[place].identity, layer == .noRoute && !all[place].hasGroundSource ? .noAddress : layer)
    }

    /// Returns the reason why a tunnel has no ground; `nil` if it counts by itself.
    ///
    /// A namespace may hold a tunnel's device without its socket, as containers do: there the tunnel counts by itself until ground
    /// was seen.
    func lackOfGround(of tunnel: NetworkInterface.Identity) -> (OfflineReason, NetworkPath.Obstacle)? {
        let hardware = all.filter(\.kind.isHardware)
        if memory.ground.isEmpty, hardware.isEmpty || hardware.contains(where: \.hasCarrier) { return nil }
        let candidates = memory.ground.isEmpty ? hardware.map(\.identity) : memory.ground
        var last: (interface: NetworkInterface.Identity?, reason: OfflineReason) = (nil, .noInterface)
        for interface in candidates {
            let lack = lack(ofGround: interface)
            if last.interface == nil || lack.reason > last.reason { last = lack }
        }
        return (last.reason, .ground(tunnel: tunnel, last: last.interface, last.reason))
    }
}

extension NetworkInterface {
    /// True if a tunnel's packets may come from an address of this interface.
    fileprivate var hasGroundSource: Bool {
        addresses.contains { held in !held.address.isLinkLocal && IPAddress.Family.allCases.contains { held.isSource($0) } }
    }
}

/// A question about what interfaces stand on that needs more than a route lookup.
package enum Inspection: Hashable, Sendable {
    /// The first of these interfaces that has a default or host route of its own.
    case ownRoute(among: [UInt32])
    /// The port of a bridge that leads to a gateway of an interface: the bridge itself, or a VLAN on it.
    case port(bridge: UInt32, interface: UInt32, gateway: IPAddress)
}

/// A source that tells more about what interfaces stand on.
package protocol UnderlaySource: NetworkSource {
    /// Returns the index of an interface; `nil` if there is none.
    ///
    /// Callable from any thread; takes at most about 50 ms.
    ///
    /// - Throws: ``ReachabilityError`` if there is no answer in time.
    func inspect(_ inspection: Inspection) throws(ReachabilityError) -> UInt32?

    /// Returns those of these links that exist, without addresses.
    ///
    /// Callable from any thread.
    ///
    /// - Throws: ``ReachabilityError`` if there is no answer.
    func links(_ indices: [UInt32]) throws(ReachabilityError) -> [NetworkInterface]

    /// Sets the gateways in use: that one fails or answers is an event.
    func watch(gateways: Set<IPAddress>)
}
