/// The monitor's decisions: what to ask after a batch, and what to publish after the answers.
///
/// Pure: it is told the time.
///
/// For each batch its owner calls ``receive(_:)``, gets the answers to the ``Plan`` and calls ``conclude(_:_:)``.
package struct MonitorCore: Sendable {
    /// What has to be asked.
    package struct Plan: Sendable {
        package struct Question: Sendable {
            package var scope: Scope
            /// The path as last seen, so that its details are only read again if it changed.
            package var known: NetworkPath?
            /// The scope's place among all.
            var order: UInt64 = 0
        }

        package var table: InterfaceTable
        package var needsInterfaces = false
        /// Whether the table may be wrong, because events were lost: a change that is found by it is confirmed with a new one.
        package var isTableDoubtful = false
        package var questions: [Question] = []
        var now: Duration
        var wallTime: Duration
        var isAudit = false
        /// Whether an event led here, or a timer that an event set, so that nothing was missed.
        var isExplained = false
    }

    /// The answers to a plan.
    package struct Answers: Sendable {
        /// The interfaces of a dump; `nil` if it was not asked for or failed.
        package var table: InterfaceTable?
        package var paths: [(scope: Scope, path: NetworkPath)] = []
        package var failures: [ReachabilityError] = []

        package init() {}

        /// Whether any path is not what it was known to be.
        package func differ(from questions: [Plan.Question]) -> Bool {
            let known = Dictionary(uniqueKeysWithValues: questions.map { ($0.scope, $0.known) })
            return paths.contains { known[$0.scope] != $0.path }
        }
    }

    /// What follows from the answers.
    package struct Outcome: Sendable {
        package var transitions: [(key: StreamKey, transition: Transition)] = []
        package var conditions: [(scope: Scope, state: Condition.State)] = []
        /// How long until the monitor wants an empty batch.
        package var wait: Duration?
    }

    package let evaluator: PathEvaluator
    package private(set) var health = MonitorHealth()
    package private(set) var table = InterfaceTable()
    var scopes: [Scope: ScopeState] = [:]
    private let lossGrace: Duration
    private var schedule: Schedule
    /// The place of the scope that was added last.
    private var newestOrder: UInt64 = 0
    private var log = CauseLog()
    package private(set) var hasSnapshot = false
    private var needsInterfaces = true
    /// Whether the next dump makes up for a loss or a suspension.
    private var isResync = false
    private var backoff = ResyncBackoff()
    private var isDirty = false
    /// The scopes that have not been told of the last suspension yet.
    private var resumed: Set<Scope> = []
    private var resynced = false
    /// The addresses that the source was last told.
    private var destinations: Set<IPAddress>?
    private var mayHaveNewDestinations = true

    package init(_ configuration: ReachabilityMonitor.Configuration) {
        evaluator = PathEvaluator(
            ipv4Representatives: configuration.ipv4Representatives, ipv6Representatives: configuration.ipv6Representatives)
        lossGrace = configuration.lossGrace
        schedule = Schedule(
            auditInterval: configuration.auditInterval,
            auditIntervalWhileUnsatisfied: configuration.auditIntervalWhileUnsatisfied)
        retain(.internet)
    }

    /// Begins to watch a scope, or counts one more use of it.
    ///
    /// Returns whether it still needs its first evaluation.
    @discardableResult
    package mutating func retain(_ scope: Scope) -> Bool {
        if scopes[scope] == nil {
            newestOrder += 1
            scopes[scope] = ScopeState(lossGrace: lossGrace, order: newestOrder)
            mayHaveNewDestinations = true
        }
        scopes[scope]?.uses += 1
        return scopes[scope]?.level.path == nil
    }

    /// Counts one use less; a scope that nobody uses is forgotten.
    package mutating func release(_ scope: Scope) {
        scopes[scope]?.uses -= 1
        guard scopes[scope]?.uses == 0 else { return }
        scopes[scope] = nil
        mayHaveNewDestinations = true
    }

    /// The addresses that all scopes ask about; `nil` if they are those of the last call.
    package mutating func takeNewDestinations() -> Set<IPAddress>? {
        guard mayHaveNewDestinations else { return nil }
        mayHaveNewDestinations = false
        var current: Set<IPAddress> = []
        for scope in scopes.keys {
            for family in IPAddress.Family.allCases { current.formUnion(evaluator.destinations(of: scope, family)) }
        }
        guard current != destinations else { return nil }
        destinations = current
        return current
    }

    /// When the first of the held losses is due.
    private var earliestDeadline: Duration? {
        var earliest: Duration?
        for state in scopes.values {
            if let deadline = state.deadline { earliest = min(earliest ?? deadline, deadline) }
        }
        return earliest
    }

    private func isLossDue(at now: Duration) -> Bool { earliestDeadline.map { $0 <= now } ?? false }

    private var isUnsatisfied: Bool { scopes.values.contains { $0.level.path?.isSatisfied == false } }

    /// Takes in a batch and says what must be asked now.
    package mutating func receive(_ batch: NetworkEventBatch) -> Plan {
        count(batch)
        let hadHints = apply(batch.events, at: batch.now)
        var plan = Plan(table: table, now: batch.now, wallTime: batch.wallTime)
        plan.isAudit = hasSnapshot && schedule.isAuditDue(at: batch.now, unsatisfied: isUnsatisfied)
        plan.isExplained = hadHints || !log.isEmpty || !schedule.isSettled || needsInterfaces
        if hadHints || plan.isAudit || schedule.isReevaluationDue(at: batch.now) || schedule.isRetryDue(at: batch.now)
            || isLossDue(at: batch.now)
        {
            isDirty = true
        }
        if backoff.isDue(at: batch.now) { (needsInterfaces, isDirty) = (true, true) }
        let isRushed = batch.hasMore && batch.now < (schedule.lastEvaluation ?? .zero).saturatingAdd(Schedule.pace)
        guard !isRushed || !hasSnapshot else { return plan }
        plan.needsInterfaces = plan.isAudit || (needsInterfaces && (schedule.retry == nil || schedule.isRetryDue(at: batch.now)))
        guard !needsInterfaces || plan.needsInterfaces else { return plan }
        plan.isTableDoubtful = backoff.isPending && !plan.needsInterfaces
        // In the same order whenever the same happens: a replay hands out answers in the order in which they were given.
        for (scope, state) in scopes where isDirty || !hasSnapshot || state.level.path == nil {
            plan.questions.append(Plan.Question(scope: scope, known: state.level.path, order: state.order))
        }
        if plan.questions.count > 1 { plan.questions.sort { $0.order < $1.order } }
        return plan
    }

    /// Takes in the answers and says what to publish and when to ask again.
    package mutating func conclude(_ plan: Plan, _ answers: Answers) -> Outcome {
        var outcome = Outcome()
        take(answers, plan)
        if !answers.paths.isEmpty && hasSnapshot {
            for (scope, path) in answers.paths {
                let circumstances = ScopeState.Circumstances(
                    now: plan.now, resumed: resumed.remove(scope) != nil, resynced: resynced)
                publish(scope, path, plan, circumstances, &outcome)
            }
            if isDirty || plan.questions.count == scopes.count { schedule.noteEvaluation(at: plan.now) }
            isDirty = false
            resynced = backoff.isPending
        }
        tellHeldLosses(plan, &outcome)
        if plan.isAudit {
            schedule.noteAudit(at: plan.now)
            health.lastAudit = plan.now
        }
        if schedule.isSettled && !isDirty && !backoff.isPending { log.removeAll() }
        // While requests fail everything waits for the next attempt: what is due already would be asked for again and again.
        let wakes =
            (schedule.retry.map { [$0] } ?? [schedule.next(unsatisfied: isUnsatisfied), backoff.due])
            + [earliestDeadline]
        outcome.wait = wakes.compactMap(\.self).min().map { max(.zero, $0.saturatingSubtract(plan.now)) }
        return outcome
    }

    /// The end of the source: what listeners and conditions are told last.
    package mutating func end(failure: ReachabilityError?, now: Duration, wallTime: Duration) -> Outcome {
        var outcome = Outcome()
        let cause = Cause(.ended, failure?.description ?? "the monitor ended")
        for (scope, state) in scopes {
            var state = state
            for publication in state.end(cause) {
                outcome.transitions.append(transition(scope, publication, state, now, wallTime))
            }
        }
        scopes = [:]
        health.mode = .blind
        health.failure = failure
        return outcome
    }

    // MARK: - Steps

    private mutating func count(_ batch: NetworkEventBatch) {
        health.forged.addSaturating(batch.forged)
        health.malformed.addSaturating(batch.malformed)
        health.drops.addSaturating(batch.drops)
        health.reopens.addSaturating(batch.reopens)
        if let size = batch.receiveBuffer { health.receiveBuffer = size }
    }

    /// Applies events to the table and the log.
    ///
    /// Returns whether any of them can concern a scope.
    private mutating func apply(_ events: [NetworkEvent], at now: Duration) -> Bool {
        var hadHints = false
        for event in events {
            if case .route(let change) = event.payload,
                !scopes.keys.contains(where: { evaluator.isConcerned($0, by: change.destination) })
            {
                continue
            }
            guard let hint = table.apply(event.payload) else { continue }
            hadHints = true
            log.append(hint)
            if hint.mayPrecedeItsChange { schedule.noteHint(at: now) }
            switch hint.kind {
            case .overrun:
                health.losses += 1
                if hasSnapshot { health.mode = .resyncing }
                resynced = true
                isResync = true
                backoff.noteLoss(at: now)
            case .resumed:
                resumed = Set(scopes.keys)
                (needsInterfaces, isResync) = (true, true)
            case .address(let address, .removed) where isSource(address.address):
                // The interface may hold it a second time, for another peer (ip-address(8)); the message does not tell them apart.
                needsInterfaces = true
            default: break
            }
        }
        return hadHints
    }

    /// Tells losses whose grace is over from what is known: nobody may have answered since.
    private mutating func tellHeldLosses(_ plan: Plan, _ outcome: inout Outcome) {
        guard isLossDue(at: plan.now) else { return }
        for scope in Array(scopes.keys) {
            guard var state = scopes[scope], let deadline = state.deadline, deadline <= plan.now,
                let publication = state.tellHeldLoss(at: plan.now)
            else { continue }
            scopes[scope] = state
            outcome.transitions.append(transition(scope, publication, state, plan.now, plan.wallTime))
        }
    }

    private func isSource(_ address: IPAddress) -> Bool {
        scopes.values.contains { $0.level.path?.ipv4.source == address || $0.level.path?.ipv6.source == address }
    }

    private mutating func take(_ answers: Answers, _ plan: Plan) {
        health.failedRequests += answers.failures.count
        if let fresh = answers.table {
            table = fresh
            if isResync && hasSnapshot { health.resyncs += 1 }
            isResync = false
            if !hasSnapshot { schedule.noteAudit(at: plan.now) }
            hasSnapshot = true
            needsInterfaces = false
            backoff.noteDump(at: plan.now)
            health.mode = .live
        }
        if let failure = answers.failures.last {
            if plan.isTableDoubtful { needsInterfaces = true }
            schedule.noteFailure(at: plan.now)
            health.lastFailure = failure
        } else if !plan.questions.isEmpty {
            schedule.noteSuccess()
            health.lastFailure = nil
        }
    }

    private mutating func publish(
        _ scope: Scope, _ path: NetworkPath, _ plan: Plan, _ circumstances: ScopeState.Circumstances, _ outcome: inout Outcome
    ) {
        // A scope may have been released while its question was asked.
        guard var state = scopes[scope] else { return }
        let log = log
        let (publications, conditionChanged) = state.observe(path, table, circumstances) { old in
            log.best(from: old, to: path) ?? Cause(.audit, "a periodic check found it")
        }
        scopes[scope] = state
        if !plan.isExplained && publications.contains(where: \.isRaw) { health.missedByEvents += 1 }
        for publication in publications {
            outcome.transitions.append(transition(scope, publication, state, plan.now, plan.wallTime))
        }
        if conditionChanged {
            outcome.conditions.append((scope, Condition.State(isSatisfied: path.isSatisfied, epoch: state.level.epoch)))
        }
    }

    private func transition(
        _ scope: Scope, _ publication: ScopeState.Publication, _ state: ScopeState, _ now: Duration, _ wallTime: Duration
    ) -> (StreamKey, Transition) {
        let content = publication.content
        let transition = Transition(
            sequence: content.sequence, epoch: state.level.epoch, previous: content.previous, current: content.current,
            kinds: content.kinds, cause: content.cause, at: now, wallTime: wallTime, flapPenalty: state.penalty.level(at: now))
        return (StreamKey(scope: scope, isRaw: publication.isRaw), transition)
    }
}

extension Int {
    /// Counts on, or stays at the largest number: a source may claim anything.
    fileprivate mutating func addSaturating(_ other: Int) {
        let (sum, overflow) = addingReportingOverflow(Swift.max(0, other))
        self = overflow ? .max : sum
    }
}
