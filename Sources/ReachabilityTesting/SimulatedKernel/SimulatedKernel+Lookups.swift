internal import Glibc
public import Reachability

extension SimulatedKernel {
    /// Returns the first of ``answers(to:)``: the kernel's answer to RTM_GETROUTE (rtnetlink(7)).
    public func route(to query: RouteQuery) -> RouteVerdict {
        answers(to: query).first ?? .refused(errno: ENETUNREACH)
    }

    /// Returns all possible answers of the kernel: for a multipath route, one for each next hop in service.
    ///
    /// The policy rules are asked in order. Within a table the longest destination prefix wins, then the longest source prefix,
    /// then the least metric. A query with the source `RouteQuery.Source.selected` is answered like connect(2).
    public func answers(to query: RouteQuery) -> [RouteVerdict] {
        switch (query.source, query.destination.family) {
        case (.selected, .ipv4): connect4(query)
        case (.selected, .ipv6): connect6(query)
        case (_, .ipv4): lookUp4(query)
        case (_, .ipv6):
            // A lookup without a source requires the interface, one with a source only prefers it (ip6_route_output_flags,
            // net/ipv6/route.c).
            lookUp(query.namedSource == nil || query.destination.isBoundToLink ? query : query.unbound)
        }
    }

    /// Chooses a source and looks up again with it (ip_route_connect, include/net/route.h).
    private func connect4(_ query: RouteQuery) -> [RouteVerdict] {
        lookUp4(query.from(.unspecified)).flatMap { first -> [RouteVerdict] in
            guard case .route(let route) = first, let source = route.source, !source.isUnspecified else { return [first] }
            return lookUp4(query.from(.address(source)))
        }
    }

    /// Looks up without a source and, if that fails, with the best source (ip6_dst_lookup_tail, net/ipv6/ip6_output.c).
    ///
    /// Lookups of a socket always require its interface.
    private func connect6(_ query: RouteQuery) -> [RouteVerdict] {
        var query = query.from(.unspecified)
        // net/ipv6/tcp_ipv6.c, tcp_v6_connect().
        if query.destination.isUnspecified { query.destination = Self.loopbackAddress6.address }
        let first = lookUp(query)
        guard case .refused? = first.first else { return first }
        guard let source = source6(on: nil, for: query.destination) else { return [.refused(errno: EADDRNOTAVAIL)] }
        return lookUp(query.from(.address(source)))
    }

    /// Performs an IPv4 lookup (ip_route_output_key_hash_rcu, net/ipv4/route.c).
    private func lookUp4(_ query: RouteQuery) -> [RouteVerdict] {
        if let source = query.namedSource {
            if source.isMulticast || source.value >> 24 == 0 || source.value == 0xffff_ffff { return [.refused(errno: EINVAL)] }
            // Old kernels return EINVAL.
            guard links.contains(where: { $0.holds4(source) }) else { return [.refused(errno: ENETUNREACH)] }
        }
        if let index = query.interface {
            guard let link = link(at: index) else { return [.refused(errno: ENODEV)] }
            guard link.interface.isUp else { return [.refused(errno: ENETUNREACH)] }
        }
        if query.destination.isUnspecified { return [thisHost(query)] }
        return lookUp(query).map { verdict in
            // A packet with a loopback source does not leave the machine (__mkroute_output, net/ipv4/route.c).
            guard case .route(let route) = verdict, !route.isLocal, (query.namedSource ?? route.source)?.isLoopback == true,
                link(at: route.interface)?.interface.isLoopback == false
            else { return verdict }
            return .refused(errno: EINVAL)
        }
    }

    /// Returns the answer for 0.0.0.0, this host, which needs no table.
    private func thisHost(_ query: RouteQuery) -> RouteVerdict {
        guard !query.fibMatch else { return .refused(errno: EHOSTUNREACH) }
        let loopback = IPAddress(family: .ipv4, value: 0x7f00_0001)
        let bound = query.interface.flatMap { link(at: $0) }?.interface.addresses.first { $0.address.family == .ipv4 }?.address
        return .route(
            .init(interface: Self.loopbackIndex, source: query.namedSource ?? bound ?? loopback, table: 0, isLocal: true))
    }

