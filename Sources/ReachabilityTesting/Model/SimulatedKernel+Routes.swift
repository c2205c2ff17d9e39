internal import Reachability

extension SimulatedKernel {
    /// Adds a route to the main table, like `ip route add`.
    ///
    /// It is announced.
    ///
    /// - Parameters:
    ///   - destination: A prefix, an address, or `default`, which is of the family of `via` or `source`, else of IPv4. For an
    ///     IPv4 default through an IPv6 gateway write `0.0.0.0/0`.
    ///   - gateway: The next hop; not checked for being on the link, as with `onlink`.
    ///   - name: The link; may be left out if an address of a link tells where the gateway is.
    ///   - metric: Its rank; by default the kernel's, 0 for IPv4 and 1024 for IPv6, where 0 means 1024 too.
    ///   - type: What it does; only `unicast` takes a gateway and a link.
    ///   - source: The preferred source address, which some link has to hold.
    public mutating func addRoute(
        to destination: String, via gateway: String? = nil, dev name: String? = nil, metric: UInt32? = nil,
        type: RouteType = .unicast, source: String? = nil
    ) throws(SimulationError) {
        let operation = "addRoute(to: \"\(destination)\")"
        let route = try makeRoute(destination, gateway, name, metric, type, source, operation)
        guard !routes.contains(where: { $0.destination == route.destination && $0.metric == route.metric }) else {
            throw SimulationError(operation, "there is one with this metric (EEXIST); give it another, or use replaceRoute")
        }
        routes.append(route)
        announce(.route(route.change(isRemoval: false)))
    }

    /// Adds a route or replaces the one with the same destination and metric, like `ip route replace`.
    ///
    /// The parameters are those of ``addRoute(to:via:dev:metric:type:source:)``. Only the new route is announced.
    public mutating func replaceRoute(
        to destination: String, via gateway: String? = nil, dev name: String? = nil, metric: UInt32? = nil,
        type: RouteType = .unicast, source: String? = nil
    ) throws(SimulationError) {
        let route = try makeRoute(
            destination, gateway, name, metric, type, source, "replaceRoute(to: \"\(destination)\")")
        if let place = routes.firstIndex(where: { $0.destination == route.destination && $0.metric == route.metric }) {
            routes[place] = route
        } else {
            routes.append(route)
        }
        announce(.route(route.change(isRemoval: false)))
    }

    /// Removes the best route that fits, like `ip route del`.
    ///
    /// It is announced.
    ///
    /// The destination is written as for ``addRoute(to:via:dev:metric:type:source:)``; what else is given must fit, too.
    public mutating func removeRoute(
        to destination: String, via gateway: String? = nil, dev name: String? = nil, metric: UInt32? = nil
    ) throws(SimulationError) {
        let operation = "removeRoute(to: \"\(destination)\")"
        let next = try gateway.map { text throws(SimulationError) in try parseAddress(text, for: operation).address }
        let prefix = try parsePrefix(destination, family: next?.family ?? .ipv4, for: operation)
        let interface = try name.map { name throws(SimulationError) in
            links[try position(of: name, for: operation)].interface.index
        }
        let fitting = routes.indices.filter { place in
            let route = routes[place]
            return route.destination == prefix && (next == nil || route.gateway == next)
                && (interface == nil || route.interface == interface) && (metric == nil || route.metric == metric)
        }
        guard let place = fitting.min(by: { routes[$0].metric < routes[$1].metric }) else {
            throw SimulationError(operation, "there is no such route (ESRCH)")
        }
        let route = routes.remove(at: place)
        announce(.route(route.change(isRemoval: true)))
    }

    private func makeRoute(
        _ destination: String, _ gateway: String?, _ name: String?, _ metric: UInt32?, _ type: RouteType, _ source: String?,
        _ operation: String
    ) throws(SimulationError) -> Route {
        let next = try gateway.map { text throws(SimulationError) in try parseAddress(text, for: operation).address }
        let preferred = try source.map { text throws(SimulationError) in try parseAddress(text, for: operation).address }
        let prefix = try parsePrefix(destination, family: next?.family ?? preferred?.family ?? .ipv4, for: operation)
        let family = prefix.address.family
        guard family == .ipv4 || next?.family != .ipv4 else {
            throw SimulationError(operation, "an IPv6 destination cannot have an IPv4 gateway (EINVAL)")
        }
        if let preferred {
            guard preferred.family == family, links.contains(where: { $0.holds(preferred) }) else {
                throw SimulationError(operation, "no link has the source address \(preferred) (EINVAL)")
            }
        }
        guard type == .unicast || (next == nil && name == nil) else {
            throw SimulationError(operation, "a route of type \(type) leads to no gateway and no link (EINVAL)")
        }
        let rank = metric ?? 0
        return Route(
            destination: prefix, type: type, gateway: next,
            interface: type == .unicast ? try outgoing(name, next, operation) : nil,
            metric: family == .ipv6 && rank == 0 ? 1024 : rank, source: preferred, isConnected: false)
    }

    /// The index of the link that a new route leads to.
    private func outgoing(
        _ name: String?, _ gateway: IPAddress?, _ operation: String
    ) throws(SimulationError) -> UInt32 {
        if let name {
            let interface = links[try position(of: name, for: operation)].interface
            guard interface.isUp else { throw SimulationError(operation, "\(name) is down (ENETDOWN)") }
            return interface.index
        }
        let near = gateway.flatMap { gateway in routes.first { $0.isConnected && $0.destination.contains(gateway) } }
        guard let interface = near?.interface else {
            throw SimulationError(operation, "no link's prefix contains the gateway: name the link with dev: (ENETUNREACH)")
        }
        return interface
    }
}

extension SimulatedKernel.Link {
    func holds(_ address: IPAddress) -> Bool { interface.addresses.contains { $0.address == address } }
}
