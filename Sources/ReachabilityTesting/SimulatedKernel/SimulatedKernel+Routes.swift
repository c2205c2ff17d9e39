public import Reachability

extension SimulatedKernel {
    /// The type of a route (RTN_*, rtnetlink(7)).
    public enum RouteType: String, Hashable, Sendable, CaseIterable {
        /// Forwards packets.
        case unicast
        /// Refuses packets with EHOSTUNREACH.
        case unreachable
        /// Refuses packets with EACCES.
        case prohibit
        /// Drops packets; local sockets get EINVAL.
        case blackhole
        /// Ends the search in the table and continues with the next rule; after the last rule, refuses with ENETUNREACH.
        case `throw`
    }

    /// A next hop of a route.
    public struct NextHop: Hashable, Sendable {
        /// The gateway; `nil` if the destination is on the link.
        ///
        /// It may be an IPv6 address for an IPv4 destination (RTA_VIA, RFC 5549).
        public var gateway: IPAddress?
        /// The index of the outgoing interface.
        public var interface: UInt32
        /// True if lookups skip it, because its link is down while another next hop is up (RTNH_F_DEAD).
        public var isDead: Bool
        /// True if lookups may choose it.
        ///
        /// The kernel distributes the traffic when the state of a next hop changes, not when a sysctl does.
        var hasShare = true

        init(_ gateway: IPAddress?, _ interface: UInt32) {
            self.gateway = gateway
            self.interface = interface
            isDead = false
        }
    }

    /// A route.
    public struct Route: Hashable, Sendable {
        /// The number of the main table (RT_TABLE_MAIN).
        public static let mainTable: UInt32 = 254

        /// The destination prefix.
        public var destination: IPPrefix
        /// The prefix of the sources that it is for (`from`, ip-route(8)); `nil` for all sources.
        public var sourcePrefix: IPPrefix?
        /// The number of its table.
        public var table = mainTable
        /// The type.
        public var type: RouteType
        /// The next hops: several for a multipath route, none for a refusing route or a route through a nexthop object.
        public var nextHops: [NextHop] = []
        /// The ID of the nexthop object that it uses.
        public var nexthop: UInt32?
        /// The rank among routes to the same destination; the least value wins.
        public var metric: UInt32
        /// The preferred source address.
        public var source: IPAddress?
        /// True if the kernel made it as the route to an address's prefix.
        public var isConnected = false

        /// The family of the destination.
        public var family: IPAddress.Family { destination.address.family }
        /// The gateway of the first next hop; `nil` if it is on the link.
        public var gateway: IPAddress? { nextHops.first?.gateway }
        /// The interface index of the first next hop.
        public var interface: UInt32? { nextHops.first?.interface }
    }
}

extension SimulatedKernel.Route {
    /// Makes the kernel's route for a new address; `nil` if it makes none.
    init?(connecting address: NetworkInterface.Address, on interface: UInt32) {
        let isIPv4 = address.address.family == .ipv4
        // net/ipv4/fib_frontend.c, fib_add_ifaddr(): no prefix, no route.
        guard !isIPv4 || address.prefixLength < 32 else { return nil }
        self.init(
            destination: IPPrefix(address.address, length: address.prefixLength), type: .unicast, nextHops: [.init(nil, interface)],
            metric: isIPv4 ? 0 : 256, source: isIPv4 ? address.address : nil, isConnected: true)
    }

    /// Returns `true` if the routes have the same key: a new route then replaces the other one.
    fileprivate func hasKey(of other: Self) -> Bool {
        destination == other.destination && sourcePrefix == other.sourcePrefix && metric == other.metric && table == other.table
    }

    /// Returns `true` if the other route was made by the same command.
    fileprivate func isSame(as other: Self) -> Bool {
        let haveSameNextHops = nextHops.elementsEqual(other.nextHops) { $0.gateway == $1.gateway && $0.interface == $1.interface }
        return haveSameNextHops && hasKey(of: other) && type == other.type && nexthop == other.nexthop && source == other.source
            && isConnected == other.isConnected
    }

