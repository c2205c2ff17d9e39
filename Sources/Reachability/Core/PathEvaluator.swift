/// The kernel's answer for one destination.
package struct RouteAnswer: Hashable, Sendable {
    package var destination: IPAddress
    package var verdict: RouteVerdict

    package init(_ destination: IPAddress, _ verdict: RouteVerdict) {
        self.destination = destination
        self.verdict = verdict
    }
}

/// Turns look-ups and the table of interfaces into a verdict about a scope.
///
/// Pure.
package struct PathEvaluator: Sendable {
    /// The addresses that stand for the internet, per family.
    package let representatives: [IPAddress]

    package init(ipv4Representatives: [IPAddress], ipv6Representatives: [IPAddress]) {
        representatives =
            ipv4Representatives.filter { $0.family == .ipv4 } + ipv6Representatives.filter { $0.family == .ipv6 }
    }

    /// The addresses that a scope asks about: of the internet all must be reachable for a family to be satisfied, of a host any.
    ///
    /// - Parameter host: what is known of the host that the scope names.
    package func destinations(of scope: Scope, host: [IPAddress] = []) -> [IPAddress] {
        switch scope.destination {
        case .internet: representatives
        case .address(let address): [address]
        case .host: host
        }
    }

    /// The questions to ask about a scope, or `nil` if it is bound to an interface that does not exist.
    ///
    /// - Parameter families: those that are to be asked about.
    package func queries(
        for scope: Scope, host: [IPAddress] = [], families: FamilySet = .all, _ table: InterfaceTable
    ) -> [RouteQuery]? {
        var index: UInt32?
        if let name = scope.interface {
            guard let interface = table.interface(named: name) else { return nil }
            index = interface.index
        }
        var queries: [RouteQuery] = []
        let destinations = destinations(of: scope, host: host)
        // With room for the questions that may be added.
        queries.reserveCapacity(destinations.count + 2)
        for destination in destinations where families.contains(FamilySet(destination.family)) {
            queries.append(RouteQuery(to: destination, interface: index, mark: scope.mark, uid: scope.uid))
        }
        return queries
    }

    /// The verdict, from answers of the kernel.
    package func path(
        for scope: Scope, host: [IPAddress] = [], _ answers: [RouteAnswer]?, families: FamilySet = .all,
        known: NetworkPath? = nil, _ table: InterfaceTable
    ) -> NetworkPath {
        path(
            for: scope, host: host, answers?.map { RouteQuery(to: $0.destination) }, answers?.map(\.verdict) ?? [],
            families: families, known: known, table)
    }

    /// The verdict, from the answers to ``queries(for:host:families:_:)``; `nil` instead of questions if there were none to ask.
    ///
    /// - Parameters:
    ///   - verdicts: an answer for each question. They are not put into pairs: copies are much of what a verdict costs.
    ///   - families: those that were asked about.
    ///   - known: the last verdict, which still holds for the other family.
    package func path(
        for scope: Scope, host: [IPAddress], _ queries: [RouteQuery]?, _ verdicts: [RouteVerdict], families: FamilySet,
        known: NetworkPath?, _ table: InterfaceTable
    ) -> NetworkPath {
        let destinations = destinations(of: scope, host: host)
        if scope.host != nil && destinations.isEmpty { return unresolved(scope, table) }
        func judgement(_ family: IPAddress.Family) -> FamilyPath {
            guard destinations.contains(where: { $0.family == family }) else { return FamilyPath() }
            if let known, !families.contains(FamilySet(family)) { return known[family] }
            guard let queries else { return FamilyPath(reason: .noInterface) }
            return judge(queries, verdicts, family, scope, table)
        }
        let (ipv4, ipv6) = (judgement(.ipv4), judgement(.ipv6))
        guard ipv4.isSatisfied || ipv6.isSatisfied else {
            let reason = ipv4.reason.map { max($0, ipv6.reason ?? $0) } ?? ipv6.reason
            return NetworkPath(status: .unsatisfied, offlineReason: reason ?? .noRoute, ipv4: ipv4, ipv6: ipv6)
        }
        let egress = ipv4.interface?.index ?? ipv6.interface?.index
        return NetworkPath(status: .satisfied, ipv4: ipv4, ipv6: ipv6, interface: egress.flatMap { table[$0] })
    }

    /// Judges one family by all its destinations; describes the first of those that count.
    private func judge(
        _ queries: [RouteQuery], _ verdicts: [RouteVerdict], _ family: IPAddress.Family, _ scope: Scope, _ table: InterfaceTable
    ) -> FamilyPath {
        if scope.host != nil { return judgeAny(queries, verdicts, family, scope, table) }
        // A representative that this machine itself holds says nothing about the network, unless there is no other.
        let answers = queries.indices.prefix(verdicts.count)
        let hasRemote = answers.contains { queries[$0].destination.family == family && !verdicts[$0].isLocal }
        var described: Way?
        for index in answers where queries[index].destination.family == family && !(hasRemote && verdicts[index].isLocal) {
            switch find(verdicts[index], to: queries[index].destination, table) {
            case .usable(let way):
                if described == nil { described = way }
            case .refused(let reason):
                return FamilyPath(reason: reason ?? missingLayer(queries[index].destination, scope, table))
            }
        }
        return described.map { FamilyPath($0, table) } ?? FamilyPath(reason: missingLayer(nil, scope, table))
    }

    /// Judges one family of a host: one address that can be reached is enough, and the first such is described.
    private func judgeAny(
        _ queries: [RouteQuery], _ verdicts: [RouteVerdict], _ family: IPAddress.Family, _ scope: Scope, _ table: InterfaceTable
    ) -> FamilyPath {
        var reasons: [OfflineReason] = []
        for (query, verdict) in zip(queries, verdicts) where query.destination.family == family {
            switch find(verdict, to: query.destination, table) {
            case .usable(let way): return FamilyPath(way, table)
            case .refused(let reason): reasons.append(reason ?? missingLayer(query.destination, scope, table))
            }
        }
        return FamilyPath(reason: reasons.max() ?? .noRoute)
    }

    /// The path to a host without addresses: what any network lacks is said first, for that may be why.
    private func unresolved(_ scope: Scope, _ table: InterfaceTable) -> NetworkPath {
        let layer = missingLayer(nil, scope, table)
        let reason = layer < .noRoute ? layer : .unresolved
        var path = NetworkPath(status: .unsatisfied)
        (path.ipv4, path.ipv6, path.offlineReason) = (FamilyPath(reason: reason), FamilyPath(reason: reason), reason)
        return path
    }

    package enum Judgement: Equatable, Sendable {
        case usable(FamilyPath)
        /// A reason given by the kernel, or `nil`: the missing layer has to be found.
        case refused(OfflineReason?)
    }

    /// Judges one answer of the kernel.
    package func judge(_ verdict: RouteVerdict, to destination: IPAddress, _ table: InterfaceTable) -> Judgement {
        switch find(verdict, to: destination, table) {
        case .usable(let way): .usable(FamilyPath(way, table))
        case .refused(let reason): .refused(reason)
        }
    }

    /// What one answer comes to, before anything is described: most answers only add to the verdict.
    private enum Finding {
        case usable(Way)
        case refused(OfflineReason?)
    }

    /// A route that can be used, and where its interface is in the table.
    fileprivate struct Way {
        var route: RouteVerdict.Route
        var place: Int
    }

    private func find(_ verdict: RouteVerdict, to destination: IPAddress, _ table: InterfaceTable) -> Finding {
        guard case .route(let route) = verdict else { return .refused(verdict.refusalReason) }
        // A bound IPv4 socket is answered even without a route: the kernel then takes any destination to be on the link, and says
        // so by table 0 (ip_route_output_key_hash_rcu, net/ipv4/route.c). Nobody would answer there.
        guard route.table != 0 else { return .refused(nil) }
        guard let place = table.position(of: route.interface), table.all[place].isUsable,
            route.isLocal || !table.all[place].isLoopback,
            isUsable(route.source, to: destination, isLocal: route.isLocal, table)
        else { return .refused(nil) }
        return .usable(Way(route: route, place: place))
    }

    /// Whether the source that the kernel chose can be used.
    ///
    /// While the only global IPv6 address awaits duplicate address detection the kernel answers `::1`, and an address may be gone
    /// or fail between the look-up and now.
    private func isUsable(_ source: IPAddress?, to destination: IPAddress, isLocal: Bool, _ table: InterfaceTable) -> Bool {
        guard let source else { return false }
        if isLocal { return source.isLoopback || table.holdsReady(source) }
        if source.isUnspecified || source.isLoopback { return false }
        if source.isLinkLocal && !destination.hasLinkScope { return false }
        return table.holdsReady(source)
    }
}

extension FamilyPath {
    fileprivate init(_ way: PathEvaluator.Way, _ table: InterfaceTable) {
        self.init(
            isSatisfied: true, interface: table.all[way.place].identity, gateway: way.route.gateway, source: way.route.source,
            table: way.route.table, metric: way.route.metric, prefixLength: way.route.prefixLength)
    }
}

extension IPAddress {
    /// Whether the address means something on one link only, so that a link-local source will do.
    package var hasLinkScope: Bool { isLinkLocal || isMulticast }
}

extension RouteVerdict {
    /// Whether the destination is an address of this machine.
    package var isLocal: Bool {
        if case .route(let route) = self { route.isLocal } else { false }
    }
}
