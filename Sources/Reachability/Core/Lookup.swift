/// The sequence of lookups about one group of destinations, each of which depends on the answer before.
///
/// The members of a group are asked in turn until one passes; if none does, the first one's answer counts.
///
/// connect(2) chooses a source and then looks up again with that source: a rule may refuse it or lead it elsewhere. IPv4 is
/// therefore always looked up twice. For IPv6 the second lookup matters only if the first one fails: a route may accept certain
/// sources only (`from`, ip-route(8)), and the kernel then tries its sources (ip6_dst_lookup_tail, net/ipv6/ip6_output.c).
package struct Lookup: Sendable {
    // Rare cases are indirect: lookups are copied between an event and its verdict.
    private enum Phase: Equatable, Sendable {
        /// Without a source.
        case first
        /// IPv4: with the source that the kernel chose.
        case confirmation
        /// IPv6: with the source that a connected socket chose.
        case selection
        /// IPv6, where no such socket can be made: with each usable source in turn.
        indirect case trial(rest: [IPAddress])
        /// IPv6, after a datagram socket was refused that asked for another transport: with each usable source in turn.
        indirect case review(refusal: RouteVerdict, rest: [IPAddress])
        /// The same source for a datagram: rules may tell transports apart.
        indirect case comparison(refusal: RouteVerdict, verdict: RouteVerdict, rest: [IPAddress])
        /// The entry of the table, which may have other next hops.
        case entry
        /// No ground passes by itself: one with a route of its own counts, too.
        case inspection
        case done
    }

    /// An answer that counts if no later member of the group passes.
    private indirect enum Fallback: Sendable {
        case answer(Decision)
    }

    /// An answer whose egress interface stands on something that is looked up.
    private struct Upper: Sendable {
        enum Question: Sendable {
            /// The way to the tunnel's far end.
            case remote(NetworkInterface.Remote)
            /// The way through another next hop of the same route.
            case nextHop(rest: ArraySlice<UInt32>)
            /// The interfaces that pass by themselves, as far as they were asked.
            case ground(found: [UInt32], rest: ArraySlice<RouteQuery>, asked: [RouteQuery])
        }

        var query: RouteQuery
        var verdict: RouteVerdict
        /// The interface of the answer.
        var egress: NetworkInterface.Identity
        var question: Question
    }

    /// The number of tunnels in tunnels that are followed; the kernel drops packets in deeper ones (net/core/dev.c).
    private static let tunnelLimit = 4

    /// The number of sources that are tried where no socket can be asked.
    fileprivate static let trialLimit = 16

    /// The query to ask next; once done, the one that decided.
    package private(set) var query: RouteQuery
    /// The answer to ``query``, once done.
    package private(set) var verdict = RouteVerdict.noRoute
    private var phase = Phase.first
    /// True if the first lookup was repeated because an interface or a source disappeared between two lookups.
    private var hasRepeated = false
    private let transport: Scope.Transport
    /// The members of the group that were not asked yet.
    private var rest: ArraySlice<IPAddress>
    private var fallback: Fallback?
    /// True if a member that this machine holds counts only if there is no other.
    private let prefersRemote: Bool
    /// The answers above the one that is asked for, the destination's first.
    private var uppers: [Upper] = []
    private var underlay = Decision.Underlay.sound
    /// The reason of the next hop that the kernel chose, if another one decides.
    private var partialReason: OfflineReason?
    /// The destinations by which ground is found, one of each family.
    private let groundDestinations: [IPAddress]

    /// Makes the lookups of a group.
    ///
    /// - Parameters:
    ///   - query: The query to the first member.
    ///   - group: All members; empty for the query's destination alone.
    ///   - prefersRemote: True to pass over addresses of this machine.
    ///   - groundDestinations: One destination in the internet for each family.
    package init(
        _ query: RouteQuery, _ group: [IPAddress] = [], prefersRemote: Bool = false, groundDestinations: [IPAddress] = []
    ) {
        self.groundDestinations = groundDestinations
        self.query = query
        transport = query.transport
        rest = group.dropFirst()
        self.prefersRemote = prefersRemote
    }

    package var isDone: Bool { phase == .done }
    /// True if ``query`` waits for its answer.
    fileprivate var isAsking: Bool {
        switch phase {
        case .done, .inspection: false
        default: true
        }
    }

    /// Returns the query that follows if the first one is answered with this source.
    fileprivate func confirmation(from source: IPAddress) -> RouteQuery? {
        // Of later members most are refused, too.
        phase == .first && fallback == nil && uppers.isEmpty && query.destination.family == .ipv4
            ? query.from(.address(source)) : nil
    }

    /// Returns true if ``query`` confirms a source.
    fileprivate func confirms(_ source: IPAddress) -> Bool { phase == .confirmation && query.source == .address(source) }

    /// Takes in the answer to ``query``.
    ///
    /// - Throws: an error of the source, if it leaves the verdict open.
    package mutating func accept(
        _ answer: Result<RouteVerdict, ReachabilityError>, _ table: InterfaceTable
    ) throws(ReachabilityError) {
        if phase == .entry { return acceptEntry(answer, table) }
        do throws(ReachabilityError) {
            try acceptForMember(answer, table)
        } catch {
            // A recording has only the members that were asked when it was made.
            guard error.code == .notRecorded, case .answer(let decision) = fallback else { throw error }
            (query, verdict, underlay) = (decision.query, decision.verdict, decision.underlay)
            (phase, rest, fallback, uppers) = (.done, [], nil, [])
            return
        }
        if phase == .done { conclude(PathEvaluator.passes(verdict, to: query, table), table) }
    }

    /// The answer that decided, once done.
    package var decision: Decision {
        Decision(query: query, verdict: verdict, underlay: underlay, partialReason: partialReason)
    }

    // MARK: - Underlays

    /// Continues below an answer that passes, or else above it.
    private mutating func conclude(_ passes: Bool, _ table: InterfaceTable) {
        guard case .route(let route) = verdict, !route.isLocal else { return ascend(passes, table) }
        guard passes else { return tryNextHops(of: route, table) }
        if !table.memory.ports.isEmpty, let bridged = table.bridgedGateway(of: route.interface, route.gateway),
            let (reason, obstacle) = table.lackOfPort(to: bridged)
        {
            underlay = .failed(reason, obstacle)
            return ascend(false, table)
        }
        guard uppers.count < Self.tunnelLimit, let tunnel = table.tunnel(below: route.interface) else {
            return ascend(true, table)
        }
        switch tunnel.underlay {
        case .remote(let remote):
            uppers.append(Upper(query: query, verdict: verdict, egress: tunnel.identity, question: .remote(remote)))
            query = RouteQuery(
                to: remote.address, interface: remote.interface, mark: remote.mark, source: ownSource,
                transport: remote.transport)
            query.typeOfService = remote.typeOfService
            askAnew()
        case .ground where !table.memory.tunnelsStandAlone: descend(to: tunnel, table)
        case .none, .device, .ground: ascend(true, table)
        }
    }

    /// Continues with the other next hops of a multipath route, of which the kernel chose one by a hash of addresses.
    ///
    /// Representatives stand for all destinations, of which each next hop has a share. For one destination the choice counts,
    /// unless the hash is of ports, too.
    private mutating func tryNextHops(of route: RouteVerdict.Route, _ table: InterfaceTable) {
        guard uppers.isEmpty, query.interface == nil, let place = table.position(of: route.interface),
            table.obstacle(at: place) != nil
        else { return ascend(false, table) }
        uppers.append(Upper(query: query, verdict: verdict, egress: table.all[place].identity, question: .nextHop(rest: [])))
        phase = .entry
        query.fibMatch = true
        // The kernel chooses a next hop before it has a source, and a rule may have led that one elsewhere.
        query.source = query.source == .selected ? route.source.map(RouteQuery.Source.address) ?? .unspecified : .unspecified
    }

    private mutating func acceptEntry(_ answer: Result<RouteVerdict, ReachabilityError>, _ table: InterfaceTable) {
        query.fibMatch = false
        var others: [UInt32] = []
        if case .success(.route(let entry)) = answer, prefersRemote || entry.choosesByPorts {
            others = entry.nextHops.map(\.interface)
        }
        askNextHop(others.filter { $0 != uppers.last?.egress.index }[...], table)
    }

    private mutating func askNextHop(_ rest: ArraySlice<UInt32>, _ table: InterfaceTable) {
        var rest = rest
        guard var upper = uppers.last else { return }
        if let next = rest.popFirst() {
            upper.question = .nextHop(rest: rest)
            uppers[uppers.count - 1] = upper
            (query, query.interface, query.source) = (upper.query, next, .unspecified)
            return askAnew()
        }
        uppers.removeLast()
        (query, verdict, phase) = (upper.query, upper.verdict, .done)
        ascend(false, table)
    }

    /// Continues with the ground of a tunnel.
    private mutating func descend(to tunnel: NetworkInterface, _ table: InterfaceTable) {
        // A way out that itself leads through such a tunnel is no ground.
        let isGround = uppers.contains { if case .ground = $0.question { true } else { false } }
        if isGround { return ascend(false, table) }
        let hardware = table.groundOfHardware
        if !hardware.isEmpty {
            underlay = .ground(hardware)
            return ascend(true, table)
        }
        let probes = table.groundProbes(groundDestinations)
        uppers.append(
            Upper(
                query: query, verdict: verdict, egress: tunnel.identity,
                question: .ground(found: [], rest: probes[...], asked: probes)))
        askNextGround(table)
    }

    /// The source that the sender sets itself, as a tunnel may.
    private var ownSource: RouteQuery.Source {
        guard case .remote(let remote) = uppers.last?.question, let source = remote.source else { return .unspecified }
        return .address(source)
    }

    /// The transport of the packets that are asked about: a tunnel has its own.
    private var ownTransport: Scope.Transport {
        switch uppers.last?.question {
        case .remote(let remote): remote.transport
        case .ground: .udp
        case .nextHop, nil: transport
        }
    }

    /// Asks the first question of ``query``.
    private mutating func askAnew() { (verdict, phase, hasRepeated) = (.noRoute, .first, false) }

    private mutating func askNextGround(_ table: InterfaceTable) {
        guard var upper = uppers.last, case .ground(let found, var rest, let asked) = upper.question else { return }
        if let next = rest.popFirst() {
            uppers[uppers.count - 1].question = .ground(found: found, rest: rest, asked: asked)
            query = next
            return askAnew()
        }
        let ground = Set(found).union(table.keptGround).sorted()
        uppers.removeLast()
        (query, verdict) = (upper.query, upper.verdict)
        let candidates = asked.filter { $0.interface.map(table.mayBeGround) ?? false }
        if !ground.isEmpty {
            underlay = .ground(ground)
            ascend(true, table)
        } else if candidates.isEmpty || table.lackOfGround(of: upper.egress) == nil {
            conclude(withoutGround: upper.egress, table)
        } else {
            upper.question = .ground(found: [], rest: [], asked: candidates)
            uppers.append(upper)
            phase = .inspection
        }
    }

    /// Ends a tunnel without ground, which may count by itself.
    private mutating func conclude(withoutGround tunnel: NetworkInterface.Identity, _ table: InterfaceTable) {
        if let (reason, obstacle) = table.lackOfGround(of: tunnel) { underlay = .failed(reason, obstacle) }
        ascend(underlay.isSound, table)
    }

    /// True if an interface with a route of its own is asked for next.
    fileprivate var isInspecting: Bool { if case .inspection = phase { true } else { false } }

    /// The interfaces of which one with a route of its own is ground; `nil` unless that is the next question.
    fileprivate var inspection: [UInt32]? {
        guard phase == .inspection, case .ground(_, _, let asked) = uppers.last?.question else { return nil }
        var indices: [UInt32] = []
        for case let index? in asked.map(\.interface) where !indices.contains(index) { indices.append(index) }
        return indices
    }

    /// Takes in the interface that has a route of its own.
    fileprivate mutating func accept(ownRoute index: UInt32?, _ table: InterfaceTable) {
        guard let upper = uppers.popLast() else { return }
        (query, verdict, phase) = (upper.query, upper.verdict, .done)
        guard let index else { return conclude(withoutGround: upper.egress, table) }
        underlay = .ground([index])
        ascend(true, table)
    }

    /// Continues above an answer: with the destination's group, if there is nothing above.
    private mutating func ascend(_ passes: Bool, _ table: InterfaceTable) {
        guard let upper = uppers.last else { return concludeMember(passes, table) }
        switch upper.question {
        case .nextHop(let rest):
            guard passes else {
                underlay = .sound
                return askNextHop(rest, table)
            }
            uppers.removeLast()
            partialReason = PathEvaluator.failure(upper.verdict, to: upper.query, table).reason
            ascend(true, table)
        case .remote(let remote):
            if !passes, underlay.isSound {
                let (reason, interface) = PathEvaluator.failure(verdict, to: query, table)
                underlay = .failed(reason, .remote(tunnel: upper.egress, remote.address, interface, reason))
            }
            uppers.removeLast()
            (query, verdict, phase) = (upper.query, upper.verdict, .done)
            ascend(passes, table)
        case .ground(var found, var rest, let asked):
            // A guess leads to the other end of one link, which may be another tunnel.
            if passes, !verdict.isGuess, let index = query.interface {
                found.append(index)
                rest = rest.filter { $0.interface != index }[...]
            }
            underlay = .sound
            uppers[uppers.count - 1].question = .ground(found: found, rest: rest, asked: asked)
            askNextGround(table)
        }
    }

    // MARK: - Groups

    /// Asks the next member, unless the last one passes.
    private mutating func concludeMember(_ passes: Bool, _ table: InterfaceTable) {
        phase = .done
        if rest.isEmpty && fallback == nil { return }
        let isPassedOver = prefersRemote && verdict.isLocal
        if !isPassedOver && passes {
            (rest, fallback) = ([], nil)
            return
        }
        // Most machines have no IPv6: asking further would cost a round of lookups with each event.
        if !table.hasSource(query.destination.family) {
            rest = []
            if fallback == nil { return }
        }
        switch fallback {
        case .answer(let kept) where isPassedOver || !(prefersRemote && kept.verdict.isLocal): break
        default: fallback = .answer(decision)
        }
        if let next = rest.popFirst() {
            (query.destination, query.source, query.transport) = (next, .unspecified, transport)
            underlay = .sound
            askAnew()
        } else if case .answer(let decision) = fallback {
            (query, verdict, underlay, fallback) = (decision.query, decision.verdict, decision.underlay, nil)
        }
    }

    // MARK: - One destination

    private mutating func acceptForMember(
        _ answer: Result<RouteVerdict, ReachabilityError>, _ table: InterfaceTable
    ) throws(ReachabilityError) {
        switch phase {
        case .first:
            verdict = try answer.get()
            continueAfterFirst(table)
        case .confirmation:
            let first = verdict
            phase = .done
            if case .failure(let error) = answer, error.code == .permissionDenied {
                // Without netlink a source is bound (bind(2)), which a sandbox may forbid: the first lookup decides.
                query.source = .unspecified
                return
            }
            verdict = try answer.get()
            if verdict.isRace || verdict.mayLackSource, !hasRepeated {
                (hasRepeated, phase, verdict) = (true, .first, first)
                query.source = ownSource
            }
        case .selection:
            switch answer {
            case .success(let selected):
                let first = verdict
                (verdict, phase) = (selected, .done)
                if selected.isRace, !hasRepeated {
                    (hasRepeated, phase) = (true, .first)
                    query.source = ownSource
                } else if case .refused = selected, ownTransport != .udp {
                    // For a bound socket the first lookup, which has its transport and is as strict, has the better reason.
                    if query.interface != nil { verdict = first }
                    reviewNext(selected, table.usableSources(.ipv6)[...])
                }
            // This user cannot make such a socket, or not at present.
            case .failure: tryNext(table.usableSources(.ipv6)[...])
            }
        case .trial(let rest):
            let tried = try answer.get()
            if tried.leaves(by: query.interface) { (verdict, phase) = (tried, .done) } else { tryNext(rest[...]) }
        case .review(let refusal, let rest):
            let reviewed = try answer.get()
            // A lookup with a source is less strict about the interface than a bound socket.
            let isTelling = reviewed.leaves(by: query.interface) || query.interface == nil
            if reviewed == refusal || !isTelling {
                reviewNext(refusal, rest[...])
            } else {
                query.transport = .udp
                phase = .comparison(refusal: refusal, verdict: reviewed, rest: rest)
            }
        case .comparison(let refusal, let reviewed, let rest):
            query.transport = ownTransport
            // Refused like the socket: this may be its source.
            if try answer.get() == refusal { (verdict, phase) = (reviewed, .done) } else { reviewNext(refusal, rest[...]) }
        case .entry, .inspection, .done: break
        }
    }

    private mutating func continueAfterFirst(_ table: InterfaceTable) {
        if verdict.isRace, !hasRepeated {
            hasRepeated = true
            return
        }
        phase = .done
        switch (query.destination.family, verdict) {
        case (.ipv4, .route(let route)):
            guard let source = route.source, !source.isUnspecified else { return }
            query.source = .address(source)
            phase = .confirmation
        case (.ipv6, .refused):
            guard table.hasUsableSource(.ipv6) else { return }
            query.source = .selected
            phase = .selection
        default: break
        }
    }

    /// Continues with the next source that may have been refused for the transport of the socket; without one the refusal stands.
    ///
    /// Only a datagram socket can be connected without sending a packet.
    private mutating func reviewNext(_ refusal: RouteVerdict, _ rest: ArraySlice<IPAddress>) {
        if let source = rest.first {
            query.source = .address(source)
            phase = .review(refusal: refusal, rest: Array(rest.dropFirst()))
        } else {
            query.source = query.interface == nil ? .selected : .unspecified
            phase = .done
        }
    }

    /// Continues with the next source; without one the first lookup decides.
    private mutating func tryNext(_ rest: ArraySlice<IPAddress>) {
        if let source = rest.first {
            query.source = .address(source)
            phase = .trial(rest: Array(rest.dropFirst()))
        } else {
            query.source = .unspecified
            phase = .done
        }
    }
}

