internal import Synchronization

extension ReachabilityMonitor {
    /// The number of immediate attempts of a dump for a waiting caller; the last one is taken as it is (KernelNetwork).
    private static let dumpLimit = 6
    /// The number of interfaces that are asked for a spare route.
    private static let spareLimit = 16

    /// Looks up the path to a scope now; publishes nothing.
    ///
    /// Costs two lookups for each address of the scope, and a dump of links and addresses unless the monitor runs. A watched host's
    /// known addresses are used; any other host is looked up first, which blocks until a name server answers. Safe to call from any
    /// thread; it holds no lock during its requests. Uses RTM_GETLINK, RTM_GETADDR and RTM_GETROUTE (rtnetlink(7)).
    ///
    /// - Throws: ``ReachabilityError`` if the kernel cannot be asked.
    public func path(to scope: Scope) throws(ReachabilityError) -> NetworkPath {
        let host = hosts(of: [scope], within: nil)[0]
        let entry = ScopeEvaluation(scope, host: host.addresses, nameLookupFailure: host.failure)
        if let table = liveTable, let path = try path(for: entry, table, isLive: true) { return path }
        return try path(for: entry, try freshTable(), isLive: false) ?? .unknown
    }

    /// Requests an evaluation of a watched scope.
    ///
    /// Observers of its condition are called after that evaluation, even if nothing changed. Returns at once; a source that
    /// delivers on the calling thread has evaluated the scope by then. Does nothing for a scope that is not watched.
    package func reevaluate(_ scope: Scope) {
        state.withLock { $0.core.request(scope) }
        source.wake()
    }

    /// Looks up scopes now and returns every step of the verdicts.
    ///
    /// - Parameters:
    ///   - limit: the time for name servers in all; `nil` for no limit, zero to ask none.
    ///   - isThorough: true to look for ``Explanation/caveats``, too.
    /// - Throws: ``ReachabilityError`` if the kernel cannot be asked.
    package func explanations(
        of scopes: [Scope], within limit: Duration? = nil, isThorough: Bool = false
    ) throws(ReachabilityError) -> [Explanation] {
        var explanations: [Explanation] = []
        for (scope, host) in zip(scopes, hosts(of: scopes, within: limit)) {
            var explanation = try explanation(of: scope, host)
            if isThorough, let source = source as? any EvidenceSource {
                explanation.evidence = source.evidence(about: explanation.openQuestions)
            }
            explanations.append(explanation)
        }
        return explanations
    }

    private func explanation(of scope: Scope, _ host: Host) throws(ReachabilityError) -> Explanation {
        let table = try freshTable()
        let groups = evaluator.groups(of: scope, host: host.addresses)
        let lookups = evaluator.lookups(for: scope, host: host.addresses, table)
        var steps: [(position: Int, lookup: Explanation.Lookup)] = []
        var batch = LookupBatch()
        batch.append(lookups ?? [])
        var asked: [(position: Int, query: RouteQuery, verdict: RouteVerdict)] = []
        run(&batch, table) { batch, round, answers in
            for (place, query) in round.enumerated() where place < answers.count {
                // The entry of a table shows the other next hops, and is no step of its own.
                guard case .success(let verdict) = answers[place], !query.fibMatch else { continue }
                asked.append((batch.position(ofQuery: place), query, verdict))
            }
        }
        for step in asked {
            let lookup = Explanation.Lookup(query: step.query, verdict: step.verdict, match: try match(step.query, step.verdict))
            steps.append((step.position, lookup))
        }
        let decisions = try batch.decisions(about: 0)
        for (position, decision) in decisions.enumerated() {
            let (own, query) = (steps.indices.filter { steps[$0].position == position }, decision.query)
            // An earlier lookup may decide: a later one may have found nothing better.
            let deciding = own.last { steps[$0].lookup.query == query && steps[$0].lookup.verdict == decision.verdict }
            guard let place = deciding ?? own.last else { continue }
            steps[place].lookup.isDecisive = true
            steps[place].lookup.judgement = PathEvaluator.judge(decision, table)
            // The members before or after it were asked in vain, and so was what the egress interface stands on.
            let ends = Dictionary(own.map { (steps[$0].lookup.query.destination, $0) }) { $1 }
            // So was the next hop that the kernel chose, if another one decides.
            let chosen = own.last { place in
                steps[place].lookup.query.destination == query.destination && steps[place].lookup.query.interface == nil
            }
            if let chosen, query.interface != nil, scope.interface == nil {
                let step = steps[chosen].lookup
                steps[chosen].lookup.judgement = PathEvaluator.judge(step.verdict, to: step.query, table)
            }
            for (member, end) in ends where member != query.destination {
                let step = steps[end].lookup
                steps[end].lookup.judgement = PathEvaluator.judge(step.verdict, to: step.query, table)
            }
            steps[place].lookup.notAsked = groups[position].filter { ends[$0] == nil }
        }
        var path = evaluator.path(
            for: scope, host: host.addresses, lookups.map { _ in decisions }, failure: host.failure, table)
        try read(RouteDetails(of: path, decisions), of: scope, table, into: &path)
        for place in steps.indices where steps[place].lookup.isDecisive {
            let family = steps[place].lookup.query.destination.family
            guard path[family].partialReason != nil, case .route(let entry) = steps[place].lookup.match else { continue }
            steps[place].lookup.failingHops = table.failingHops(among: entry.nextHops, family)
        }
        let order = steps.indices.sorted { (steps[$0].position, $0) < (steps[$1].position, $1) }
        let ordered = order.map { steps[$0].lookup }
        let spares = path.isSatisfied ? [] : spares(behind: ordered, scope, host, table)
        return Explanation(
            scope: scope, path: path, interfaces: table.all, lookups: ordered + spares,
            layers: Explanation.layers(of: table, ordered),
            lostEgress: state.withLock { $0.core.scopes[scope]?.level.lostEgress })
    }