    /// Asks the policy rules in order.
    private func lookUp(_ query: RouteQuery) -> [RouteVerdict] {
        for rule in rules where rule.matches(query, uid: uid) {
            switch rule.action {
            case .lookup(Rule.localTable):
                if let local = local(query) { return [.route(local)] }
            case .lookup(let table):
                if let found = answers(to: query, in: table, suppressing: rule.suppressedLength) { return found }
            case .unreachable: return [answerWithoutRoute(query, errno: ENETUNREACH)]
            case .prohibit: return [answerWithoutRoute(query, errno: EACCES)]
            case .blackhole: return [answerWithoutRoute(query, errno: EINVAL)]
            }
        }
        return [answerWithoutRoute(query, errno: ENETUNREACH)]
    }

    /// Returns the answers of one table; `nil` to continue with the next rule.
    ///
    /// - Parameter length: The prefix length up to which a route that forwards is passed over; a refusal never is
    ///   (fib_rules_lookup(), net/core/fib_rules.c).
    private func answers(to query: RouteQuery, in table: UInt32, suppressing length: Int?) -> [RouteVerdict]? {
        guard let best = bestRoute(query, in: table) else { return nil }
        if isBlackhole(best) { return [answerWithoutRoute(query, errno: EINVAL)] }
        switch best.type {
        case .unicast:
            if let length, best.destination.length <= length { return nil }
            return choices(of: best, for: query).map { .route(resolve(best, $0, for: query)) }
        case .unreachable: return [answerWithoutRoute(query, errno: EHOSTUNREACH)]
        case .prohibit: return [answerWithoutRoute(query, errno: EACCES)]
        case .blackhole: return [answerWithoutRoute(query, errno: EINVAL)]
        case .throw: return nil
        }
    }

    /// Returns the answer of the local table (255).
    ///
    /// It holds IPv4 addresses even of links that are down, and only ready IPv6 addresses.
    private func local(_ query: RouteQuery) -> RouteVerdict.Route? {
        let destination = query.destination
        let holder = links.first { link in
            link.interface.addresses.contains { held in
                let isWhole127 = link.interface.isLoopback && held.address.family == .ipv4
                let matches =
                    isWhole127
                    ? IPPrefix(held.address, length: held.prefixLength).contains(destination) : held.address == destination
                return matches && held.isReady
            }
        }
        guard let holder, query.interface == nil || query.interface == holder.interface.index else { return nil }
        let isIPv6 = destination.family == .ipv6
        var answer = RouteVerdict.Route(
            interface: Self.loopbackIndex, source: query.namedSource ?? destination, table: Rule.localTable, isLocal: true)
        if query.fibMatch {
            // The entry names the interface of the address, although packets go through the loopback device.
            answer.interface = holder.interface.index
            answer.source = isIPv6 ? nil : destination
            answer.prefixLength = destination.family.bitWidth
            answer.metric = 0
        }
        return answer
    }

    private func bestRoute(_ query: RouteQuery, in table: UInt32) -> Route? {
        let fitting = routes.filter { $0.table == table && $0.matches(query) }.stablySorted { $0.rank < $1.rank }
        if query.destination.family == .ipv4 { return bestRoute4(query, fitting[...]) }
        return bestRoute6(query, fitting.filter { !isHidden($0, among: fitting) }[...])
    }

    /// Returns `true` if a route for all sources is skipped, because source routes to the same prefix exist and none of them
    /// matches.
    ///
    /// Does not apply to the default route: the search ends at the root (fib6_node_lookup_1, net/ipv6/ip6_fib.c).
    private func isHidden(_ route: Route, among fitting: [Route]) -> Bool {
        guard route.sourcePrefix == nil, route.destination.length > 0 else { return false }
        func isBeside(_ other: Route) -> Bool {
            other.sourcePrefix != nil && other.destination == route.destination && other.table == route.table
        }
        return routes.contains(where: isBeside) && !fitting.contains(where: isBeside)
    }

    private func bestRoute4(_ query: RouteQuery, _ fitting: ArraySlice<Route>) -> Route? {
        var fitting = fitting
        while let route = fitting.popFirst() {
            if isFound(route, query) { return route }
            // A nexthop object without a usable next hop hides the rest of its leaf in the trie: worse routes to the prefix,
            // and routes to shorter prefixes that begin at the same address (label "miss" in fib_table_lookup(),
            // net/ipv4/fib_trie.c).
            if route.nexthop != nil { fitting.removeAll { $0.destination.address == route.destination.address } }
        }
        return nil
    }

    private func bestRoute6(_ query: RouteQuery, _ fitting: ArraySlice<Route>) -> Route? {
        var fitting = fitting
        while let route = fitting.popFirst() {
            if isFound(route, query) { return route }
            let node = fitting.prefix { $0.destination == route.destination && $0.sourcePrefix == route.sourcePrefix }
            // If the best metric is not usable, the kernel looks through the whole rest. A refusing nexthop object ends that
            // search, whatever was found before it (__find_rr_leaf(), net/ipv6/route.c).
            if let best = node.first(where: isBlackhole) ?? node.first(where: { isFound($0, query) }) { return best }
            fitting.removeFirst(node.count)
        }
        return nil
    }