extension InterfaceTable {
    /// Returns the possible source addresses of a family, those of usable interfaces first, in the order of the interfaces.
    ///
    /// The kernel chooses among all of them: a way through a pulled cable is found, and the cable is the reason.
    fileprivate func usableSources(_ family: IPAddress.Family) -> [IPAddress] {
        var (sources, others): ([IPAddress], [IPAddress]) = ([], [])
        for interface in all where !interface.isLoopback {
            for held in interface.addresses where held.isSource(family) {
                if interface.isUsable { sources.append(held.address) } else { others.append(held.address) }
                if sources.count == Lookup.trialLimit { return sources }
            }
        }
        return sources + others.prefix(Lookup.trialLimit - sources.count)
    }

    /// The probable IPv4 source of packets to the internet.
    package var firstIPv4Source: IPAddress? {
        for interface in all where interface.isUsable && !interface.isLoopback {
            if let held = interface.addresses.first(where: { $0.isSource(.ipv4) }) { return held.address }
        }
        return nil
    }

    /// Returns false if no packet can leave the machine over a family, for want of an address.
    fileprivate func hasSource(_ family: IPAddress.Family) -> Bool {
        all.contains { $0.addresses.contains { $0.isSource(family) } }
    }

    /// Returns false if ``usableSources(_:)`` is empty.
    fileprivate func hasUsableSource(_ family: IPAddress.Family) -> Bool {
        all.contains { interface in interface.addresses.contains { $0.isSource(family) } && !interface.isLoopback }
    }
}

