/// The rules that turn lookups and the interface table into a verdict about a scope.
///
/// Pure.
package struct PathEvaluator: Sendable {
    /// The groups of addresses that stand for the internet; each is of one family.
    package let representatives: [[IPAddress]]
    /// One destination in the internet for each family.
    private let groundDestinations: [IPAddress]

    package init(ipv4Representatives: [[IPAddress]], ipv6Representatives: [[IPAddress]]) {
        func groups(_ groups: [[IPAddress]], _ family: IPAddress.Family) -> [[IPAddress]] {
            groups.map { $0.filter { $0.family == family } }.filter { !$0.isEmpty }
        }
        let (ipv4, ipv6) = (groups(ipv4Representatives, .ipv4), groups(ipv6Representatives, .ipv6))
        representatives = ipv4 + ipv6
        groundDestinations = [ipv4, ipv6].compactMap { $0.first?.first }
    }

    /// Returns the groups of a scope's destinations: a family is satisfied if each of its groups has a reachable member.
    ///
    /// - Parameter host: the known addresses of the scope's host.
    package func groups(of scope: Scope, host: [IPAddress] = []) -> [[IPAddress]] {
        switch scope.destination {
        case .internet: return representatives
        case .address(let address): return [[Self.connected(address)]]
        case .host:
            return IPAddress.Family.allCases.map { family in host.filter { $0.family == family } }.filter { !$0.isEmpty }
        }
    }

    /// Returns the address that connect(2) goes to.
    ///
    /// `::` means `::1` (tcp_v6_connect, net/ipv6/tcp_ipv6.c); the lookup itself takes 0.0.0.0 for this host
    /// (ip_route_output_key_hash_rcu, net/ipv4/route.c).
    private static func connected(_ address: IPAddress) -> IPAddress {
        address.family == .ipv6 && address.isUnspecified ? IPAddress(family: .ipv6, value: 1) : address
    }

    /// Returns the lookups about a scope, one for each group; `nil` if it is bound to an interface that does not exist.
    ///
    /// - Parameter families: the families to look up.
    package func lookups(
        for scope: Scope, host: [IPAddress] = [], families: FamilySet = .all, _ table: InterfaceTable
    ) -> [Lookup]? {
        var index: UInt32?
        if let name = scope.interface {
            guard let interface = table.interface(named: name) else { return nil }
            index = interface.index
        }
        var lookups: [Lookup] = []
        let groups = groups(of: scope, host: host)
        lookups.reserveCapacity(groups.count)
        for group in groups where families.contains(FamilySet(group[0].family)) {
            let query = RouteQuery(
                to: group[0], interface: index, mark: scope.mark, uid: scope.uid, transport: scope.transport, port: scope.port)
            lookups.append(
                Lookup(
                    query, group, prefersRemote: scope.destination == .internet, groundDestinations: groundDestinations))
        }
        return lookups
    }

    /// Returns the verdict from the answers to the lookups of ``lookups(for:host:families:_:)``.
    ///
    /// - Parameters:
    ///   - decisions: one for each lookup; `nil` if there were none.
    ///   - families: the families that were looked up.
    ///   - known: the last verdict, which still holds for the other family.
    ///   - failure: the reason why the scope's host has no addresses.
    package func path(
        for scope: Scope, host: [IPAddress] = [], _ decisions: [Decision]?, families: FamilySet = .all, known: NetworkPath? = nil,
        failure: NameLookupFailure? = nil, _ table: InterfaceTable
    ) -> NetworkPath {
        let groups = groups(of: scope, host: host)
        if scope.host != nil && groups.isEmpty { return unresolved(scope, failure, table) }
        func judgement(_ family: IPAddress.Family) -> FamilyPath {
            guard groups.contains(where: { $0[0].family == family }) else { return FamilyPath() }
            if let known, !families.contains(FamilySet(family)) { return known[family] }
            guard let decisions else { return FamilyPath(reason: .noInterface) }
            return judge(decisions, family, scope, table)
        }
        let (ipv4, ipv6) = (judgement(.ipv4), judgement(.ipv6))
        guard ipv4.isSatisfied || ipv6.isSatisfied else {
            var path = NetworkPath(
                status: .unsatisfied, offlineReason: Self.reason(ipv4, ipv6), ipv4: ipv4, ipv6: ipv6)
            path.obstacle = [ipv4, ipv6].first { $0.reason == path.offlineReason && $0.obstacle != nil }?.obstacle
            guard path.offlineReason == .noInterface, let name = scope.interface else { return path }
            if decisions == nil {
                path.obstacle = .missing(name)
            } else if table.interface(named: name)?.isLoopback == true {
                path.obstacle = .loopback(name)
            }
            return path
        }
        let egress = ipv4.interface?.index ?? ipv6.interface?.index
        return NetworkPath(status: .satisfied, ipv4: ipv4, ipv6: ipv6, interface: egress.flatMap { table[$0] })
    }

    /// Returns the reason of a path: the later of its families' reasons.
    ///
    /// A reason from a lookup precedes one that was inferred from the interfaces: those include devices without an uplink, such as
    /// the bridge of a container engine.
    private static func reason(_ ipv4: FamilyPath, _ ipv6: FamilyPath) -> OfflineReason {
        let both = [ipv4, ipv6]
        let evident = both.filter { !$0.isInferred }.compactMap(\.reason).max()
        return evident ?? both.compactMap(\.reason).max() ?? .noRoute
    }

    /// Judges one family by the answers of its groups, and describes the first way that leads to another machine.
    private func judge(
        _ decisions: [Decision], _ family: IPAddress.Family, _ scope: Scope, _ table: InterfaceTable
    ) -> FamilyPath {
        var described: (way: Way, ground: [UInt32])?
        var partialReason: OfflineReason?
        for decision in decisions where decision.query.destination.family == family {
            switch Self.find(decision, table) {
            case .usable(let way):
                if described?.way.route.isLocal ?? true { described = (way, decision.underlay.ground) }
                partialReason = partialReason ?? decision.partialReason
            case .refused(let reason, let obstacle):
                var refused = FamilyPath(reason: reason)
                refused.obstacle = obstacle
                if case .route(let route) = decision.verdict { refused.refusedInterface = route.interface }
                return refused
            case .noWay:
                var inferred = FamilyPath(reason: Self.missingLayer(decision.query.destination, scope, table))
                inferred.isInferred = true
                return inferred
            }
        }
        guard let described else { return FamilyPath(reason: Self.missingLayer(nil, scope, table)) }
        var path = FamilyPath(described.way, table)
        (path.ground, path.partialReason) = (described.ground, partialReason)
        return path
    }

    /// Returns the path to a host without addresses; a missing lower layer is named first, because it may be the cause.
    private func unresolved(_ scope: Scope, _ failure: NameLookupFailure?, _ table: InterfaceTable) -> NetworkPath {
        let layer = Self.missingLayer(nil, scope, table)
        let reason = layer < .noRoute ? layer : .unresolved
        var path = NetworkPath(status: .unsatisfied)
        (path.ipv4, path.ipv6, path.offlineReason) = (FamilyPath(reason: reason), FamilyPath(reason: reason), reason)
        if reason == .unresolved { path.nameLookupFailure = failure ?? .notAsked }
        return path
    }

    package enum Judgement: Equatable, Sendable {
        case usable(FamilyPath)
        /// The kernel, or the interface or source of its choice, gives a reason.
        case refused(OfflineReason)
        /// No reason: the lookup chose no interface.
        case noWay
    }

    /// Judges one answer of the kernel, apart from what its interface stands on.
    package static func judge(_ verdict: RouteVerdict, to query: RouteQuery, _ table: InterfaceTable) -> Judgement {
        judge(Decision(query: query, verdict: verdict), table)
    }

    /// Judges the answer that decided.
    package static func judge(_ decision: Decision, _ table: InterfaceTable) -> Judgement {
        switch find(decision, table) {
        case .usable(let way): .usable(FamilyPath(way, table))
        case .refused(let reason, _): .refused(reason)
        case .noWay: .noWay
        }
    }

    /// Returns the reason of an answer that does not pass, and the interface that its lookup chose.
    static func failure(
        _ verdict: RouteVerdict, to query: RouteQuery, _ table: InterfaceTable
    ) -> (reason: OfflineReason, interface: NetworkInterface.Identity?) {
        var chosen: NetworkInterface.Identity?
        if case .route(let route) = verdict, let place = table.position(of: route.interface) { chosen = table.all[place].identity }
        switch find(verdict, to: query, table) {
        case .refused(let reason, let obstacle): return (reason, obstacle?.culprit ?? chosen)
        case .noWay, .usable: return (.noRoute, nil)
        }
    }

    /// Returns true if packets could be sent by this answer.
    static func passes(_ verdict: RouteVerdict, to query: RouteQuery, _ table: InterfaceTable) -> Bool {
        if case .usable = find(verdict, to: query, table) { true } else { false }
    }

    /// A judgement without a description: most answers only add to the verdict.
    private enum Finding {
        case usable(Way)
        case refused(OfflineReason, NetworkPath.Obstacle? = nil)
        case noWay
    }

    /// A usable route, and the position of its interface in the table.
    fileprivate struct Way {
        var route: RouteVerdict.Route
        var place: Int
    }

    private static func find(_ decision: Decision, _ table: InterfaceTable) -> Finding {
        if case .failed(let reason, let obstacle) = decision.underlay { return .refused(reason, obstacle) }
        return find(decision.verdict, to: decision.query, table)
    }

    private static func find(_ verdict: RouteVerdict, to query: RouteQuery, _ table: InterfaceTable) -> Finding {
        guard case .route(let route) = verdict else {
            if verdict.mayLackSource, case .address(let source) = query.source, query.destination.family == .ipv4,
                !table.holdsReady(source)
            {
                return .refused(.noAddress)
            }
            return verdict.refusalReason.map { .refused($0) } ?? .noWay
        }
        guard let place = table.position(of: route.interface) else { return .noWay }
        let interface = table.all[place]
        if !route.isLocal && interface.isLoopback { return .noWay }
        if let lower = table.obstacle(at: place) {
            let reason = layer(of: table.all[lower], for: nil)
            if lower == place { return .refused(reason) }
            return .refused(reason, .below(interface.identity, lower: table.all[lower].identity, reason))
        }
        // A bound IPv4 socket is answered even without a route: the kernel then takes any destination to be on the link, and
        // says so by table 0 (ip_route_output_key_hash_rcu, net/ipv4/route.c). Only a point-to-point link has one other end.
        // For a multicast destination it takes the interface of the source, whatever the table says.
        let isGuess = !route.isLocal && route.table == 0 && !query.destination.isMulticast
        if isGuess && !interface.isPointToPoint { return .noWay }
        guard isUsable(route, query, table) else {
            let layer = layer(of: interface, for: query.destination)
            return .refused(layer == .noRoute ? .noAddress : layer)
        }
        return .usable(Way(route: route, place: place))
    }

    /// Returns true if packets may come from the source that the kernel chose.
    ///
    /// While the only global IPv6 address awaits duplicate address detection the kernel answers `::1`, and an address may be gone
    /// or fail between the lookup and now. A router translates an IPv4 source from the link's own block (RFC 3927) for guests, but
    /// without a router it leads no further.
    private static func isUsable(_ route: RouteVerdict.Route, _ query: RouteQuery, _ table: InterfaceTable) -> Bool {
        guard let source = route.source else { return false }
        // A whole block may be local without an address of an interface (RTN_LOCAL, ip-route(8)).
        if route.isLocal { return source.isLoopback || source == query.destination || table.holdsReady(source) }
        if source.isUnspecified || source.isLoopback { return false }
        if source.isLinkLocal && !query.destination.hasLinkScope && (source.family == .ipv6 || route.gateway == nil) {
            return false
        }
        // The kernel refuses IPv4 lookups with a source that is not local (__ip_dev_find, net/ipv4/devinet.c).
        return source.family == .ipv4 && query.source == .address(source) || table.holdsReady(source)
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
    /// True if the address belongs to one link, so that a link-local source suffices.
    package var hasLinkScope: Bool { isLinkLocal || isMulticast }
}

extension PathEvaluator {
    /// Returns the missing layer of the interface that got furthest.
    package static func missingLayer(_ destination: IPAddress?, _ scope: Scope, _ table: InterfaceTable) -> OfflineReason {
        var furthest = OfflineReason.noInterface
        for interface in table.all where !interface.isLoopback && interface.isMeant(by: scope) {
            furthest = max(furthest, layer(of: interface, for: destination))
        }
        return furthest
    }

    /// Returns the missing layer of one interface; `noRoute` if none is missing.
    package static func layer(of interface: NetworkInterface, for destination: IPAddress?) -> OfflineReason {
        guard interface.isUp else { return .adminDown }
        guard interface.hasCarrier else { return .noCarrier }
        guard interface.isUsable else { return .dormant }
        var layer = OfflineReason.noAddress
        for held in interface.addresses where held.canReach(destination) {
            if held.isReady { return .noRoute }
            if held.isTentative && !held.hasFailedDetection { layer = .addressTentative }
        }
        return layer
    }
}

extension NetworkInterface {
    /// Returns false if a scope is bound to another interface.
    package func isMeant(by scope: Scope) -> Bool { scope.interface.map { hasName($0) } ?? true }

    /// Returns true for the name and for each alternative name.
    package func hasName(_ text: String) -> Bool { name == text || alternativeNames.contains(text) }
}

extension NetworkInterface.Address {
    /// Returns true if packets to a destination may come from this address; `nil` means any destination.
    fileprivate func canReach(_ destination: IPAddress?) -> Bool {
        guard let destination else { return true }
        return address.family == destination.family && !address.isLoopback && (!address.isLinkLocal || destination.hasLinkScope)
    }
}
