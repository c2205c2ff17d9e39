internal import Reachability

extension SimulatedKernel {
    /// One way of a multipath route that is to be made.
    public struct Hop: Hashable, Sendable {
        /// The next hop; not checked for being on the link, as with `onlink`.
        public var gateway: String?
        /// The link.
        public var name: String

        /// Makes a way through a link.
        public init(via gateway: String? = nil, dev name: String) {
            self.gateway = gateway
            self.name = name
        }
    }

    /// Adds a route, like `ip route add`.
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
    ///   - table: The number of its table, by default main's.
    ///   - sources: The prefix of the sources that it is for, of IPv6 only; by default it is for all.
    public mutating func addRoute(
        to destination: String, via gateway: String? = nil, dev name: String? = nil, metric: UInt32? = nil,
        type: RouteType = .unicast, source: String? = nil, table: UInt32 = 254, from sources: String? = nil
    ) throws(SimulationError) {
        let operation = "addRoute(to: \"\(destination)\")"
        try insert(try makeRoute(destination, gateway, name, metric, type, source, table, sources, operation), operation)
    }

    /// Adds a multipath route, like `ip route add … nexthop … nexthop …`.
    ///
    /// It is announced, by its first next hop. Look-ups tell the first next hop that works; see ``answers(to:)``.
    ///
    /// The parameters are those of ``addRoute(to:via:dev:metric:type:source:table:from:)``, and `hops` the ways it leads, at least
    /// one.
    public mutating func addRoute(
        to destination: String, through hops: [Hop], metric: UInt32? = nil, table: UInt32 = 254
    ) throws(SimulationError) {
        let operation = "addRoute(to: \"\(destination)\")"
        guard let first = hops.first else { throw SimulationError(operation, "a route needs a way to lead (EINVAL)") }
        var route = try makeRoute(destination, first.gateway, first.name, metric, .unicast, nil, table, nil, operation)
        for hop in hops.dropFirst() {
            let other = try makeRoute(destination, hop.gateway, hop.name, metric, .unicast, nil, table, nil, operation)
            guard other.destination == route.destination else {
                throw SimulationError(operation, "all gateways must be of the route's family (EINVAL)")
            }
            // IPv6 takes the same way only once.
            guard route.family == .ipv4 || !other.nextHops.contains(where: route.nextHops.contains) else {
                throw SimulationError(operation, "the same way is named twice (EEXIST)")
            }
            route.nextHops += other.nextHops
        }
        try insert(route, operation)
    }

    /// Adds a route through a nexthop object, like `ip route add … nhid …`.
    ///
    /// It is announced.
    ///
    /// The parameters are those of ``addRoute(to:via:dev:metric:type:source:table:from:)``, and `id` the object's number;
    /// `default` is of the object's family.
    public mutating func addRoute(
        to destination: String, nexthop id: UInt32, metric: UInt32? = nil, table: UInt32 = 254
    ) throws(SimulationError) {
        let operation = "addRoute(to: \"\(destination)\", nexthop: \(id))"
        let family = try nexthop(id, for: operation).family
        let prefix = try parsePrefix(destination, family: family, for: operation)
        guard prefix.address.family == .ipv4 || family == .ipv6 else {
            throw SimulationError(operation, "an IPv6 route cannot use an IPv4 nexthop object (EINVAL)")
        }
        var route = Route(destination: prefix, table: table, type: .unicast, metric: rank(metric, of: prefix))
        route.nexthop = id
        try insert(route, operation)
    }

    /// Adds a route or replaces the one with the same destination, table and metric, like `ip route replace`.
    ///
    /// The parameters are those of ``addRoute(to:via:dev:metric:type:source:table:from:)``. Only the new route is
    /// announced; an IPv4 route that is there as it is said is not (fib_table_insert(), net/ipv4/fib_trie.c).
    public mutating func replaceRoute(
        to destination: String, via gateway: String? = nil, dev name: String? = nil, metric: UInt32? = nil,
        type: RouteType = .unicast, source: String? = nil, table: UInt32 = 254, from sources: String? = nil
    ) throws(SimulationError) {
        let route = try makeRoute(
            destination, gateway, name, metric, type, source, table, sources, "replaceRoute(to: \"\(destination)\")")
        if let place = routes.firstIndex(where: { $0.hasKey(of: route) }) {
            guard route.family == .ipv6 || !routes[place].isSame(as: route) else { return }
            routes[place] = route
        } else {
            routes.append(route)
        }
        announce(.route(change(of: route, isRemoval: false)))
    }