    /// Returns the lookups that find working routes behind dead ones, one for each family at most.
    ///
    /// Each route is in the same table and for the same prefix as the dead one: others may be reached by rules that select by
    /// source, or lead to another network. Around a dead tunnel packets would leave unencrypted, and a tunnel may need the dead
    /// route itself.
    private func spares(
        behind lookups: [Explanation.Lookup], _ scope: Scope, _ host: Host, _ table: InterfaceTable
    ) -> [Explanation.Lookup] {
        var spares: [Explanation.Lookup] = []
        for family in IPAddress.Family.allCases where scope.interface == nil {
            let decisive = lookups.filter { $0.isDecisive && $0.query.destination.family == family }
            guard let group = decisive.firstIndex(where: { $0.judgement == .refused(.noCarrier) }),
                let first = lookups.first(where: { $0.query == decisive[group].query.from(.unspecified) }),
                PathEvaluator.judge(first.verdict, to: first.query, table) == .refused(.noCarrier),
                case .route(let dead) = first.match, table[dead.interface]?.kind != .tunnel
            else { continue }
            var batch = LookupBatch()
            let interfaces = table.all.filter { $0.isUsable && !$0.isLoopback && $0.kind != .tunnel }.prefix(Self.spareLimit)
            let bound = interfaces.map { interface in
                var bound = scope
                bound.interface = interface.name
                return bound
            }
            for scope in bound {
                batch.append(evaluator.lookups(for: scope, host: host.addresses, families: FamilySet(family), table) ?? [])
            }
            run(&batch, table)
            var best: (lookup: Explanation.Lookup, metric: UInt32)?
            for (place, scope) in bound.enumerated() {
                // Without an answer, as in a sandbox that forbids bound sockets, there is no evidence.
                guard let decisions = try? batch.decisions(about: place), group < decisions.count,
                    evaluator.path(for: scope, host: host.addresses, decisions, table).supports(family)
                else { continue }
                let (query, verdict) = (decisions[group].query, decisions[group].verdict)
                guard case .route(let entry) = try? source.routes(to: [query.from(.unspecified).matching]).first?.get(),
                    (entry.table, entry.prefixLength) == (dead.table, dead.prefixLength)
                else { continue }
                let metric = entry.metric ?? 0
                if let best, best.metric <= metric { continue }
                let spare = Explanation.Lookup(
                    query: query, verdict: verdict, match: try? match(query, verdict),
                    judgement: PathEvaluator.judge(decisions[group], table), isSpare: true)
                best = (spare, metric)
            }
            if let best { spares.append(best.lookup) }
        }
        return spares
    }

    /// Returns the table entry behind an answer; `nil` if there is none.
    private func match(_ query: RouteQuery, _ verdict: RouteVerdict) throws(ReachabilityError) -> RouteVerdict? {
        guard let entry = query.entry(behind: verdict) else { return nil }
        return try source.routes(to: [entry]).first?.get()
    }

