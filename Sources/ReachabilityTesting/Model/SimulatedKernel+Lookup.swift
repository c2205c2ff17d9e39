internal import Glibc
public import Reachability

extension SimulatedKernel {
    /// What the kernel would answer to RTM_GETROUTE (rtnetlink(7)).
    ///
    /// The addresses of this machine first, then the main table: the longest prefix, then the least metric. Marks and users do not
    /// matter, since there are no policy rules.
    public func route(to query: RouteQuery) -> RouteVerdict {
        if let index = query.interface {
            guard let link = link(at: index) else { return .refused(errno: ENODEV) }
            guard link.interface.isUp else { return .refused(errno: ENETUNREACH) }
        }
        if let local = local(query) { return .route(local) }
        guard let best = bestRoute(query) else { return answerWithoutRoute(query, errno: ENETUNREACH) }
        switch best.type {
        case .unicast: return .route(resolve(best, for: query))
        case .unreachable: return answerWithoutRoute(query, errno: EHOSTUNREACH)
        case .prohibit: return answerWithoutRoute(query, errno: EACCES)
        case .blackhole: return answerWithoutRoute(query, errno: EINVAL)
        case .throw: return answerWithoutRoute(query, errno: ENETUNREACH)
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
            interface: Self.loopbackIndex, source: destination, table: 255, metric: isIPv6 ? 0 : nil, isLocal: true)
        if query.wantsMatch {
            // The entry names the interface that has the address; packets go through the loopback device all the same.
            answer.interface = holder.interface.index
            answer.source = isIPv6 ? nil : destination
            answer.prefixLength = destination.family.bitWidth
        }
        return answer
    }

    private func bestRoute(_ query: RouteQuery) -> Route? {
        var best: Route?
        for route in routes where route.destination.contains(query.destination) {
            // A route that does not send has no interface to differ from.
            if let interface = query.interface, route.type == .unicast, route.interface != interface { continue }
            guard let other = best else {
                best = route
                continue
            }
            let isLonger = route.destination.length > other.destination.length
            let isAsLong = route.destination.length == other.destination.length
            if isLonger || (isAsLong && route.metric < other.metric) { best = route }
        }
        return best
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

    private func resolve(_ route: Route, for query: RouteQuery) -> RouteVerdict.Route {
        let isIPv6 = route.family == .ipv6
        let interface = route.interface ?? Self.loopbackIndex
        var answer = RouteVerdict.Route(interface: interface, gateway: route.gateway, source: route.source)
        // IPv4 tells the metric only of a matched entry, and leaves a zero out.
        if isIPv6 || (query.wantsMatch && route.metric != 0) { answer.metric = route.metric }
        if query.wantsMatch {
            answer.prefixLength = route.destination.length
        } else if route.source == nil {
            answer.source =
                isIPv6 ? source6(on: interface, for: query.destination) : source4(on: interface, towards: route.gateway)
        }
        return answer
    }
}
