// Lookups leave open whether packets arrive. An explanation names what may stop them, if there is evidence for it; the verdict
// stays the kernel's.

/// A gateway, or a destination on the link, as the neighbour table knows it (ip-neighbour(8)).
package struct Neighbour: Hashable, Sendable {
    package var interface: UInt32
    package var address: IPAddress

    package init(interface: UInt32, address: IPAddress) { (self.interface, self.address) = (interface, address) }
}

/// An IPsec policy for outgoing packets (ip-xfrm(8)).
package struct PacketPolicy: Equatable, Sendable {
    /// The effect on the packets that it selects.
    package enum Effect: Sendable {
        /// They are sent as they are.
        case none
        /// They are dropped: connect(2) fails with EPERM.
        case blocks
        /// They need a security association, which a key exchange may have to make first.
        case protects
    }

    /// The bits of a number that have to be the same.
    package struct Masked<Number: FixedWidthInteger & Sendable>: Equatable, Sendable {
        package var value: Number
        package var mask: Number

        package init(value: Number, mask: Number) { (self.value, self.mask) = (value, mask) }

        fileprivate func matches(_ number: Number) -> Bool { (number ^ value) & mask == 0 }
    }

    package var source: IPPrefix
    package var destination: IPPrefix
    package var transport: Scope.Transport?
    package var interface: UInt32?
    package var mark = Masked<UInt32>(value: 0, mask: 0)
    /// The destination port.
    package var port = Masked<UInt16>(value: 0, mask: 0)
    package var selectsSourcePort = false
    /// The policy with the lowest number counts.
    package var priority: UInt32 = 0
    package var effect = Effect.protects

    package init(from source: IPPrefix, to destination: IPPrefix) { (self.source, self.destination) = (source, destination) }

    /// Returns true if it surely applies to a query's packets on their route; ports are known only as far as the query tells them.
    fileprivate func applies(to query: RouteQuery, _ route: RouteVerdict.Route) -> Bool {
        guard destination.contains(query.destination), let address = route.source, source.contains(address) else { return false }
        let knowsPorts = !selectsSourcePort && (port.mask == 0 || query.port.map(port.matches) ?? false)
        return knowsPorts && transport.map { $0 == query.transport } ?? true && interface.map { $0 == route.interface } ?? true
            && mark.matches(query.mark ?? 0)
    }
}

/// The questions about the routes of an explanation that the forwarding table does not answer.
package struct OpenQuestions: Equatable, Sendable {
    /// The neighbours that packets are sent to.
    package var neighbours: [Neighbour] = []
    /// The bonds that packets leave through, by index.
    package var bonds: [UInt32] = []
}

/// The kernel's answers to open questions, as far as it gives them to this process.
package struct Evidence: Equatable, Sendable {
    /// The neighbours that did not answer (NUD_FAILED), or not yet (NUD_INCOMPLETE).
    package var silent: Set<Neighbour> = []
    /// The bonds that watch neither the carrier nor ARP targets of their ports, by index.
    package var unmonitoredBonds: Set<UInt32> = []
    package var policies: [PacketPolicy] = []

    package init() {}
}

/// A source that answers the open questions of explanations.
package protocol EvidenceSource: NetworkSource {
    /// Asks the kernel once, and leaves out what it does not tell this process.
    ///
    /// Callable from any thread.
    func evidence(about questions: OpenQuestions) -> Evidence
}

/// Something that may stop packets although the lookups pass.
package struct Caveat: Hashable, Sendable {
    /// The sort of caveat, by its name in JSON.
    package enum Kind: String, Sendable {
        case ipsecPolicy, silentNeighbour, unmonitoredBond, portOfVRF
    }

    package var kind: Kind
    /// The caveat in words; interface names are as the kernel has them.
    package var detail: String
}

extension Explanation {
    /// The number of neighbours that are asked for.
    private static let neighbourLimit = 16

    /// The lookups that decided and pass, with their routes to other machines.
    private var ways: [(lookup: Lookup, route: RouteVerdict.Route)] {
        lookups.compactMap { lookup in
            guard lookup.isDecisive, case .usable = lookup.judgement, case .route(let route) = lookup.verdict, !route.isLocal else {
                return nil
            }
            return (lookup, route)
        }
    }

    private func interface(_ index: UInt32) -> NetworkInterface? { interfaces.first { $0.index == index } }

    /// The questions whose answers complete ``caveats``.
    package var openQuestions: OpenQuestions {
        var questions = OpenQuestions()
        let table = InterfaceTable(interfaces)
        for (lookup, route) in ways {
            for neighbour in lookup.neighbours(of: route) where !questions.neighbours.contains(neighbour) {
                guard let link = interface(neighbour.interface), !link.isPointToPoint, link.kind != .tunnel else { continue }
                if questions.neighbours.count < Self.neighbourLimit { questions.neighbours.append(neighbour) }
            }
            for index in table.stack(of: route.interface) where interface(index)?.linkKind == "bond" {
                if !questions.bonds.contains(index) { questions.bonds.append(index) }
            }
        }
        return questions
    }

