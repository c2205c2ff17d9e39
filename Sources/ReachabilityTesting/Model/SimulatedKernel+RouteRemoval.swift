internal import Reachability

/// How routes go and come back with the link that they lead through.
extension SimulatedKernel {
    /// Takes IPv4 routes through a link out of service, in silence (fib_sync_down_dev(), net/ipv4/fib_semantics.c).
    ///
    /// A multipath route goes on with its other next hops, unless the link is being removed.
    mutating func dropRoutes4(on interface: UInt32, isRemoved: Bool = false) {
        for place in routes.indices.reversed() where routes[place].family == .ipv4 && routes[place].uses(interface) {
            for nextHop in routes[place].nextHops.indices where routes[place].nextHops[nextHop].interface == interface {
                routes[place].nextHops[nextHop].isDead = true
            }
            if isRemoved || routes[place].nextHops.allSatisfy(\.isDead) { routes.remove(at: place) }
        }
        shareOut(.ipv4, on: interface)
    }

    /// Takes IPv6 routes through a link out of service (fib6_ifdown(), net/ipv6/route.c); with the loopback device also those that
    /// refuse, which hang on it.
    ///
    /// Those that go are announced, next hop by next hop, unless `skip_notify_on_dev_down` is set; that a multipath route goes on
    /// with its other next hops is not.
    mutating func dropRoutes6(on interface: UInt32) {
        for place in routes.indices where routes[place].family == .ipv6 {
            for nextHop in routes[place].nextHops.indices where routes[place].nextHops[nextHop].interface == interface {
                routes[place].nextHops[nextHop].isDead = true
            }
        }
        let isGone = { (route: Route) in
            guard route.family == .ipv6 else { return false }
            if route.type != .unicast { return interface == Self.loopbackIndex }
            return route.uses(interface) && route.nextHops.allSatisfy(\.isDead)
        }
        if !settings.skipsNotifyOnDeviceDown {
            for route in routes where isGone(route) {
                for nextHop in route.nextHops { announce(.route(change(of: route, nextHop: nextHop, isRemoval: true))) }
                if route.nextHops.isEmpty { announce(.route(change(of: route, isRemoval: true))) }
            }
        }
        routes.removeAll(where: isGone)
        shareOut(.ipv6, on: interface)
    }

    /// Takes away the next hops of IPv6 multipath routes that led through a link which is being removed.
    ///
    /// Each is announced, unless `skip_notify_on_dev_down` is set.
    mutating func dropLegs6(on interface: UInt32) {
        for place in routes.indices where routes[place].family == .ipv6 {
            for nextHop in routes[place].nextHops where nextHop.interface == interface && !settings.skipsNotifyOnDeviceDown {
                announce(.route(change(of: routes[place], nextHop: nextHop, isRemoval: true)))
            }
            routes[place].nextHops.removeAll { $0.interface == interface }
            shareOut(place)
        }
    }

    /// Takes the next hops through a link into service again, in silence (fib_sync_up(), rt6_sync_up()).
    mutating func revive(_ family: IPAddress.Family, on interface: UInt32) {
        for place in routes.indices where routes[place].family == family {
            for nextHop in routes[place].nextHops.indices where routes[place].nextHops[nextHop].interface == interface {
                routes[place].nextHops[nextHop].isDead = false
            }
        }
        shareOut(family, on: interface)
    }

    /// Gives out the shares of a family's multipath routes that lead through a link (fib_rebalance(), rt6_multipath_rebalance()).
    mutating func shareOut(_ family: IPAddress.Family, on interface: UInt32) {
        for place in routes.indices where routes[place].family == family && routes[place].uses(interface) { shareOut(place) }
    }

    func sharedOut(_ route: Route) -> Route {
        let ignoresLinkDown = route.family == .ipv4 ? settings.ignoresIPv4LinkDown : settings.ignoresIPv6LinkDown
        var route = route
        for nextHop in route.nextHops.indices {
            let hasCarrier = link(at: route.nextHops[nextHop].interface)?.interface.hasCarrier ?? false
            route.nextHops[nextHop].hasShare = !route.nextHops[nextHop].isDead && (hasCarrier || !ignoresLinkDown)
        }
        return route
    }

    private mutating func shareOut(_ place: Int) { routes[place] = sharedOut(routes[place]) }
}
