internal import CNetlink
internal import Glibc

extension RouteQuery {
    /// The question in the C layer's form.
    var request: cnl_route_query {
        var request = cnl_route_query()
        request.destination = cnl_address(destination)
        request.interface = interface ?? 0
        request.has_mark = mark != nil
        request.mark = mark ?? 0
        request.has_uid = uid != nil
        request.uid = uid ?? 0
        request.wants_match = fibMatch
        if case .address(let address) = source { request.source = cnl_address(address) }
        // Lookups refuse any other protocol (rtm_getroute_parse_ip_proto, net/ipv4/fib_frontend.c).
        if [.tcp, .udp, .icmp, .icmpv6].contains(transport) { request.transport = transport.rawValue }
        request.port = port ?? 0
        return request
    }
}

extension Scope.Transport {
    fileprivate static let icmp = Scope.Transport(rawValue: UInt8(IPPROTO_ICMP))
    fileprivate static let icmpv6 = Scope.Transport(rawValue: UInt8(IPPROTO_ICMPV6))
}

extension RouteVerdict {
    /// The answer to a look-up.
    ///
    /// A route of a refusing type says the same as the errno that a sender would get (fib_props, net/ipv4/fib_semantics.c).
    ///
    /// What the route's entry in the table is like is told only by an answer that is the entry.
    ///
    /// The kernel does not repeat a source that the query named (rt_fill_info, net/ipv4/route.c).
    init(_ route: cnl_route, to query: RouteQuery) {
        switch UInt32(route.type) {
        case CNL_ROUTE_BLACKHOLE: self = .refused(errno: EINVAL)
        case CNL_ROUTE_UNREACHABLE: self = .refused(errno: EHOSTUNREACH)
        case CNL_ROUTE_PROHIBIT: self = .refused(errno: EACCES)
        case CNL_ROUTE_THROW: self = .refused(errno: ENETUNREACH)
        // TCP connects to one host only; a datagram socket needs SO_BROADCAST (tcp_v4_connect, __ip4_datagram_connect, net/ipv4).
        case CNL_ROUTE_BROADCAST where query.transport != .tcp: self = .refused(errno: EACCES)
        case CNL_ROUTE_BROADCAST: self = .refused(errno: ENETUNREACH)
        case CNL_ROUTE_MULTICAST where query.transport == .tcp: self = .refused(errno: ENETUNREACH)
        default:
            let isMatch = query.fibMatch
            var source = IPAddress(route.source)
            if !isMatch, case .address(let address) = query.source { source = address }
            self = .route(
                Route(
                    interface: route.interface, gateway: IPAddress(route.gateway), source: source,
                    table: route.table, metric: isMatch ? route.metric : nil,
                    prefixLength: isMatch ? Int(route.destination_length) : nil,
                    isLocal: [CNL_ROUTE_LOCAL, CNL_ROUTE_ANYCAST].contains(UInt32(route.type)),
                    routingProtocol: isMatch ? route.protocol : nil, scope: isMatch ? route.scope : nil))
        }
    }
}