    /// The caveats about the routes that packets take, without repetition.
    package var caveats: [Caveat] {
        var caveats: [Caveat] = []
        func add(_ kind: Caveat.Kind, _ detail: String) {
            let caveat = Caveat(kind: kind, detail: detail)
            if !caveats.contains(caveat) { caveats.append(caveat) }
        }
        let table = InterfaceTable(interfaces)
        for (lookup, route) in ways {
            if let policy = policy(for: lookup.query, route) {
                let selection = "from \(policy.source) to \(policy.destination)"
                switch policy.effect {
                case .blocks: add(.ipsecPolicy, "an IPsec policy blocks packets \(selection): connect(2) fails with EPERM")
                case .protects:
                    add(.ipsecPolicy, "an IPsec policy protects packets \(selection): they need an answer of its other end")
                case .none: break
                }
            }
            for neighbour in lookup.neighbours(of: route) where evidence.silent.contains(neighbour) {
                let name = interface(neighbour.interface)?.name ?? "interface \(neighbour.interface)"
                let role = neighbour.address == lookup.query.destination ? "" : "gateway "
                add(.silentNeighbour, "\(role)\(neighbour.address) does not answer on \(name)")
            }
            for index in table.stack(of: route.interface) where evidence.unmonitoredBonds.contains(index) {
                let name = interface(index)?.name ?? "interface \(index)"
                add(
                    .unmonitoredBond,
                    "\(name) does not watch its ports (miimon and arp_interval are 0): a dead one keeps its share")
            }
            if let vrf = foreignVRF(of: lookup.query, route) {
                let name = interface(route.interface)?.name ?? "interface \(route.interface)"
                let transport = lookup.query.transport == .udp ? "udp" : "tcp"
                add(
                    .portOfVRF,
                    "\(name) is a port of the VRF \(vrf): answers reach only sockets that are bound to it, unless "
                        + "net.ipv4.\(transport)_l3mdev_accept is 1")
            }
        }
        return caveats
    }

    /// Returns the policy that the kernel applies to a query's packets, if it is known.
    private func policy(for query: RouteQuery, _ route: RouteVerdict.Route) -> PacketPolicy? {
        evidence.policies.filter { $0.applies(to: query, route) }.min { $0.priority < $1.priority }
    }

    /// Returns the name of the VRF that packets leave through a port of, although their socket is not bound to it.
    private func foreignVRF(of query: RouteQuery, _ route: RouteVerdict.Route) -> String? {
        guard scope.interface == nil, let master = interface(route.interface)?.master.flatMap(interface), master.linkKind == "vrf"
        else { return nil }
        return master.name
    }

    /// The next hops of multipath routes in use that fail.
    package var failingNextHops: [FailingNextHop] {
        var hops: [FailingNextHop] = []
        for (lookup, _) in ways {
            for hop in lookup.failingHops where !hops.contains(hop) { hops.append(hop) }
            guard case .route(let entry) = lookup.match, entry.nextHops.count > 1 else { continue }
            for hop in entry.nextHops where !hop.isDead && !hops.contains(where: { $0.interface.index == hop.interface }) {
                guard let gateway = hop.gateway, let link = interface(hop.interface),
                    evidence.silent.contains(Neighbour(interface: hop.interface, address: gateway))
                else { continue }
                hops.append(
                    FailingNextHop(interface: link.identity, gateway: gateway, family: lookup.query.destination.family))
            }
        }
        return hops
    }
}

extension Explanation.Lookup {
    /// Returns the neighbours that packets may be sent to.
    fileprivate func neighbours(of route: RouteVerdict.Route) -> [Neighbour] {
        var neighbours = [Neighbour(interface: route.interface, address: route.gateway ?? query.destination)]
        guard case .route(let entry) = match else { return neighbours }
        for hop in entry.nextHops where !hop.isDead {
            if let gateway = hop.gateway { neighbours.append(Neighbour(interface: hop.interface, address: gateway)) }
        }
        return neighbours
    }
}

/// A next hop of a multipath route that does not work, although a part of the destinations takes it.
package struct FailingNextHop: Hashable, Sendable {
    package var interface: NetworkInterface.Identity
    package var gateway: IPAddress?
    package var family: IPAddress.Family
    /// The missing layer of the interface, or of what it stands on; `nil` if the gateway does not answer.
    package var reason: OfflineReason?
    /// True if the kernel chooses it only for the destinations that had it before (RTNH_F_DEAD).
    package var isSkipped = false
}
