internal import Glibc
internal import Reachability

extension SimulatedKernel {
    mutating func addRoute(_ route: Route, replacing: Bool) throws(SimulationError) -> [NetworkEvent] {
        if let index = route.interface {
            guard links.contains(where: { $0.index == index && $0.isUp }) else {
                throw SimulationError("the interface of \(route.destination) is down: set it up first")
            }
        }
        let existing = routes.firstIndex { $0.destination == route.destination && $0.metric == route.metric && !$0.isConnected }
        if let existing, !replacing {
            throw SimulationError("a route \(routes[existing].destination) with metric \(route.metric) exists")
        }
        if let existing { routes[existing] = route } else { routes.append(route) }
        return [.route(RouteChange(route.destination, gateway: route.gateway, interface: route.interface))]
    }

    mutating func removeRoute(_ destination: IPPrefix, metric: UInt32?) throws(SimulationError) -> [NetworkEvent] {
        guard let position = routes.firstIndex(where: { $0.destination == destination && (metric == nil || $0.metric == metric) })
        else {
            throw SimulationError("there is no route \(destination)")
        }
        let route = routes.remove(at: position)
        return [.route(RouteChange(destination, gateway: route.gateway, interface: route.interface, isRemoval: true))]
    }

    /// Removes routes with a message for each.
    mutating func removeRoutes(where isRemoved: (Route) -> Bool) -> [NetworkEvent] {
        let removed = routes.filter(isRemoved)
        routes.removeAll(where: isRemoved)
        return removed.map { .route(RouteChange($0.destination, gateway: $0.gateway, interface: $0.interface, isRemoval: true)) }
    }

    /// The forwarding table's answer: longest prefix, then lowest metric, then oldest.
    func lookUp(_ query: RouteQuery) -> RouteVerdict {
        let destination = query.destination
        if let holder = links.first(where: { $0.addresses.contains { $0.address == destination } }),
            query.interface ?? 1 == 1 || holder.isLoopback
        {
            return .route(
                RouteVerdict.Route(
                    interface: 1, source: destination, table: 255, prefixLength: destination.family.bitWidth, isLocal: true))
        }
        let candidates = routes.filter {
            $0.destination.contains(destination)
                && (query.interface == nil || $0.interface == nil || $0.interface == query.interface)
        }
        guard let route = candidates.min(by: { ($1.destination.length, $0.metric) < ($0.destination.length, $1.metric) }) else {
            return .refused(errno: ENETUNREACH)
        }
        switch route.kind {
        case .unreachable: return .refused(errno: EHOSTUNREACH)
        case .prohibit: return .refused(errno: EACCES)
        case .blackhole: return .refused(errno: EINVAL)
        case .unicast: break
        }
        return .route(
            RouteVerdict.Route(
                interface: route.interface ?? 0, gateway: route.gateway,
                source: query.wantsMatch ? route.source : source(route, destination), metric: route.metric,
                prefixLength: query.wantsMatch ? route.destination.length : destination.family.bitWidth))
    }

    /// The source address that a sender would get: the route's own, or an address of the interface on the next hop's link, or its
    /// first.
    ///
    /// While IPv6 has nothing but tentative addresses the kernel answers `::1`.
    private func source(_ route: Route, _ destination: IPAddress) -> IPAddress? {
        if let source = route.source { return source }
        let family = destination.family
        func usable(_ link: NetworkInterface) -> [NetworkInterface.Address] {
            link.addresses.filter {
                $0.address.family == family && (family == .ipv4 || $0.isReady)
                    && (destination.isLinkLocal || !$0.address.isLinkLocal) && !$0.address.isLoopback
            }
        }
        let own = links.first { $0.index == route.interface }.map(usable) ?? []
        let target = route.gateway?.family == family ? route.gateway ?? destination : destination
        let onLink = own.first { IPPrefix($0.address, length: $0.prefixLength).contains(target) }
        if let address = onLink ?? own.first ?? links.lazy.compactMap({ usable($0).first }).first { return address.address }
        return family == .ipv6 ? IPAddress(family: .ipv6, value: 1) : nil
    }
}