    private mutating func insert(_ route: Route, _ operation: String) throws(SimulationError) {
        guard !routes.contains(where: { $0.hasKey(of: route) }) else {
            throw SimulationError(operation, "there is one with this metric (EEXIST); give it another, or use replaceRoute")
        }
        routes.append(sharedOut(route))
        announce(.route(change(of: route, isRemoval: false)))
    }

    private func makeRoute(
        _ destination: String, _ gateway: String?, _ name: String?, _ metric: UInt32?, _ type: RouteType, _ source: String?,
        _ table: UInt32, _ sources: String?, _ operation: String
    ) throws(SimulationError) -> Route {
        let next = try gateway.map { text throws(SimulationError) in try parseAddress(text, for: operation).address }
        let preferred = try source.map { text throws(SimulationError) in try parseAddress(text, for: operation).address }
        let sourcePrefix = try parseSources(sources, for: operation)
        let told = next?.family ?? preferred?.family ?? sourcePrefix?.address.family
        let prefix = try parsePrefix(destination, family: told ?? .ipv4, for: operation)
        let family = prefix.address.family
        guard family == .ipv6 || sourcePrefix == nil else {
            throw SimulationError(operation, "only IPv6 routes select by source: use a rule (EINVAL)")
        }
        guard family == .ipv4 || next?.family != .ipv4 else {
            throw SimulationError(operation, "an IPv6 destination cannot have an IPv4 gateway (EINVAL)")
        }
        if let preferred {
            guard preferred.family == family, links.contains(where: { $0.canPrefer(preferred) }) else {
                throw SimulationError(operation, "no link has the source address \(preferred) ready (EINVAL)")
            }
        }
        guard type == .unicast || (next == nil && name == nil) else {
            throw SimulationError(operation, "a route of type \(type) leads to no gateway and no link (EINVAL)")
        }
        guard table != 0, table != Rule.localTable else {
            throw SimulationError(operation, "table \(table) is the kernel's own: choose another")
        }
        return Route(
            destination: prefix, sourcePrefix: sourcePrefix, table: table, type: type,
            nextHops: type == .unicast ? [NextHop(next, try outgoing(name, next, family, operation))] : [],
            metric: rank(metric, of: prefix), source: preferred)
    }

    /// Reads the prefix of a route's sources; `nil` if it is for all.
    func parseSources(_ text: String?, for operation: String) throws(SimulationError) -> IPPrefix? {
        guard let text else { return nil }
        let prefix = try parsePrefix(text, family: .ipv6, for: operation)
        guard prefix.address.family == .ipv6 else {
            throw SimulationError(operation, "only IPv6 routes select by source: use a rule (EINVAL)")
        }
        return prefix.length == 0 ? nil : prefix
    }

    private func rank(_ metric: UInt32?, of prefix: IPPrefix) -> UInt32 {
        let metric = metric ?? 0
        return prefix.address.family == .ipv6 && metric == 0 ? 1024 : metric
    }

    /// The index of the link that a new route leads to.
    private func outgoing(
        _ name: String?, _ gateway: IPAddress?, _ family: IPAddress.Family, _ operation: String
    ) throws(SimulationError) -> UInt32 {
        if let name {
            let link = links[try position(of: name, for: operation)]
            guard link.interface.isUp else { throw SimulationError(operation, "\(name) is down (ENETDOWN)") }
            guard family == .ipv4 || !link.isIPv6Disabled else {
                throw SimulationError(operation, "IPv6 is disabled on \(name) (EACCES)")
            }
            return link.interface.index
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

    /// Whether a route may prefer the address as its source: ipv6_chk_addr() knows no tentative one.
    fileprivate func canPrefer(_ address: IPAddress) -> Bool {
        interface.addresses.contains { $0.address == address && !$0.isTentative }
    }
}