    fileprivate func uses(_ interface: UInt32) -> Bool { nextHops.contains { $0.interface == interface } }
}

extension SimulatedKernel {
    /// Returns the announcement of a route, by default with its first next hop.
    func change(of route: Route, nextHop: NextHop? = nil, isRemoval: Bool) -> RouteChange {
        // With nexthop_compat_mode=0 only the ID of the nexthop object is announced, not its next hops.
        let isBare = route.nexthop != nil && !sysctls.isNexthopCompatible
        let nextHop = isBare ? nil : nextHop ?? nextHops(of: route).first
        // IPv6 attaches refusing routes to the loopback device, and so do nexthop objects; an IPv4 route names no device.
        let isRefusal = route.type != .unicast && route.family == .ipv6 || isBlackhole(route) && !isBare
        return RouteChange(
            route.destination, gateway: nextHop?.gateway, interface: isRefusal ? SimulatedKernel.loopbackIndex : nextHop?.interface,
            isRemoval: isRemoval)
    }
}

extension SimulatedKernel {
    /// A next hop as a command names it.
    public struct Hop: Hashable, Sendable {
        /// The gateway; not checked for being on the link, as with `onlink`.
        public var gateway: String?
        /// The name of the link.
        public var name: String

        /// Makes a next hop through a link.
        public init(via gateway: String? = nil, dev name: String) {
            self.gateway = gateway
            self.name = name
        }
    }

    /// Adds a route and announces it, like `ip route add`.
    ///
    /// - Parameters:
    ///   - destination: A prefix, an address, or `default` of the family of `via` or `source`, otherwise of IPv4. Write an IPv4
    ///     default through an IPv6 gateway as `0.0.0.0/0`.
    ///   - gateway: The gateway; not checked for being on the link, as with `onlink`.
    ///   - name: The link; optional if the gateway is within the prefix of a link's address.
    ///   - metric: The rank; by default 0 for IPv4 and 1024 for IPv6, where 0 means 1024 too.
    ///   - type: The type; only `unicast` routes have a gateway and a link.
    ///   - source: The preferred source address, which a link must hold.
    ///   - table: The number of its table, by default the main one.
    ///   - sources: The prefix of the sources that it is for, IPv6 only; by default all sources.
    public mutating func addRoute(
        to destination: String, via gateway: String? = nil, dev name: String? = nil, metric: UInt32? = nil,
        type: RouteType = .unicast, source: String? = nil, table: UInt32 = 254, from sources: String? = nil
    ) throws(SimulationError) {
        let operation = "addRoute(to: \"\(destination)\")"
        try insert(try makeRoute(destination, gateway, name, metric, type, source, table, sources, operation), operation)
    }

    /// Adds a multipath route, like `ip route add … nexthop … nexthop …`, and announces its first next hop.
    ///
    /// Lookups return the first next hop in service; see ``answers(to:)``. The parameters are those of
    /// ``addRoute(to:via:dev:metric:type:source:table:from:)``; `hops` are the next hops, at least one.
    public mutating func addRoute(
        to destination: String, through hops: [Hop], metric: UInt32? = nil, table: UInt32 = 254
    ) throws(SimulationError) {
        let operation = "addRoute(to: \"\(destination)\")"
        guard let first = hops.first else { throw SimulationError(operation, "a route needs at least one next hop (EINVAL)") }
        var route = try makeRoute(destination, first.gateway, first.name, metric, .unicast, nil, table, nil, operation)
        for hop in hops.dropFirst() {
            let other = try makeRoute(destination, hop.gateway, hop.name, metric, .unicast, nil, table, nil, operation)
            guard other.destination == route.destination else {
                throw SimulationError(operation, "all gateways must be of the route's family (EINVAL)")
            }
            // IPv6 accepts each next hop only once.
            guard route.family == .ipv4 || !other.nextHops.contains(where: route.nextHops.contains) else {
                throw SimulationError(operation, "a next hop is repeated (EEXIST)")
            }
            route.nextHops += other.nextHops
        }
        try insert(route, operation)
    }

