internal import Reachability

/// What becomes of routes when the nexthop object that they lead through goes (net/ipv4/nexthop.c).
extension SimulatedKernel {
    /// The groups that a nexthop object is in.
    func groups(with id: UInt32) -> [Nexthop] {
        nexthops.filter { nexthop in
            if case .group(let members) = nexthop.target { members.contains(id) } else { false }
        }
    }

    /// The ways that a route leads.
    func nextHops(of route: Route) -> [NextHop] {
        guard let id = route.nexthop else { return route.nextHops }
        return nextHops(ofNexthop: id)
    }

    private func nextHops(ofNexthop id: UInt32) -> [NextHop] {
        switch nexthops.first(where: { $0.id == id })?.target {
        case .nextHop(let nextHop): [nextHop]
        case .group(let members): members.flatMap(nextHops(ofNexthop:))
        case .blackhole, nil: []
        }
    }

    /// Whether a route leads into a nexthop object that refuses.
    func isBlackhole(_ route: Route) -> Bool {
        nexthops.contains { $0.id == route.nexthop && $0.target == .blackhole }
    }

    /// Removes the objects that lead through a link which goes down or loses its carrier.
    ///
    /// No object is announced, but their IPv6 routes are (remove_nexthop() without a netlink request).
    mutating func dropNexthops(on interface: UInt32) {
        let affected = nexthops.filter { nexthop in
            if case .nextHop(let nextHop) = nexthop.target { nextHop.interface == interface } else { false }
        }
        for nexthop in affected { drop(nexthop, isAnnounced: false) }
    }

    /// Removes an object, the routes through it, and itself from its groups; a group that it leaves empty goes too.
    mutating func drop(_ nexthop: Nexthop, isAnnounced: Bool) {
        let users = routes.filter { $0.nexthop == nexthop.id }
        let changes = users.filter { $0.family == .ipv6 }.map { change(of: $0, isRemoval: true) }
        routes.removeAll { $0.nexthop == nexthop.id }
        let groups = groups(with: nexthop.id)
        nexthops.removeAll { $0.id == nexthop.id }
        if isAnnounced { announce(.nexthop(id: nexthop.id, isRemoval: true)) }
        if settings.isNexthopCompatible { for change in changes { announce(.route(change)) } }
        for group in groups {
            guard case .group(let members) = group.target, let place = nexthops.firstIndex(of: group) else { continue }
            let rest = members.filter { $0 != nexthop.id }
            guard !rest.isEmpty else {
                drop(group, isAnnounced: isAnnounced)
                continue
            }
            nexthops[place].target = .group(rest)
            if isAnnounced { announce(.nexthop(id: group.id, isRemoval: false)) }
        }
    }
}
