internal import Reachability

extension SimulatedKernel {
    /// Removes the best route that fits, like `ip route del`.
    ///
    /// It is announced.
    ///
    /// The destination is written as for ``addRoute(to:via:dev:metric:type:source:table:from:)``; what else is given must fit.
    /// A gateway or a link takes one leg out of an IPv6 multipath route if it is a gateway, and the whole route otherwise; those of
    /// IPv4 go by their first leg. A route through a nexthop object fits only if neither is given.
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
        let isMeant = { (leg: Leg) in (next == nil || leg.gateway == next) && (interface == nil || leg.interface == interface) }
        let isAnyLeg = next == nil && interface == nil
        let fitting = routes.indices.filter { place in
            let route = routes[place]
            // IPv4 compares with the first leg alone (fib_nh_match(), net/ipv4/fib_semantics.c).
            let legs = route.family == .ipv4 ? route.legs.prefix(1) : route.legs[...]
            return route.destination == prefix && route.sourcePrefix == sourcePrefix && route.table == table
                && (metric == nil || route.metric == metric)
                && (isAnyLeg || legs.contains(where: isMeant))
        }
        guard let place = fitting.min(by: { routes[$0].metric < routes[$1].metric }) else {
            throw SimulationError(operation, "there is no such route (ESRCH)")
        }
        if routes[place].family == .ipv6, next != nil, let leg = routes[place].legs.firstIndex(where: isMeant) {
            announce(.route(change(of: routes[place], leg: routes[place].legs[leg], isRemoval: true)))
            routes[place].legs.remove(at: leg)
            if routes[place].legs.isEmpty { routes.remove(at: place) } else { routes[place] = sharedOut(routes[place]) }
        } else {
            let route = routes.remove(at: place)
            announce(.route(change(of: route, isRemoval: true)))
        }
    }
}