    /// Adds a route through a nexthop object and announces it, like `ip route add … nhid …`.
    ///
    /// The parameters are those of ``addRoute(to:via:dev:metric:type:source:table:from:)``; `id` is the ID of the object, and
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

    /// Adds a route or replaces the route with the same destination, table and metric, like `ip route replace`.
    ///
    /// Announces only the new route. An IPv4 route that replaces an equal one is not announced (fib_table_insert(),
    /// net/ipv4/fib_trie.c). The parameters are those of ``addRoute(to:via:dev:metric:type:source:table:from:)``.
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
            throw SimulationError(operation, "a route with this metric exists (EEXIST); choose another metric, or use replaceRoute")
        }
        routes.append(rebalanced(route))
        announce(.route(change(of: route, isRemoval: false)))
    }

    private func makeRoute(
        _ destination: String, _ gateway: String?, _ name: String?, _ metric: UInt32?, _ type: RouteType, _ source: String?,
        _ table: UInt32, _ sources: String?, _ operation: String
    ) throws(SimulationError) -> Route {
        let next = try parseHost(gateway, for: operation)
        let preferred = try parseHost(source, for: operation)
        let sourcePrefix = try parseSources(sources, for: operation)
        let knownFamily = next?.family ?? preferred?.family ?? sourcePrefix?.address.family
        let prefix = try parsePrefix(destination, family: knownFamily ?? .ipv4, for: operation)
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
            throw SimulationError(operation, "a route of type \(type) has no gateway and no link (EINVAL)")
        }
        guard table != 0, table != Rule.localTable else {
            throw SimulationError(operation, "table \(table) belongs to the kernel; choose another one")
        }
        return Route(
            destination: prefix, sourcePrefix: sourcePrefix, table: table, type: type,
            nextHops: type == .unicast ? [NextHop(next, try outgoing(name, next, family, operation))] : [],
            metric: rank(metric, of: prefix), source: preferred)
    }

    /// Parses the prefix of a route's sources; `nil` means all sources.
    private func parseSources(_ text: String?, for operation: String) throws(SimulationError) -> IPPrefix? {
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

    /// Returns the interface index of a new route.
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
            throw SimulationError(operation, "no link's prefix contains the gateway: name the link with dev (ENETUNREACH)")
        }
        return interface
    }
}

extension SimulatedKernel {
    /// Removes the best matching route and announces it, like `ip route del`.
    ///
    /// The destination is written as for ``addRoute(to:via:dev:metric:type:source:table:from:)``; all other given parameters must
    /// match. A gateway removes one next hop of an IPv6 multipath route, a link alone the whole route; an IPv4 multipath route is
    /// matched by its first next hop. A route through a nexthop object matches only without a gateway and a link.
    public mutating func removeRoute(
        to destination: String, via gateway: String? = nil, dev name: String? = nil, metric: UInt32? = nil, table: UInt32 = 254,
        from sources: String? = nil
    ) throws(SimulationError) {
        let operation = "removeRoute(to: \"\(destination)\")"
        let next = try parseHost(gateway, for: operation)
        let sourcePrefix = try parseSources(sources, for: operation)
        let knownFamily = next?.family ?? sourcePrefix?.address.family
        let prefix = try parsePrefix(destination, family: knownFamily ?? .ipv4, for: operation)
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
            if routes[place].nextHops.isEmpty { routes.remove(at: place) } else { routes[place] = rebalanced(routes[place]) }
        } else {
            let route = routes.remove(at: place)
            announce(.route(change(of: route, isRemoval: true)))
        }
    }
}

/// The effects of links on the routes through them.
extension SimulatedKernel {
    /// Takes IPv4 routes through a link out of service, without an announcement (fib_sync_down_dev(),
    /// net/ipv4/fib_semantics.c).
    ///
    /// A multipath route continues with its other next hops, unless the link is being removed.
    mutating func dropRoutes4(on interface: UInt32, isRemoved: Bool = false) {
        markNextHops(.ipv4, on: interface, isDead: true)
        routes.removeAll { route in
            route.family == .ipv4 && route.uses(interface) && (isRemoved || route.nextHops.allSatisfy(\.isDead))
        }
        rebalance(.ipv4, on: interface)
    }

