internal import Glibc
public import Reachability

extension SimulatedKernel {
    /// What the kernel would answer to RTM_GETROUTE (rtnetlink(7)): the first of ``answers(to:)``.
    public func route(to query: RouteQuery) -> RouteVerdict {
        answers(to: query).first ?? .refused(errno: ENETUNREACH)
    }

    /// All the answers that the kernel may give: several if a multipath route is found, one for each leg in service.
    ///
    /// The policy rules are asked in their order. In a table the longest prefix wins, then the least metric.
    public func answers(to query: RouteQuery) -> [RouteVerdict] {
        // IPv6 looks at the interface only when it compares it with a route's.
        if let index = query.interface, query.destination.family == .ipv4 {
            guard let link = link(at: index) else { return [.refused(errno: ENODEV)] }
            guard link.interface.isUp else { return [.refused(errno: ENETUNREACH)] }
        }
        for rule in rules where rule.isFor(query, uid: uid) {
            switch rule.action {
            case .lookup(Rule.localTable):
                if let local = local(query) { return [.route(local)] }
            case .lookup(let table):
                if let found = answers(to: query, in: table) { return found }
            case .unreachable: return [answerWithoutRoute(query, errno: ENETUNREACH)]
            case .prohibit: return [answerWithoutRoute(query, errno: EACCES)]
            case .blackhole: return [answerWithoutRoute(query, errno: EINVAL)]
            }
        }
        return [answerWithoutRoute(query, errno: ENETUNREACH)]
    }

    /// The answers of one table; `nil` if the next rule is to be asked.
    private func answers(to query: RouteQuery, in table: UInt32) -> [RouteVerdict]? {
        guard let best = bestRoute(query, in: table) else { return nil }
        if isBlackhole(best) { return [answerWithoutRoute(query, errno: EINVAL)] }
        switch best.type {
        case .unicast: return choices(of: best, for: query).map { .route(resolve(best, $0, for: query)) }
        case .unreachable: return [answerWithoutRoute(query, errno: EHOSTUNREACH)]
        case .prohibit: return [answerWithoutRoute(query, errno: EACCES)]
        case .blackhole: return [answerWithoutRoute(query, errno: EINVAL)]
        case .throw: return nil
        }
    }

    /// The answer of the local table (255), which holds addresses of IPv4 also of links that are down, and of IPv6 only ready ones.
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
            interface: Self.loopbackIndex, source: destination, table: Rule.localTable, isLocal: true)
        if query.wantsMatch {
            // The entry names the interface that has the address; packets go through the loopback device all the same.
            answer.interface = holder.interface.index
            answer.source = isIPv6 ? nil : destination
            answer.prefixLength = destination.family.bitWidth
            answer.metric = 0
        }
        return answer
    }

    private func bestRoute(_ query: RouteQuery, in table: UInt32) -> Route? {
        let fitting = routes.filter { $0.table == table && $0.destination.contains(query.destination) }
            .stablySorted { (-$0.destination.length, Int($0.metric)) < (-$1.destination.length, Int($1.metric)) }
        return query.destination.family == .ipv4 ? bestRoute4(query, fitting[...]) : bestRoute6(query, fitting[...])
    }

    private func bestRoute4(_ query: RouteQuery, _ fitting: ArraySlice<Route>) -> Route? {
        var fitting = fitting
        while let route = fitting.popFirst() {
            if isFound(route, query) { return route }
            // A nexthop object of which nothing can be used hides the rest of its leaf in the trie: worse routes to the prefix, and
            // those to shorter ones that begin at the same address (label "miss" in fib_table_lookup(), net/ipv4/fib_trie.c).
            if route.nexthop != nil { fitting.removeAll { $0.destination.address == route.destination.address } }
        }
        return nil
    }

    private func bestRoute6(_ query: RouteQuery, _ fitting: ArraySlice<Route>) -> Route? {
        var fitting = fitting
        while let route = fitting.popFirst() {
            if isFound(route, query) { return route }
            let node = fitting.prefix { $0.destination == route.destination }
            // When the best metric was of no use the whole rest is looked through, and a nexthop object that refuses ends that,
            // whatever was found before it (__find_rr_leaf(), net/ipv6/route.c).
            if let best = node.first(where: isBlackhole) ?? node.first(where: { isFound($0, query) }) { return best }
            fitting.removeFirst(node.count)
        }
        return nil
    }

    private func isFound(_ route: Route, _ query: RouteQuery) -> Bool {
        refuses(route, query) || !usableLegs(of: route, for: query).isEmpty
    }

    /// Whether a route is found and refuses.
    ///
    /// IPv6 hangs such routes on the loopback device, so that a socket bound to another interface does not find them; but a
    /// nexthop object that refuses is not compared with the interface at all (__find_rr_leaf(), net/ipv6/route.c).
    private func refuses(_ route: Route, _ query: RouteQuery) -> Bool {
        if isBlackhole(route) { return true }
        return route.type != .unicast && (route.family == .ipv4 || [nil, Self.loopbackIndex].contains(query.interface))
    }

    /// The legs of a route that are in service for a look-up (fib_lookup_good_nhc(), net/ipv4/fib_trie.c).
    private func usableLegs(of route: Route, for query: RouteQuery) -> [Leg] {
        let ignoresLinkDown = route.family == .ipv4 ? settings.ignoresIPv4LinkDown : settings.ignoresIPv6LinkDown
        return legs(of: route).filter { leg in
            guard !leg.isDead, query.interface == nil || query.interface == leg.interface else { return false }
            return !ignoresLinkDown || link(at: leg.interface)?.interface.hasCarrier ?? false
        }
    }

    /// The legs of a route that may be chosen: those that had a share of the traffic when shares were last given out.
    private func choices(of route: Route, for query: RouteQuery) -> [Leg] {
        let usable = usableLegs(of: route, for: query)
        guard route.legs.count > 1, query.interface == nil else { return usable }
        let sharing = route.legs.filter(\.hasShare)
        return sharing.isEmpty ? usable : sharing
    }

    /// What is said when no route sends.
    ///
    /// A socket bound to an interface gets through all the same, over IPv4: "Apparently, routing tables are wrong. Assume, that the
    /// destination is on link" (net/ipv4/route.c, ip_route_output_key_hash_rcu()). There is no entry to match then, and the table
    /// is 0.
    private func answerWithoutRoute(_ query: RouteQuery, errno: Int32) -> RouteVerdict {
        guard let interface = query.interface, query.destination.family == .ipv4 else { return .refused(errno: errno) }
        guard !query.wantsMatch else { return .refused(errno: EHOSTUNREACH) }
        return .route(.init(interface: interface, source: source4(on: interface, towards: nil), table: 0))
    }

    private func resolve(_ route: Route, _ leg: Leg, for query: RouteQuery) -> RouteVerdict.Route {
        let isIPv6 = route.family == .ipv6
        var answer = RouteVerdict.Route(
            interface: leg.interface, gateway: leg.gateway, source: route.source, table: route.table)
        if query.wantsMatch {
            answer.prefixLength = route.destination.length
            answer.metric = route.metric
        } else if route.source == nil {
            answer.source =
                isIPv6 ? source6(on: leg.interface, for: query.destination) : source4(on: leg.interface, towards: leg.gateway)
        }
        return answer
    }
}

extension Array {
    /// In an order; equals stay as they are.
    fileprivate func stablySorted(by isBefore: (Element, Element) -> Bool) -> [Element] {
        enumerated().sorted { left, right in
            if isBefore(left.element, right.element) { return true }
            return left.offset < right.offset && !isBefore(right.element, left.element)
        }.map(\.element)
    }
}