extension Decision.Underlay {
    fileprivate var isSound: Bool { if case .failed = self { false } else { true } }
}

extension RouteVerdict {
    /// True if the kernel found no route and took the destination to be on the link.
    fileprivate var isGuess: Bool { if case .route(let route) = self { route.table == 0 && !route.isLocal } else { false } }
}

extension NetworkInterface.Address {
    /// Returns true if packets to the internet may come from this address; over IPv4 one of the link may, behind a gateway.
    func isSource(_ family: IPAddress.Family) -> Bool {
        isReady && address.family == family && !(address.isLinkLocal && family == .ipv6) && !address.isLoopback
            && !address.isUnspecified
    }
}

/// The lookups of several scopes: one request carries all queries of a round.
///
/// A batch that expects an IPv4 source makes its first and second lookups in one round; a second one is void if the kernel
/// chooses another source.
package struct LookupBatch: Sendable {
    private let expectedSource: IPAddress?
    private var lookups: [Lookup] = []
    /// The end of each scope's lookups.
    private var ends: [Int] = []
    /// The errors that leave a scope's verdict open.
    private var failures: [ReachabilityError?] = []
    /// The positions of the last round's lookups; the second entry of a lookup is its confirmation.
    private var asked: [Int] = []
    /// The position of the lookup that waits for ``accept(ownRoute:_:)``.
    private var inspected: Int?

    /// Makes an empty batch.
    ///
    /// - Parameter expectedSource: the IPv4 source that the kernel will probably choose.
    package init(expecting expectedSource: IPAddress? = nil) { self.expectedSource = expectedSource }

    /// Adds a scope by its lookups.
    package mutating func append(_ lookups: [Lookup]) {
        self.lookups.append(contentsOf: lookups)
        ends.append(self.lookups.count)
        failures.append(nil)
    }

    /// Returns the queries of the next round; empty if all are answered.
    package mutating func nextRound() -> [RouteQuery] {
        asked.removeAll(keepingCapacity: true)
        var queries: [RouteQuery] = []
        var scope = 0
        for position in lookups.indices {
            while ends[scope] <= position { scope += 1 }
            if failures[scope] != nil || !lookups[position].isAsking { continue }
            if queries.isEmpty {
                // With room for the confirmations.
                queries.reserveCapacity(2 * (lookups.count - position))
                asked.reserveCapacity(2 * lookups.count)
            }
            asked.append(position)
            queries.append(lookups[position].query)
            if let expectedSource, let confirmation = lookups[position].confirmation(from: expectedSource) {
                asked.append(position)
                queries.append(confirmation)
            }
        }
        return queries
    }

    /// Takes in the answers to the queries of ``nextRound()``, in their order.
    package mutating func accept(_ answers: [Result<RouteVerdict, ReachabilityError>], _ table: InterfaceTable) {
        var scope = 0
        for (place, position) in asked.enumerated() {
            while ends[scope] <= position { scope += 1 }
            if place > 0, asked[place - 1] == position {
                guard failures[scope] == nil, let expectedSource, lookups[position].confirms(expectedSource) else { continue }
            }
            do throws(ReachabilityError) {
                guard place < answers.count else { throw ReachabilityError(.requestFailed, operation: "routes(to:)") }
                try lookups[position].accept(answers[place], table)
            } catch {
                failures[scope] = error
            }
        }
    }

    /// Returns the answers that decided about a scope, one for each lookup.
    ///
    /// - Throws: the error that leaves the verdict open.
    package func decisions(about scope: Int) throws(ReachabilityError) -> [Decision] {
        if let failure = failures[scope] { throw failure }
        return lookups[(scope == 0 ? 0 : ends[scope - 1])..<ends[scope]].map(\.decision)
    }

    /// Returns the interfaces of which one with a route of its own is ground, if that is the next question.
    package mutating func nextInspection() -> [UInt32]? {
        // In their places: lookups are large.
        inspected = lookups.indices.first { lookups[$0].isInspecting }
        return inspected.flatMap { lookups[$0].inspection }
    }

    /// Takes in the interface that has a route of its own.
    package mutating func accept(ownRoute index: UInt32?, _ table: InterfaceTable) {
        if let inspected { lookups[inspected].accept(ownRoute: index, table) }
    }

    /// Returns the position of the lookup that a query of the last round belongs to.
    package func position(ofQuery place: Int) -> Int { asked[place] }

    /// Returns true if a lookup has its decisive answer.
    package func isDone(_ position: Int) -> Bool { lookups[position].isDone }
}