    /// Takes IPv6 routes through a link out of service (fib6_ifdown(), net/ipv6/route.c); with the loopback device also the
    /// refusing routes that are attached to it.
    ///
    /// Announces each next hop of a removed route, unless `skip_notify_on_dev_down` is set. A multipath route silently
    /// continues with its other next hops.
    mutating func dropRoutes6(on interface: UInt32) {
        markNextHops(.ipv6, on: interface, isDead: true)
        let isGone = { (route: Route) in
            guard route.family == .ipv6 else { return false }
            if route.type != .unicast { return interface == Self.loopbackIndex }
            return route.uses(interface) && route.nextHops.allSatisfy(\.isDead)
        }
        if !sysctls.skipsNotifyOnDeviceDown {
            for route in routes where isGone(route) {
                for nextHop in route.nextHops { announce(.route(change(of: route, nextHop: nextHop, isRemoval: true))) }
                if route.nextHops.isEmpty { announce(.route(change(of: route, isRemoval: true))) }
            }
        }
        routes.removeAll(where: isGone)
        rebalance(.ipv6, on: interface)
    }

    /// Removes the next hops of IPv6 multipath routes through a link that is being removed.
    ///
    /// Announces each, unless `skip_notify_on_dev_down` is set.
    mutating func dropNextHops6(on interface: UInt32) {
        for place in routes.indices where routes[place].family == .ipv6 {
            for nextHop in routes[place].nextHops where nextHop.interface == interface && !sysctls.skipsNotifyOnDeviceDown {
                announce(.route(change(of: routes[place], nextHop: nextHop, isRemoval: true)))
            }
            routes[place].nextHops.removeAll { $0.interface == interface }
            rebalance(place)
        }
    }

    /// Takes the next hops through a link into service again, without an announcement (fib_sync_up(), rt6_sync_up()).
    mutating func revive(_ family: IPAddress.Family, on interface: UInt32) {
        markNextHops(family, on: interface, isDead: false)
        rebalance(family, on: interface)
    }

    private mutating func markNextHops(_ family: IPAddress.Family, on interface: UInt32, isDead: Bool) {
        for place in routes.indices where routes[place].family == family {
            for nextHop in routes[place].nextHops.indices where routes[place].nextHops[nextHop].interface == interface {
                routes[place].nextHops[nextHop].isDead = isDead
            }
        }
    }

    /// Distributes the traffic of a family's multipath routes through a link again (fib_rebalance(),
    /// rt6_multipath_rebalance()).
    mutating func rebalance(_ family: IPAddress.Family, on interface: UInt32) {
        for place in routes.indices where routes[place].family == family && routes[place].uses(interface) { rebalance(place) }
    }

    private func rebalanced(_ route: Route) -> Route {
        let ignoresLinkDown = sysctls.ignoresLinkDown(route.family)
        var route = route
        for nextHop in route.nextHops.indices {
            let hasCarrier = link(at: route.nextHops[nextHop].interface)?.interface.hasCarrier ?? false
            route.nextHops[nextHop].hasShare = !route.nextHops[nextHop].isDead && (hasCarrier || !ignoresLinkDown)
        }
        return route
    }

    private mutating func rebalance(_ place: Int) { routes[place] = rebalanced(routes[place]) }
}

extension SimulatedKernel.Link {
    func holds(_ address: IPAddress) -> Bool { interface.addresses.contains { $0.address == address } }

    /// Returns `true` if a route may prefer the address as its source: ipv6_chk_addr() ignores tentative addresses.
    fileprivate func canPrefer(_ address: IPAddress) -> Bool {
        interface.addresses.contains { $0.address == address && !$0.isTentative }
    }
}