    private func isFound(_ route: Route, _ query: RouteQuery) -> Bool {
        refuses(route, query) || !usableNextHops(of: route, for: query).isEmpty
    }

    /// Returns `true` if a route is found and refuses.
    ///
    /// IPv6 attaches such routes to the loopback device: a socket bound to another interface does not find them. A refusing
    /// nexthop object is not compared with the interface (__find_rr_leaf(), net/ipv6/route.c).
    private func refuses(_ route: Route, _ query: RouteQuery) -> Bool {
        if isBlackhole(route) { return true }
        return route.type != .unicast && (route.family == .ipv4 || [nil, Self.loopbackIndex].contains(query.interface))
    }

    /// Returns the next hops of a route that are in service for a lookup (fib_lookup_good_nhc(), net/ipv4/fib_trie.c).
    private func usableNextHops(of route: Route, for query: RouteQuery) -> [NextHop] {
        let ignoresLinkDown = sysctls.ignoresLinkDown(route.family)
        return nextHops(of: route).filter { nextHop in
            guard !nextHop.isDead, query.interface == nil || query.interface == nextHop.interface else { return false }
            return !ignoresLinkDown || link(at: nextHop.interface)?.interface.hasCarrier ?? false
        }
    }

    /// Returns the next hops that a lookup may choose: those with a share of the traffic.
    private func choices(of route: Route, for query: RouteQuery) -> [NextHop] {
        let usable = usableNextHops(of: route, for: query)
        guard route.nextHops.count > 1, query.interface == nil else { return usable }
        let sharing = route.nextHops.filter(\.hasShare)
        return sharing.isEmpty ? usable : sharing
    }

    /// Returns the answer if no route forwards the packet.
    ///
    /// Over IPv4 a socket bound to an interface succeeds anyway: "Apparently, routing tables are wrong. Assume, that the
    /// destination is on link" (net/ipv4/route.c, ip_route_output_key_hash_rcu()). No entry matches then, and the table is 0.
    private func answerWithoutRoute(_ query: RouteQuery, errno: Int32) -> RouteVerdict {
        guard let interface = query.interface, query.destination.family == .ipv4 else { return .refused(errno: errno) }
        guard !query.fibMatch else { return .refused(errno: EHOSTUNREACH) }
        let source = query.namedSource ?? source4(on: interface, towards: nil)
        return .route(.init(interface: interface, source: source, table: 0))
    }

    private func resolve(_ route: Route, _ nextHop: NextHop, for query: RouteQuery) -> RouteVerdict.Route {
        let isIPv6 = route.family == .ipv6
        var answer = RouteVerdict.Route(
            interface: nextHop.interface, gateway: nextHop.gateway, source: route.source, table: route.table)
        if query.fibMatch {
            answer.prefixLength = route.destination.length
            answer.metric = route.metric
            if route.nextHops.count > 1 {
                answer.nextHops = route.nextHops.map { .init(interface: $0.interface, gateway: $0.gateway, isDead: $0.isDead) }
                answer.choosesByPorts = sysctls.choosesByPorts(route.family)
            }
        } else if let source = query.namedSource {
            answer.source = source
        } else if route.source == nil {
            answer.source =
                isIPv6
                ? source6(on: nextHop.interface, for: query.destination) : source4(on: nextHop.interface, towards: nextHop.gateway)
        }
        return answer
    }
}

/// Source addresses that the kernel selects.
extension SimulatedKernel {
    /// Returns the IPv4 source address for packets through an interface (net/ipv4/devinet.c, inet_select_addr()).
    ///
    /// This is the address whose prefix contains the gateway, otherwise the first one, otherwise another interface's. Loopback
    /// addresses are excluded: their scope is the host.
    private func source4(on index: UInt32, towards gateway: IPAddress?) -> IPAddress? {
        let outgoing = link(at: index)?.interface
        let isLoopback = outgoing?.isLoopback ?? true
        let own = isLoopback ? [] : (outgoing?.addresses ?? []).filter { $0.address.family == .ipv4 }
        if let gateway, let near = own.first(where: { IPPrefix($0.address, length: $0.prefixLength).contains(gateway) }) {
            return near.address
        }
        if let first = own.first { return first.address }
        for link in links where !link.interface.isLoopback {
            if let other = link.interface.addresses.first(where: { $0.address.family == .ipv4 }) { return other.address }
        }
        return nil
    }