    /// Fills in the kernel's answers to an evaluation.
    ///
    /// A request that fails is counted and leaves the last known state.
    func lookUp(_ evaluation: inout Evaluation) {
        if !evaluation.links.isEmpty, evaluation.dump != .needed, let source = source as? any UnderlaySource,
            let links = try? source.links(evaluation.links)
        {
            evaluation.noteLinks(links)
        }
        if evaluation.dump != .needed {
            lookUpRoutes(&evaluation)
            guard evaluation.dump == .toConfirm, evaluation.hasChanges else { return }
            evaluation.discardVerdicts()
        }
        do throws(ReachabilityError) {
            evaluation.noteDump(try source.interfaces())
        } catch {
            // Verdicts by a table that is known to be old would mean nothing.
            evaluation.failures.append(error)
            return
        }
        lookUpRoutes(&evaluation)
    }

    /// Asks by which ports bridges know the gateways of an evaluation's paths.
    func inspectPorts(_ evaluation: inout Evaluation) {
        guard let source = source as? any UnderlaySource else { return }
        for bridged in evaluation.bridged {
            if let port = try? source.inspect(bridged.inspection) { evaluation.ports[bridged] = port }
        }
    }

    private func lookUpRoutes(_ evaluation: inout Evaluation) {
        let table = evaluation.table
        // For many scopes the additional lookups would cost more than the saved round.
        var batch = LookupBatch(expecting: evaluation.scopes.count == 1 ? table.firstIPv4Source : nil)
        let haveQueries = evaluation.scopes.map { entry in
            let lookups = evaluator.lookups(for: entry.scope, host: entry.host, families: entry.families, table)
            batch.append(lookups ?? [])
            return lookups != nil
        }
        run(&batch, table)
        for place in evaluation.scopes.indices {
            do throws(ReachabilityError) {
                let decisions = try batch.decisions(about: place)
                judge(&evaluation.scopes[place], haveQueries[place] ? decisions : nil, table)
            } catch {
                evaluation.failures.append(error)
            }
        }
    }

    /// Runs rounds of queries until all lookups are answered.
    ///
    /// - Parameter note: called with each round and its answers.
    private func run(
        _ batch: inout LookupBatch, _ table: InterfaceTable,
        note: ((LookupBatch, [RouteQuery], [Result<RouteVerdict, ReachabilityError>]) -> Void)? = nil
    ) {
        while true {
            let queries = batch.nextRound()
            if !queries.isEmpty {
                let answers = source.routes(to: queries)
                batch.accept(answers, table)
                note?(batch, queries, answers)
            } else if let candidates = batch.nextInspection() {
                // Without an answer the tunnel stands.
                let holder = try? (source as? any UnderlaySource)?.inspect(.ownRoute(among: candidates))
                batch.accept(ownRoute: holder ?? candidates.first, table)
            } else {
                return
            }
        }
    }

    /// Judges one scope, as far as level and epoch depend on it; the details of a new way are read later.
    private func judge(
        _ entry: inout ScopeEvaluation, _ decisions: [Decision]?, _ table: InterfaceTable
    ) {
        var path = evaluator.path(
            for: entry.scope, host: entry.host, decisions, families: entry.families, known: entry.known,
            failure: entry.nameLookupFailure, table)
        let details = RouteDetails(of: path, decisions ?? [])
        if let known = entry.known, entry.isDescribed, !path.takesAnotherWay(than: known) {
            path.copyDetails(from: known)
            // Their lifetimes are read each time: nothing else ends them, and a path that works asks for none.
            if !path.isSatisfied { entry.details = details }
        } else {
            entry.details = details
        }
        entry.path = path
    }

    /// Returns the path of one scope, with its details.
    ///
    /// - Parameter isLive: true if the table follows events, and may be a moment behind the lookups.
    /// - Returns: `nil` if a live table lacks the interface or the source of an answer.
    private func path(
        for entry: ScopeEvaluation, _ table: InterfaceTable, isLive: Bool
    ) throws(ReachabilityError) -> NetworkPath? {
        var entry = entry
        var batch = LookupBatch()
        let lookups = evaluator.lookups(for: entry.scope, host: entry.host, table)
        if lookups == nil && isLive { return nil }
        batch.append(lookups ?? [])
        run(&batch, table)
        let decisions = try batch.decisions(about: 0)
        if isLive, !decisions.allSatisfy({ table.knows($0.verdict) }) { return nil }
        judge(&entry, lookups.map { _ in decisions }, table)
        guard var path = entry.path else { return nil }
        try read(entry.details, of: entry.scope, table, into: &path)
        return path
    }

