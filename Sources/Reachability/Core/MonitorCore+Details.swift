extension MonitorCore {
    /// The entries of the table by which a path is described: what prefix and metric its routes have.
    ///
    /// No level or epoch depends on them, so they are read after conditions were told.
    package struct Details: Sendable {
        private var ipv4: RouteQuery?
        private var ipv6: RouteQuery?

        package init() {}

        /// The entries for a path: of each family that works, the route to its first destination that is not this machine itself.
        package init(of path: NetworkPath, _ queries: [RouteQuery], _ verdicts: [RouteVerdict]) {
            for index in queries.indices.prefix(verdicts.count) where !verdicts[index].isLocal {
                switch queries[index].destination.family {
                case .ipv4: if ipv4 == nil && path.supportsIPv4 { ipv4 = queries[index].entry(behind: verdicts[index]) }
                case .ipv6: if ipv6 == nil && path.supportsIPv6 { ipv6 = queries[index].entry(behind: verdicts[index]) }
                }
            }
        }

        package var isEmpty: Bool { ipv4 == nil && ipv6 == nil }

        package var queries: [RouteQuery] { [ipv4, ipv6].compactMap(\.self) }
    }
}

extension RouteQuery {
    /// The query for the entry of the table behind an answer; `nil` if no entry stands behind it.
    package func entry(behind verdict: RouteVerdict) -> RouteQuery? {
        guard case .route(let route) = verdict, route.table != 0 || route.isLocal else { return nil }
        var query = matching
        if query.source == .selected { query.source = route.source.map(Source.address) ?? .unspecified }
        return query
    }
}