    /// Returns the IPv6 source address (RFC 6724 §5 as in net/ipv6/addrconf.c, ipv6_dev_get_saddr()).
    ///
    /// Candidates are the ready addresses of all interfaces; `::1` wins while no other one is ready. Among equals the newest
    /// address of an interface wins.
    ///
    /// - Parameter index: The outgoing interface; `nil` if there is no route yet.
    private func source6(on index: UInt32?, for destination: IPAddress) -> IPAddress? {
        let isOnLinkOnly = index != nil && (destination.isLinkLocal || destination.isMulticast)
        var best: (address: IPAddress, rank: Rank)?
        for link in links where !isOnLinkOnly || link.interface.index == index {
            for held in link.interface.addresses.reversed() where held.address.family == .ipv6 && held.isReady {
                let rank = Rank(of: held, isOutgoing: link.interface.index == index, for: destination)
                if best.map({ $0.rank < rank }) ?? true { best = (held.address, rank) }
            }
        }
        return best?.address
    }

    /// The rank of a source address for a destination: rules 1, 2, 5, 6 and 8 of RFC 6724 §5.
    private struct Rank: Comparable {
        private let values: [Int]

        init(of held: NetworkInterface.Address, isOutgoing: Bool, for destination: IPAddress) {
            let source = held.address
            let scope = Self.scope(source)
            let isWideEnough = scope >= Self.scope(destination)
            // Bits beyond the prefix do not count: they say nothing about the location.
            let commonBits = min((source.value ^ destination.value).leadingZeroBitCount, held.prefixLength)
            values = [
                source == destination ? 1 : 0, isWideEnough ? -scope : scope - 128, isOutgoing ? 1 : 0,
                Self.label(source) == Self.label(destination) ? 1 : 0, commonBits,
            ]
        }

        static func < (left: Rank, right: Rank) -> Bool { left.values.lexicographicallyPrecedes(right.values) }

        /// Returns the scope of RFC 4291 §2.7; the kernel treats `::1` as link-local.
        private static func scope(_ address: IPAddress) -> Int {
            if address.isMulticast { return Int(truncatingIfNeeded: address.value >> 112 & 0xf) }
            return address.isLinkLocal || address.isLoopback ? 0x2 : 0xe
        }

        /// Returns the label of RFC 6724 §2.1, for the labels that matter here.
        private static func label(_ address: IPAddress) -> Int {
            if address.isLoopback { return 0 }
            return address.value >> 121 == 0xfc >> 1 ? 13 : 1
        }
    }
}

extension SimulatedKernel.Route {
    /// Returns `true` if a lookup may find the route; a lookup without a source finds only routes for all sources.
    fileprivate func matches(_ query: RouteQuery) -> Bool {
        guard destination.contains(query.destination) else { return false }
        guard let sourcePrefix else { return true }
        return query.namedSource.map(sourcePrefix.contains) ?? false
    }

    /// The place among the routes that a lookup may find; the least value wins.
    fileprivate var rank: (Int, Int, Int) { (-destination.length, -(sourcePrefix?.length ?? 0), Int(metric)) }
}

extension SimulatedKernel.Link {
    /// Returns `true` if packets may have this IPv4 source (__ip_dev_find, net/ipv4/devinet.c).
    fileprivate func holds4(_ address: IPAddress) -> Bool {
        interface.addresses.contains { held in
            held.address == address
                || interface.isLoopback && held.address.family == .ipv4
                    && IPPrefix(held.address, length: held.prefixLength).contains(address)
        }
    }
}

extension RouteQuery {
    /// The source address of the lookup, if it names one.
    var namedSource: IPAddress? {
        guard case .address(let address) = source, address.family == destination.family, !address.isUnspecified else { return nil }
        return address
    }

    /// The same query without an interface.
    fileprivate var unbound: RouteQuery {
        var query = self
        query.interface = nil
        return query
    }
}

extension IPAddress {
    /// True if IPv6 always compares the interface for this address (rt6_need_strict, net/ipv6/route.c).
    fileprivate var isBoundToLink: Bool { isLinkLocal || isMulticast || isLoopback }
}

extension Array {
    /// Returns the elements in order; equal elements keep their order.
    fileprivate func stablySorted(by isBefore: (Element, Element) -> Bool) -> [Element] {
        enumerated().sorted { left, right in
            if isBefore(left.element, right.element) { return true }
            return left.offset < right.offset && !isBefore(right.element, left.element)
        }.map(\.element)
    }
}