    /// Reads the details of new ways.
    ///
    /// A request that fails is counted and leaves a path without them, until the next evaluation.
    func readDetails(_ evaluation: inout Evaluation) {
        for place in evaluation.scopes.indices where !evaluation.scopes[place].details.isEmpty {
            guard var path = evaluation.scopes[place].path else { continue }
            do throws(ReachabilityError) {
                let lifetime = try read(
                    evaluation.scopes[place].details, of: evaluation.scopes[place].scope, evaluation.table, into: &path)
                // Routes of IPv4 have no end.
                if evaluation.scopes[place].families.contains(FamilySet(.ipv6)) {
                    evaluation.scopes[place].expiry = .some(
                        lifetime.map { evaluation.now.saturatingAdd($0).saturatingAdd(Self.lifetimeMargin) })
                }
                evaluation.scopes[place].details = RouteDetails()
            } catch {
                evaluation.failures.append(error)
            }
            evaluation.scopes[place].path = path
        }
    }

    /// The kernel rounds lifetimes to hundredths of a second.
    private static let lifetimeMargin: Duration = .milliseconds(20)

    /// Fills in the data of the table entries: prefix length, metric and next hops that fail.
    ///
    /// - Returns: the least remaining lifetime of the entries; `nil` if none ends.
    @discardableResult
    private func read(
        _ details: RouteDetails, of scope: Scope, _ table: InterfaceTable, into path: inout NetworkPath
    ) throws(ReachabilityError) -> Duration? {
        let queries = details.queries
        if queries.isEmpty { return nil }
        var lifetime: Duration?
        for (place, (query, answer)) in zip(queries, source.routes(to: queries)).enumerated() {
            if place >= queries.count - details.others.count {
                // One that fails says no more than one without an end.
                if case .success(.route(let match)) = answer { lifetime = Duration.earlier(lifetime, match.lifetime) }
                continue
            }
            guard case .route(let match) = try answer.get() else { continue }
            let isChoice = scope.destination == .internet || match.choosesByPorts
            path.describe(
                query.destination.family, match, failing: isChoice ? table.failure(among: match.nextHops) : nil)
            lifetime = Duration.earlier(lifetime, match.lifetime)
        }
        return lifetime
    }

    /// The links and addresses as of the last event; `nil` unless the monitor hears every event.
    private var liveTable: InterfaceTable? {
        state.withLock { state in
            state.phase == .running && state.core.hasCurrentTable ? state.core.table : nil
        }
    }

    /// The links and addresses as of now, with what the monitor knows of the ways below them.
    private func freshTable() throws(ReachabilityError) -> InterfaceTable {
        InterfaceTable(try dump(), state.withLock { $0.core.table.memory })
    }

    /// Dumps links and addresses for a waiting caller.
    private func dump() throws(ReachabilityError) -> [NetworkInterface] {
        for _ in 1..<Self.dumpLimit {
            do throws(ReachabilityError) {
                return try source.interfaces()
            } catch {
                if error.code != .interrupted { throw error }
            }
        }
        return try source.interfaces()
    }

    /// The addresses of a scope's host, or the reason why it has none.
    private struct Host {
        var addresses: [IPAddress] = []
        var failure: NameLookupFailure?
    }

    /// Returns the hosts of scopes: the known addresses of watched hosts, the others looked up now.
    private func hosts(of scopes: [Scope], within limit: Duration?) -> [Host] {
        var hosts = scopes.map { _ in Host() }
        var unknown: [(place: Int, name: String)] = []
        state.withLock { state in
            for (place, scope) in scopes.enumerated() {
                guard let name = scope.host else { continue }
                if let addresses = state.core.addresses(ofHost: name) {
                    hosts[place] = Host(addresses: addresses, failure: state.core.nameLookupFailure(of: scope))
                } else {
                    unknown.append((place, name))
                }
            }
        }
        if unknown.isEmpty { return hosts }
        let answers = limit == .zero ? nil : (source as? any HostAnswering)?.answers(for: unknown.map(\.name), within: limit)
        for (index, (place, _)) in unknown.enumerated() {
            switch answers?[index] {
            case .addresses(let addresses): hosts[place].addresses = HostCache.inOrder(addresses)
            case .failed(let failure): hosts[place].failure = failure
            case nil: hosts[place].failure = .notAsked
            }
        }
        return hosts
    }
}

extension InterfaceTable {
    /// Returns true if the table has the interface and the source of an answer.
    fileprivate func knows(_ verdict: RouteVerdict) -> Bool {
        guard case .route(let route) = verdict else { return true }
        guard position(of: route.interface) != nil else { return false }
        guard let source = route.source, !source.isLoopback, !source.isUnspecified else { return true }
        return holdsReady(source)
    }
}

