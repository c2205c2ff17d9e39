internal import Reachability

extension SimulatedKernel {
    /// Removes the best route that fits, like `ip route del`.
    ///
    /// It is announced.
    ///
    /// The destination is written as for ``addRoute(to:via:dev:metric:type:source:table:from:)``; what else is given must fit.
    /// A gateway or a link takes one next hop out of an IPv6 multipath route if it is a gateway, and the whole route otherwise;
    /// those of IPv4 go by their first next hop. A route through a nexthop object fits only if neither is given.
    public mutating func removeRoute(
        to destination: String, via gateway: String? = nil, dev name: String? = nil, metric: UInt32? = nil, table: UInt32 = 254,
        from sources: String? = nil
    ) throws(SimulationError) {
        let operation = "removeRoute(to: \"\(destination)\")"
        let next = try gateway.map { text throws(SimulationError) in try parseAddress(text, for: operation).address }
        let sourcePrefix = try parseSources(sources, for: operation)
        let told = next?.family ?? sourcePrefix?.address.family
        let prefix = try parsePrefix(destination, family: told ?? .ipv4, for: operation)
        let interface = try name.map { name throws(SimulationError) in
            links[try position(of: name, for: operation)].interface.index
        }
        let isMeant = { (nextHop: NextHop) in
            (next == nil || nextHop.gateway == next) && (interface == nil || nextHop.interface == interface)
        }
        let isAnyNextHop = next == nil && interface == nil
        let fitting = routes.indices.filter { place in
            let route = routes[place]
            // IPv4 compares with the first next hop alone (fib_nh_match(), net/ipv4/fib_semantics.c).
            let nextHops = route.family == .ipv4 ? route.nextHops.prefix(1) : route.nextHops[...]
            return route.destination == prefix && route.sourcePrefix == sourcePrefix && route.table == table
                && (metric == nil || route.metric == metric)
                && (isAnyNextHop || nextHops.contains(where: isMeant))
        }
        guard let place = fitting.min(by: { routes[$0].metric < routes[$1].metric }) else {
            throw SimulationError(operation, "there is no such route (ESRCH)")
        }
        if routes[place].family == .ipv6, next != nil, let nextHop = routes[place].nextHops.firstIndex(where: isMeant) {
            announce(.route(change(of: routes[place], nextHop: routes[place].nextHops[nextHop], isRemoval: true)))
            routes[place].nextHops.remove(at: nextHop)
            if routes[place].nextHops.isEmpty { routes.remove(at: place) } else { routes[place] = sharedOut(routes[place]) }
        } else {
            let route = routes.remove(at: place)
            announce(.route(change(of: route, isRemoval: true)))
        }
    }
}
