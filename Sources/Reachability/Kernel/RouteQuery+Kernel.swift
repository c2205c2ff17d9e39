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
        request.wants_match = wantsMatch
        return request
    }
}

extension RouteVerdict {
    /// The answer to a look-up.
    ///
    /// A route of a refusing type says the same as the errno that a sender would get (fib_props, net/ipv4/fib_semantics.c).
    ///
    /// What the route's entry in the table is like is told only by an answer that is the entry.
    init(_ route: cnl_route, isMatch: Bool) {
        switch UInt32(route.type) {
        case CNL_ROUTE_BLACKHOLE: self = .refused(errno: EINVAL)
        case CNL_ROUTE_UNREACHABLE: self = .refused(errno: EHOSTUNREACH)
        case CNL_ROUTE_PROHIBIT: self = .refused(errno: EACCES)
        case CNL_ROUTE_THROW: self = .refused(errno: ENETUNREACH)
        default:
            self = .route(
                Route(
                    interface: route.interface, gateway: IPAddress(route.gateway), source: IPAddress(route.source),
                    table: route.table, metric: isMatch ? route.metric : nil,
                    prefixLength: isMatch ? Int(route.destination_length) : nil,
                    isLocal: [CNL_ROUTE_LOCAL, CNL_ROUTE_ANYCAST].contains(UInt32(route.type))))
        }
    }
}