/// The steps of the verdict about a scope, for `explain`.
package struct Explanation: Sendable {
    /// One lookup in the forwarding table.
    package struct Lookup: Sendable {
        package var query: RouteQuery
        package var verdict: RouteVerdict
        /// The table's entry, if there is a route.
        package var match: RouteVerdict?
        /// The judgement of the answer; `nil` if the next lookup, with a source, counts instead.
        package var judgement: PathEvaluator.Judgement?
        /// True if this answer decides about its group of destinations.
        package var isDecisive = false
        /// The members of the group that were not asked, because this one passes.
        package var notAsked: [IPAddress] = []
        /// True if this answer shows a working route behind the one that decided.
        package var isSpare = false
        /// The next hops of the table's entry whose interface does not work.
        package var failingHops: [FailingNextHop] = []
    }

    package var scope: Scope
    package var path: NetworkPath
    package var interfaces: [NetworkInterface]
    package var lookups: [Lookup]
    /// The missing layer of each interface but the loopback device, by index; `noRoute` if none is missing.
    ///
    /// A port without addresses of its own is not among them.
    package var layers: [UInt32: OfflineReason]
    /// The interface that packets left through until a running monitor saw the loss.
    package var lostEgress: NetworkInterface.Identity?
    /// The answers to ``openQuestions``; empty unless they were asked.
    package var evidence = Evidence()

    /// Returns the missing layers; an interface that packets leave through lacks none, whatever addresses it has itself.
    fileprivate static func layers(of table: InterfaceTable, _ lookups: [Lookup]) -> [UInt32: OfflineReason] {
        var layers: [UInt32: OfflineReason] = [:]
        for interface in table.all where !interface.isLoopback {
            let layer = PathEvaluator.layer(of: interface, for: nil)
            if !interface.leaves(layer, to: table.all) { layers[interface.index] = layer }
        }
        for lookup in lookups {
            guard case .route(let route) = lookup.verdict, case .usable = lookup.judgement, !route.isLocal else { continue }
            layers[route.interface] = .noRoute
        }
        return layers
    }
}

extension ReachabilityMonitor {
    /// Returns the missing layer of a watched scope in words, as of the last event: `eth0 has no carrier (noCarrier)`.
    ///
    /// `nil` if no layer is missing. Makes no request. Interface names are escaped.
    package func missing(for scope: Scope) -> String? {
        guard let (words, reason) = obstacle(to: scope) else { return nil }
        return reason.map { "\(words) (\($0.rawValue))" } ?? words
    }

    /// Returns the missing layer of a watched scope in words, as ``missing(for:)`` does, and its reason apart from it.
    package func obstacle(to scope: Scope) -> (words: String, reason: OfflineReason?)? {
        let (path, table, host, lost) = state.withLock { state in
            (
                state.core.path(scope), state.core.table, scope.host.flatMap { state.core.addresses(ofHost: $0) } ?? [],
                state.core.scopes[scope]?.level.lostEgress
            )
        }
        guard let path, path.status != .unknown else { return ("not known yet", nil) }
        guard let reason = path.offlineReason else { return nil }
        if let obstacle = path.obstacle { return (escapedForTerminal(obstacle.description), reason) }
        if let failure = path.nameLookupFailure { return ("\(failure)", reason) }
        let destinations = evaluator.groups(of: scope, host: host).map { $0[0] }
        return switch Culprit(of: path, scope, to: destinations, lost, table.all) {
        case .interface(let interface, let layer): (layer.sentence(about: escapedForTerminal(interface.name)), layer)
        case .gone(let name): ("\(escapedForTerminal(name)) is gone", reason)
        case .oneOf(let stops) where reason < .noRoute && !stops.isEmpty: (stops.facts(escapedForTerminal), reason)
        case .oneOf, nil: (reason.sentence(about: "the interface"), reason)
        }
    }
}

extension InterfaceTable {
    /// Returns the next hops whose interface, or what it stands on, does not work.
    fileprivate func failingHops(among hops: [RouteVerdict.Route.NextHop], _ family: IPAddress.Family) -> [FailingNextHop] {
        hops.compactMap { hop in
            guard let reason = failure(of: hop) else { return nil }
            let identity = self[hop.interface]?.identity ?? .init(index: hop.interface, name: "interface \(hop.interface)")
            // The interface lacks nothing if its gateway does.
            return FailingNextHop(
                interface: identity, gateway: hop.gateway, family: family, reason: reason < .noRoute ? reason : nil,
                isSkipped: hop.isDead)
        }
    }
}
