/// The monitor's decisions: the lookups to make after a batch, and the changes to publish after their verdicts.
///
/// Pure.
///
/// For each batch call ``begin(_:)``, fill in the kernel's answers, call ``applyVerdicts(to:)`` and update conditions, then call
/// ``finish(_:)`` and publish to streams.
package struct MonitorCore: Sendable {
    /// The progress of a monitor.
    private enum Phase {
        /// Before the first dump.
        case starting
        /// Before the first verdict.
        case dumped
        /// Before the first verdict, and the last requests failed.
        case blind(isDumped: Bool)
        /// After the first verdict.
        case judging
        /// After the source ended.
        case ended(Cause)

        mutating func noteDump() {
            switch self {
            case .starting: self = .dumped
            case .blind: self = .blind(isDumped: true)
            case .dumped, .judging, .ended: break
            }
        }

        mutating func noteVerdict() {
            switch self {
            case .dumped, .blind(isDumped: true): self = .judging
            case .starting, .blind, .judging, .ended: break
            }
        }

        mutating func noteFailure() {
            switch self {
            case .starting: self = .blind(isDumped: false)
            case .dumped: self = .blind(isDumped: true)
            case .blind, .judging, .ended: break
            }
        }
    }

    /// The state of the index of destinations.
    private enum IndexState {
        /// Scopes or hosts' addresses changed.
        case outdated
        /// The index is built, and the source does not know its addresses.
        case built
        /// The source knows the addresses.
        case announced
    }

    /// The demands of all scopes together.
    private struct Urgency {
        var isUnsatisfied = false
        /// The time of the first held transition.
        var deadline: Duration?
        /// The time at which the first unsteady scope becomes steady.
        var steadyAt: Duration?
        /// The earliest end of a route's lifetime.
        var expiry: Duration?
    }

    /// The number of gateways behind bridges that are remembered.
    private static let portLimit = 64

    package let evaluator: PathEvaluator
    package private(set) var health = MonitorHealth()
    package private(set) var events = EventCounts()
    package private(set) var table = InterfaceTable()
    private var phase = Phase.starting
    private var schedule: Schedule
    private let lossGrace: Duration
    package private(set) var scopes: [Scope: ScopeState] = [:] {
        didSet { knownUrgency = nil }
    }
    /// The scopes' demands, until one of them changes.
    private var knownUrgency: Urgency?
    /// The place of the scope that was added last.
    private var newestOrder: UInt64 = 0
    private var log = CauseLog()
    /// The reason why the source hears no events.
    private var impairment: ReachabilityError?
    /// The scopes to look up with the next evaluation.
    private var stale = StaleScopes()
    /// The scopes to look up again shortly after, because events may precede their changes.
    private var unsettled = StaleScopes()
    /// The scopes without a verdict since the last suspension.
    private var resumed: Set<Scope> = []
    /// The scopes to evaluate on request, with the next batch and with the present one.
    private var requests: Set<Scope> = []
    private var requestsUnderWay: Set<Scope> = []
    /// The addresses whose presence is watched.
    package var held: Set<IPAddress> = []
    private var hosts: HostCache
    private var index = DestinationIndex()
    private var indexState = IndexState.outdated
    /// The gateways that the source watches, and those of them that do not answer.
    private var gateways: Set<IPAddress> = []
    private var failedGateways: Set<IPAddress> = []
    /// The addresses that the source watches.
    private var destinations: Set<IPAddress>?
    /// The sources of paths that no interface holds: a route makes them local, and takes them along.
    private var borrowedSources: [Scope: [IPAddress]] = [:]
    /// The validation of the path; `nil` without a validator.
    package var validation: ValidationState?
    /// True if there is a validator: this costs less to read than an optional of that size.
    package let isValidating: Bool

    package init(_ configuration: ReachabilityMonitor.Configuration, resolvesHosts: Bool = true) {
        evaluator = PathEvaluator(
            ipv4Representatives: configuration.ipv4Representatives, ipv6Representatives: configuration.ipv6Representatives)
        lossGrace = configuration.lossGrace
        hosts = HostCache(refreshInterval: configuration.hostRefreshInterval, isAnswered: resolvesHosts)
        schedule = Schedule(
            auditInterval: configuration.auditInterval,
            auditIntervalWhileUnsatisfied: configuration.auditIntervalWhileUnsatisfied, pollInterval: configuration.pollInterval)
        table.memory.tunnelsStandAlone = configuration.tunnelsStandAlone
        isValidating = configuration.validator != nil
        if isValidating {
            validation = ValidationState(
                timeout: configuration.validationTimeout, longestPause: configuration.revalidationInterval)
        }
        retain(.internet)
    }

    // MARK: - State

    /// True after the first dump.
    package var hasSnapshot: Bool {
        switch phase {
        case .starting, .blind(isDumped: false), .ended: false
        case .dumped, .blind(isDumped: true), .judging: true
        }
    }

    /// True after the first verdict.
    package var hasVerdict: Bool { if case .judging = phase { true } else { false } }

    private var isBlind: Bool { if case .blind = phase { true } else { false } }

    /// True if the table is as current as events make it.
    package var hasCurrentTable: Bool { holdsTrueTable && !schedule.isPolled && health.mode == .live }

    /// True if no part of the table has to be read again.
    package var holdsTrueTable: Bool { hasSnapshot && !schedule.needsDump }

    /// Returns the path of a scope's last evaluation; `nil` before the first.
    package func path(_ scope: Scope) -> NetworkPath? {
        guard var path = scopes[scope]?.level.path else { return nil }
        if let finding = validation?.finding, scope == .internet { path.validation = finding }
        return path
    }

    /// Returns the condition of a scope as of its last evaluation.
    package func condition(_ scope: Scope) -> Condition.State { scopes[scope]?.level.state ?? Condition.State() }

    /// Returns true while a scope's path changes too often to be relied on.
    package func isUnsteady(_ scope: Scope) -> Bool { scopes[scope]?.steadiness.steadyAt != nil }

    /// Returns the first transition of a new stream; `nil` before the scope's first evaluation.
    package func baseline(_ key: StreamKey, now: BootInstant, wallTime: Duration) -> Transition? {
        if case .ended(let cause) = phase {
            return Transition(
                sequence: 0, epoch: 0, previous: nil, current: .unknown, kinds: [], cause: cause, at: now, wallTime: wallTime,
                flapPenalty: 0)
        }
        guard let state = scopes[key.scope] else { return nil }
        let reducer = state.reducer(isRaw: key.isRaw)
        guard let path = reducer.published else { return nil }
        return Transition(
            sequence: reducer.sequence, epoch: state.level.epoch, previous: nil, current: path, kinds: [],
            cause: state.level.path == nil ? Cause(.blinded, health.lastFailure?.description ?? "nothing can be seen") : .began,
            at: now, wallTime: wallTime, flapPenalty: state.penalty.level(at: now.sinceBoot))
    }

    // MARK: - Scopes

    /// Begins to watch a scope, or counts one more use of it.
    package mutating func retain(_ scope: Scope) {
        if scopes[scope] == nil {
            newestOrder += 1
            // A flapping cable flaps for every scope: until it has edges of its own, a new scope has those of the internet.
            scopes[scope] = ScopeState(
                lossGrace: lossGrace, order: newestOrder, steadiness: scopes[.internet]?.steadiness ?? Steadiness())
            if isBlind { scopes[scope]?.goBlind() }
            indexState = .outdated
        }
        scopes[scope]?.uses += 1
    }

    /// Counts one use less, and forgets a scope without uses.
    ///
    /// - Returns: true if the scope was forgotten.
    @discardableResult
    package mutating func release(_ scope: Scope) -> Bool {
        // Updated in place, without a copy: each job that stops waiting calls this before it resumes.
        guard let place = scopes.index(forKey: scope) else { return true }
        guard scopes.values[place].loseUse() else { return false }
        scopes.remove(at: place)
        requests.remove(scope)
        requestsUnderWay.remove(scope)
        indexState = .outdated
        return true
    }

    /// Has a watched scope evaluated with the next batch, and the observers of its condition called after that.
    package mutating func request(_ scope: Scope) {
        if scopes[scope] != nil { requests.insert(scope) }
    }

    private mutating func urgency() -> Urgency {
        if let knownUrgency { return knownUrgency }
        var urgency = Urgency()
        for place in scopes.values.indices {
            urgency.isUnsatisfied = urgency.isUnsatisfied || scopes.values[place].level.isUnsatisfied
            urgency.deadline = Duration.earlier(urgency.deadline, scopes.values[place].deadline)
            urgency.steadyAt = Duration.earlier(urgency.steadyAt, scopes.values[place].steadyAt)
            urgency.expiry = Duration.earlier(urgency.expiry, scopes.values[place].expiry)
        }
        knownUrgency = urgency
        return urgency
    }

    private mutating func isHoldDue(at now: Duration) -> Bool { urgency().deadline.map { $0 <= now } ?? false }

    // MARK: - Hosts

    /// Returns the known addresses of a host that a scope names; `nil` if it was not looked up.
    package func addresses(ofHost name: String) -> [IPAddress]? { hosts.addresses(of: name) }

    /// Returns the reason why a scope's host has no addresses.
    package func nameLookupFailure(of scope: Scope) -> NameLookupFailure? { scope.host.flatMap(hosts.failure) }

    /// Returns the addresses of a scope's host; `nil` if its first verdict waits for them.
    private func host(of scope: Scope) -> [IPAddress]? {
        guard let name = scope.host else { return [] }
        return hosts.addresses(of: name)
    }

    /// Brings the index and the hosts up to date with the scopes.
    private mutating func indexDestinations() {
        guard indexState == .outdated else { return }
        indexState = .built
        hosts.keep(Set(scopes.keys.compactMap(\.host)))
        var destinations: [(scope: Scope, addresses: [IPAddress])] = []
        for scope in scopes.keys {
            let addresses = evaluator.groups(of: scope, host: host(of: scope) ?? []).flatMap(\.self)
            scopes[scope]?.families = addresses.reduce(into: []) { $0.formUnion(FamilySet($1.family)) }
            destinations.append((scope, addresses + (borrowedSources[scope] ?? [])))
        }
        if !borrowedSources.isEmpty { borrowedSources = borrowedSources.filter { scopes[$0.key] != nil } }
        index = DestinationIndex(destinations)
    }

    /// Returns the addresses of all scopes; `nil` if the last call returned the same.
    package mutating func takeNewDestinations() -> Set<IPAddress>? {
        indexDestinations()
        guard indexState == .built else { return nil }
        indexState = .announced
        let current = index.addresses
        guard current != destinations else { return nil }
        destinations = current
        return current
    }

    private mutating func noteAddresses(of names: [String]) {
        indexState = .outdated
        for scope in scopes.keys {
            if let name = scope.host, names.contains(name) { stale.insert(scope) }
        }
    }

    // MARK: - Begin

    /// Takes in a batch.
    ///
    /// - Returns: the evaluation that follows, with the lookups to make.
    package mutating func begin(_ batch: NetworkEventBatch) -> Evaluation {
        let now = batch.now.sinceBoot
        count(batch)
        if isValidating { validation?.advance(to: now) }
        indexDestinations()
        // Before its events: the kernel may have collected the route meanwhile.
        if urgency().expiry.map({ $0 <= now }) ?? false { insertExpired(at: now) }
        let hadEvents = apply(batch.events, at: now)
        let late = hosts.settle(at: now)
        if !late.isEmpty { noteAddresses(of: late) }
        // Also builds the index that the lookups rest on.
        let destinations = takeNewDestinations()
        var evaluation = Evaluation(table, now: now, wallTime: batch.wallTime)
        evaluation.destinations = destinations
        let mayDump = schedule.mayDump(at: now)
        evaluation.isAudit = hasSnapshot && mayDump && schedule.isAuditDue(at: now, unsatisfied: urgency().isUnsatisfied)
        takeRequests()
        evaluation.isExplained =
            hadEvents || !log.isEmpty || !schedule.isSettled || schedule.needsDump || !requestsUnderWay.isEmpty
        if evaluation.isAudit || schedule.isRetryDue(at: now) || schedule.losses.isDue(at: now) { stale = .all }
        if schedule.isReevaluationDue(at: now) { stale.formUnion(unsettled) }
        if isHoldDue(at: now) { insertHeldLosses(at: now) }
        if schedule.losses.isDue(at: now) { schedule.requestDump() }
        let isRushed = batch.hasMore && now < (schedule.lastEvaluation ?? .zero).saturatingAdd(Schedule.pace)
        guard !isRushed || !hasSnapshot else { return evaluation }
        if evaluation.isAudit || (schedule.needsDump && mayDump) {
            evaluation.dump = .needed
        } else if schedule.needsDump {
            return evaluation
        } else if schedule.losses.isPending {
            evaluation.dump = .toConfirm
        }
        evaluation.isComplete = !stale.isEmpty || schedule.isReevaluationDue(at: now)
        if schedule.isReevaluationDue(at: now) { evaluation.links = linksInUse() }
        addStaleScopes(to: &evaluation)
        return evaluation
    }

    /// Returns the interfaces of all paths and what they stand on.
    ///
    /// The kernel announces a loss of carrier at most once a second (linkwatch_nextevent, net/core/link_watch.c): that of a second
    /// interface, or of a bridge whose last port lost it, comes late.
    private func linksInUse() -> [UInt32] {
        var links: Set<UInt32> = []
        for place in scopes.values.indices {
            guard let path = scopes.values[place].level.path else { continue }
            for family in IPAddress.Family.allCases {
                if let link = path.link(over: family) { links.formUnion(table.stack(of: link)) }
                if path.hasGround(over: family) { links.formUnion(path[family].ground.flatMap(table.stack)) }
            }
        }
        return links.sorted()
    }

    /// Adds the scopes whose held loss is due to the stale ones; other held transitions need no new verdict.
    ///
    /// Not inlined: the optimizer of Swift 6.3.1 crashes on `begin` (CopyPropagation: use outside of a lifetime).
    @inline(never) private mutating func insertHeldLosses(at now: Duration) {
        for place in scopes.indices {
            guard scopes.values[place].holdsLoss, let deadline = scopes.values[place].deadline, deadline <= now else { continue }
            stale.insert(scopes.keys[place])
        }
    }

    /// Adds the scopes with a route whose lifetime is over to the stale ones: the kernel announces it only when it collects the
    /// route, up to 30 s later (net.ipv6.route.gc_interval).
    private mutating func insertExpired(at now: Duration) {
        for place in scopes.indices {
            guard let expiry = scopes.values[place].expiry, expiry <= now else { continue }
            scopes.values[place].noteOtherLifetime()
            stale.insert(scopes.keys[place])
            log.append(InterpretedEvent(.routeExpired))
        }
    }

    private mutating func addStaleScopes(to evaluation: inout Evaluation) {
        // In its place: a state is large, and most of it does not matter here.
        var places = scopes.indices.filter { place in
            isStale(scopes.keys[place], isKnown: scopes.values[place].level.path != nil, scopes.values[place].families)
        }
        // In the same order every time: a replay returns answers in the order in which they were given.
        if places.count > 1 { places.sort { scopes.values[$0].order < scopes.values[$1].order } }
        evaluation.scopes.reserveCapacity(places.count)
        for place in places {
            let (scope, known, isDescribed) = (
                scopes.keys[place], scopes.values[place].level.path, scopes.values[place].level.isDescribed
            )
            let hasOldLifetimes = scopes.values[place].hasOldLifetimes
            // A dump may bring changes without events, and a first verdict needs both families.
            let needsAll = evaluation.dump == .needed || !hasSnapshot || known == nil || !isDescribed
            evaluation.scopes.append(
                ScopeEvaluation(
                    scope, known: known, isDescribed: isDescribed && !hasOldLifetimes, host: host(of: scope) ?? [],
                    nameLookupFailure: nameLookupFailure(of: scope),
                    families: needsAll ? .all : stale.families(of: scope, among: scopes.values[place].families),
                    order: scopes.values[place].order))
        }
    }

    private func isStale(_ scope: Scope, isKnown: Bool, _ families: FamilySet) -> Bool {
        guard isKnown || host(of: scope) != nil else { return false }
        return !hasSnapshot || !isKnown || stale.contains(scope, with: families)
    }

    /// Takes over requests; later ones wait for the next batch, because the present lookups may precede them.
    private mutating func takeRequests() {
        guard !requests.isEmpty else { return }
        for scope in requests { stale.insert(scope) }
        requestsUnderWay.formUnion(requests)
        requests = []
    }

    /// Takes over a batch's news of its source.
    private mutating func count(_ batch: NetworkEventBatch) {
        health.count(batch)
        events.count(batch.events)
        schedule.isPolled = batch.isPolled
        impairment = batch.impairment
        if !isBlind && health.impairment != impairment { health.impairment = impairment }
    }

    /// Applies events to the table, the hosts and the log.
    ///
    /// - Returns: true if any of them can concern a scope.
    private mutating func apply(_ events: [NetworkEvent], at now: Duration) -> Bool {
        var hadEvents = false
        // In their places: an event has room for a whole interface.
        for position in events.indices {
            if case .route(let change) = events[position].payload, !index.isConcerned(by: change.destination) { continue }
            if case .resolverChanged(let file) = events[position].payload { hosts.noteResolverChange(file, at: now) }
            guard var event = table.apply(events[position].payload), isNews(event) else { continue }
            if case .host(let name, let answer, _) = event.kind {
                event.kind = .host(name, answer, after: hosts.changedFile(of: name))
                guard hosts.take(answer, of: name, at: now) else { continue }
                noteAddresses(of: [name])
            }
            hadEvents = true
            log.append(event)
            var concerned = StaleScopes()
            concerned.insert(event, index)
            stale.formUnion(concerned)
            if case .route(let change) = event.kind, change.destination.address.family == .ipv6 { noteLifetimes(concerned) }
            if event.mayPrecedeItsChange {
                schedule.noteEarlyEvent(at: now)
                unsettled.formUnion(concerned)
            }
            switch event.kind {
            case .overrun:
                health.losses += 1
                if hasSnapshot { health.mode = .resyncing }
                schedule.noteLoss(at: now)
            case .resumed:
                resumed = Set(scopes.keys)
                schedule.noteResume()
            case .address(let address, .removed) where isSource(address.address) || held.contains(address.address):
                // The interface may hold it a second time, for another peer (ip-address(8)); the message does not tell them apart.
                schedule.requestDump()
            default: break
            }
        }
        return hadEvents
    }

    /// Has lifetimes read again after an event of an IPv6 route: it may say that the route of a path has got an end.
    private mutating func noteLifetimes(_ concerned: StaleScopes) {
        for place in scopes.indices where concerned.contains(scopes.keys[place], with: scopes.values[place].families) {
            scopes.values[place].noteOtherLifetime()
        }
    }

    /// Notes the sources that no interface holds, for the source of events to watch.
    ///
    /// - Returns: true if they have changed: their scopes are stale then, because events may have passed unseen.
    private mutating func noteBorrowedSources(_ evaluation: Evaluation) -> Bool {
        var hasChanged = false
        for entry in evaluation.scopes where entry.path != entry.known {
            guard let path = entry.path, scopes[entry.scope] != nil else { continue }
            let known = borrowedSources[entry.scope] ?? []
            var sources = known
            for family in IPAddress.Family.allCases {
                guard let source = path.source(over: family) else { continue }
                sources.removeAll { $0.family == family }
                if !table.holdsReady(source) { sources.append(source) }
            }
            if sources == known { continue }
            borrowedSources[entry.scope] = sources
            indexState = .outdated
            stale.insert(entry.scope)
            hasChanged = true
        }
        return hasChanged
    }

    /// Returns false for a neighbour that is no gateway in use, or whose answer was not missed.
    private mutating func isNews(_ event: InterpretedEvent) -> Bool {
        guard case .neighbour(let address, let answers) = event.kind else { return true }
        guard gateways.contains(address) else { return false }
        if !answers { return failedGateways.insert(address).inserted }
        return failedGateways.remove(address) != nil || table.memory.ports.keys.contains { $0.gateway == address }
    }

    /// Returns the gateways of all paths, those that failed and may answer again, and earlier ones; `nil` if the last call returned
    /// them, too.
    ///
    /// A path that comes and goes with its gateway must not change what the source watches: that costs more than a verdict.
    package mutating func takeNewGateways() -> Set<IPAddress>? {
        var current: Set<IPAddress> = failedGateways
        for place in scopes.values.indices {
            if let path = scopes.values[place].level.path { current.formUnion(path.gateways) }
        }
        current.formUnion(table.memory.ports.keys.map(\.gateway))
        if current.count > Self.portLimit { failedGateways = [] }
        guard !current.isSubset(of: gateways) else { return nil }
        gateways.formUnion(current)
        if gateways.count > EventFilter.gatewayLimit { gateways = current }
        return gateways
    }

    private func isSource(_ address: IPAddress) -> Bool {
        scopes.values.contains { $0.level.path?.source(over: address.family) == address }
    }

    // MARK: - Apply verdicts

    /// Applies the verdicts to levels and epochs, and so to conditions.
    ///
    /// Call ``finish(_:)`` next, which decides about streams.
    package mutating func applyVerdicts(to evaluation: inout Evaluation) {
        noteLinks(evaluation)
        noteAnswers(evaluation)
        guard hasSnapshot else { return }
        evaluation.steadied = settleDown(at: evaluation.now)
        for position in evaluation.scopes.indices {
            let scope = evaluation.scopes[position].scope
            guard let path = evaluation.scopes[position].path else { continue }
            let resumed = !resumed.isEmpty && resumed.remove(scope) != nil
            // A scope may have been released during its lookups.
            guard let place = scopes.index(forKey: scope) else { continue }
            // In its place: a state is large, and copies would be most of the work.
            var change = scopes.values[place].observe(path, table, resumed: resumed, at: evaluation.now)
            noteGround(of: path, scope)
            change.wasRequested = !requestsUnderWay.isEmpty && requestsUnderWay.remove(scope) != nil
            evaluation.scopes[position].change = change
        }
        guard isValidating, let place = scopes.index(forKey: .internet), scopes.values[place].level.path != nil else { return }
        validation?.observe(scopes.values[place].level.state, at: evaluation.now)
    }

    /// Takes over links that were read again, as if their messages had come.
    private mutating func noteLinks(_ evaluation: Evaluation) {
        if evaluation.linkChanges.isEmpty || evaluation.dump == .done { return }
        for link in evaluation.linkChanges {
            if let event = table.apply(.link(link)) { log.append(event) }
        }
        schedule.noteEarlyEvent(at: evaluation.now)
        unsettled = .all
    }

    /// Remembers the ports by which bridges know gateways.
    ///
    /// Call it after ``finish(_:)``, with the answers to the questions that this left.
    package mutating func notePorts(of evaluation: inout Evaluation) {
        for (bridged, index) in evaluation.ports where index != bridged.bridge {
            guard let port = table[index]?.identity, table.memory.ports[bridged] != port else { continue }
            if table.memory.ports.count >= Self.portLimit { table.memory.ports = [:] }
            let isChange = table.memory.ports.updateValue(port, forKey: bridged) != nil
            if isChange {
                stale = .all
                evaluation.wait = .zero
            }
        }
    }

    /// Remembers the ground of a tunnel, and the ways out that a tunnel may stand on later.
    ///
    /// An address may be reached by a network of its own, on which no tunnel stands.
    private mutating func noteGround(of path: NetworkPath, _ scope: Scope) {
        for family in IPAddress.Family.allCases {
            guard let link = path.link(over: family) else { continue }
            if path.hasGround(over: family) {
                table.memory.ground = path[family].ground.compactMap { table[$0]?.identity }
            } else if scope.destination == .internet, let place = table.position(of: link),
                table.memory.ground != [table.all[place].identity], path[family].gateway != nil, table.tunnel(below: link) == nil
            {
                table.memory.ground = [table.all[place].identity]
            }
        }
    }

    /// Takes over a dump, or its failure.
    private mutating func noteAnswers(_ evaluation: Evaluation) {
        let hasVerdicts = evaluation.hasVerdicts
        if evaluation.dump == .done {
            table = evaluation.table
            let isResync = schedule.noteDump(at: evaluation.now)
            if !hasSnapshot {
                schedule.noteAudit(at: evaluation.now)
            } else if isResync {
                health.resyncs += 1
            }
            phase.noteDump()
            if !isBlind { health.mode = schedule.isPolled ? .polling : .live }
        }
        if hasSnapshot && hasVerdicts {
            if isBlind { (health.mode, health.impairment) = (schedule.isPolled ? .polling : .live, impairment) }
            phase.noteVerdict()
        }
        // Verdicts by a table that is known to be old would mean nothing.
        if !evaluation.failures.isEmpty && (evaluation.dump == .needed || evaluation.dump == .toConfirm) {
            schedule.noteFailedDump(isTotal: !hasVerdicts)
        }
    }

    /// Ends the unsteadiness of scopes whose time is over.
    private mutating func settleDown(at now: Duration) -> Set<Scope> {
        guard let first = urgency().steadyAt, first <= now else { return [] }
        var steadied: Set<Scope> = []
        for place in scopes.indices where scopes.values[place].steadyAt != nil {
            if scopes.values[place].settleDown(at: now) { steadied.insert(scopes.keys[place]) }
        }
        return steadied
    }

    // MARK: - Finish

    /// Decides which transitions to publish, and when to evaluate again.
    package mutating func finish(_ evaluation: inout Evaluation) {
        let now = evaluation.now
        let hasVerdicts = evaluation.hasVerdicts
        noteFailures(evaluation, hasVerdicts: hasVerdicts)
        publishValidation(&evaluation)
        if hasSnapshot && (hasVerdicts || (evaluation.scopes.isEmpty && evaluation.isComplete)) {
            for position in evaluation.scopes.indices where evaluation.scopes[position].change != nil {
                publish(position, of: &evaluation)
            }
            if evaluation.isComplete || evaluation.scopes.count == scopes.count { schedule.noteEvaluation(at: now) }
            if evaluation.failures.isEmpty { log.removeSeen() }
            stale = StaleScopes()
            if !evaluation.failures.isEmpty {
                for entry in evaluation.scopes where entry.path == nil { stale.insert(entry.scope) }
            }
            if schedule.isSettled { unsettled = StaleScopes() }
            schedule.notePublication()
        }
        publishHeld(&evaluation)
        if evaluation.isAudit && evaluation.dump == .done {
            schedule.noteAudit(at: now)
            health.lastAudit = BootInstant(sinceBoot: now)
        }
        if schedule.isSettled && stale.isEmpty && !schedule.losses.isPending { log.removeAll() }
        let nextLookup = hasSnapshot && !hosts.isEmpty ? lookUpHosts(&evaluation) : nil
        let urgency = urgency()
        var wake = Duration.earlier(schedule.next(unsatisfied: urgency.isUnsatisfied), nextLookup)
        wake = Duration.earlier(wake, Duration.earlier(urgency.deadline, urgency.steadyAt))
        wake = Duration.earlier(wake, urgency.expiry)
        evaluation.bridged = bridgedGateways(of: evaluation)
        if hasVerdicts { evaluation.gateways = takeNewGateways() }
        finishValidation(&evaluation)
        if isValidating, let next = validation?.next { wake = Duration.earlier(wake, next) }
        if noteBorrowedSources(evaluation) { wake = now }
        evaluation.wait = wake.map { max(.zero, $0.saturatingSubtract(now)) }
    }

    /// Returns the gateways behind bridges that an evaluation's paths use, or would if their port had carrier.
    private func bridgedGateways(of evaluation: Evaluation) -> Set<BridgedGateway> {
        var gateways: Set<BridgedGateway> = []
        for position in evaluation.scopes.indices {
            guard let path = evaluation.scopes[position].path else { continue }
            for family in IPAddress.Family.allCases {
                guard let link = path.link(over: family) else { continue }
                if let bridged = table.bridgedGateway(of: link, path[family].gateway) { gateways.insert(bridged) }
            }
            switch path.obstacle {
            case .port, .ground: gateways.formUnion(table.memory.ports.keys)
            default: break
            }
        }
        return gateways
    }

    /// Counts failed requests and schedules their retry.
    private mutating func noteFailures(_ evaluation: Evaluation, hasVerdicts: Bool) {
        guard !evaluation.failures.isEmpty else {
            if !evaluation.scopes.isEmpty {
                schedule.noteSuccess()
                health.lastFailure = nil
            }
            return
        }
        // An interrupted dump is no failure: it is made again.
        let failures = evaluation.failures.filter { $0.code != .interrupted }
        health.failedRequests += failures.count
        schedule.noteFailure(at: evaluation.now, isInterruption: failures.isEmpty, isTotal: !hasVerdicts)
        guard let failure = failures.last else { return }
        health.lastFailure = failure
        if !hasVerdict {
            // Listeners do not wait for a first verdict that may never come.
            phase.noteFailure()
            (health.mode, health.impairment) = (.blind, impairment ?? failure)
            for place in scopes.values.indices { scopes.values[place].goBlind() }
        }
        for entry in evaluation.scopes where entry.known == nil && entry.path == nil { scopes[entry.scope]?.goBlind() }
    }

    /// Publishes the transitions that follow from one verdict.
    private mutating func publish(_ position: Int, of evaluation: inout Evaluation) {
        let (scope, now) = (evaluation.scopes[position].scope, evaluation.now)
        // It may have been released since.
        guard let change = evaluation.scopes[position].change, var path = evaluation.scopes[position].path,
            let place = scopes.index(forKey: scope), scopes.values[place].order == evaluation.scopes[position].order
        else { return }
        scopes.values[place].describe(
            path, isComplete: evaluation.scopes[position].details.isEmpty,
            expiry: evaluation.scopes[position].expiry)
        if isValidating, let finding = validation?.finding, scope == .internet { path.validation = finding }
        let log = log
        let published = scopes.values[place].publish(
            path, change, resynced: schedule.losses.explainsChanges, at: now, wallTime: evaluation.wallTime
        ) {
            log.best(from: change.old, to: path, host: scope.host) ?? (change.wasRequested ? .request : .audit)
        }
        if published.raw != nil {
            if scope == .internet {
                hosts.notePathChange(at: now)
                if isValidating { validation?.noteOtherWay(at: now) }
            }
            if !evaluation.isExplained && !schedule.isPolled { health.missedByEvents += 1 }
        }
        evaluation.transitions.append(published, of: scope)
    }

    /// Publishes held transitions that are due.
    private mutating func publishHeld(_ evaluation: inout Evaluation) {
        let now = evaluation.now
        guard isHoldDue(at: now) else { return }
        for scope in Array(scopes.keys) {
            guard let deadline = scopes[scope]?.deadline, deadline <= now, let path = path(scope) else { continue }
            let transition = scopes[scope]?.publishHeld(path, at: now, wallTime: evaluation.wallTime)
            evaluation.transitions.append((nil, transition), of: scope)
        }
    }

    /// Returns the time of the next lookup of a host, and adds the hosts that are due to an evaluation.
    private mutating func lookUpHosts(_ evaluation: inout Evaluation) -> Duration? {
        // Without a usable interface no name server can answer: being offline costs no lookups.
        let isWorthwhile = PathEvaluator.missingLayer(nil, .internet, table) >= .noRoute
        evaluation.hosts = hosts.takeDueHosts(at: evaluation.now, isWorthwhile: isWorthwhile)
        return hosts.next(isWorthwhile: isWorthwhile)
    }

    /// Publishes the validation of the path that was published before.
    ///
    /// Before the verdicts of the same evaluation, so that these name only the changes that they made themselves.
    private mutating func publishValidation(_ evaluation: inout Evaluation) {
        guard isValidating, let verdict = validation?.verdict, let place = scopes.index(forKey: .internet) else { return }
        let published = scopes.values[place].revalidate(
            verdict, at: evaluation.now, wallTime: evaluation.wallTime, Cause(.validation, "\(verdict)"))
        evaluation.transitions.append(published, of: .internet)
    }

    private mutating func finishValidation(_ evaluation: inout Evaluation) {
        guard isValidating else { return }
        let (answer, step) = (validation?.takeAnswer(), validation?.takeStep(at: evaluation.now))
        guard answer != nil || step != nil, let path = path(.internet) else { return }
        evaluation.validation = Evaluation.Validation(answer: answer, step: step, path: path)
    }

    /// Ends the monitor.
    ///
    /// - Returns: the last transitions.
    package mutating func end(failure: ReachabilityError?, now: Duration, wallTime: Duration) -> [StreamTransition] {
        var transitions: [StreamTransition] = []
        let cause = Cause(.ended, failure?.description ?? "the monitor ended")
        for (scope, state) in scopes {
            var state = state
            transitions.append(state.end(at: now, wallTime: wallTime, cause), of: scope)
        }
        scopes = [:]
        hosts.keep([])
        phase = .ended(cause)
        health.mode = .blind
        health.failure = failure
        return transitions
    }
}
