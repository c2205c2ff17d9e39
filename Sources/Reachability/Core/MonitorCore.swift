/// The monitor's decisions: what to ask after a batch, and what to publish after the answers.
///
/// Pure: it is told the time.
///
/// For each batch its owner calls ``receive(_:)``, gets the answers to the ``Plan``, calls ``settle(_:_:)`` and tells conditions,
/// and then calls ``conclude(_:_:_:)`` and tells streams.
package struct MonitorCore: Sendable {
    /// What has to be asked.
    package struct Plan: Sendable {
        package struct Question: Sendable {
            package var scope: Scope
            /// The path as last seen, so that its details are only read again if it changed.
            package var known: NetworkPath?
            /// Whether the details of that path were read.
            package var isDescribed = true
            /// The addresses of the scope's host, if it names one.
            package var host: [IPAddress] = []
            /// The reason why there are none.
            package var nameLookupFailure: NameLookupFailure?
            /// The families to ask about; of the others what is known still holds.
            package var families = FamilySet.all
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
        package var isAudit = false
        /// Whether the questions are all that is doubted, none put off.
        var isEvaluation = false
        /// Whether an event led here, or a timer that an event set, so that nothing was missed.
        var isExplained = false
    }

    /// The answers to a plan.
    package struct Answers: Sendable {
        // These are structs, for the runtime copies and destroys tuples in arrays field by field.
        package struct Verdict: Sendable {
            package var scope: Scope
            package var path: NetworkPath
            /// What the path is still to be described by.
            package var details: Details

            package init(_ scope: Scope, _ path: NetworkPath, details: Details = Details()) {
                (self.scope, self.path, self.details) = (scope, path, details)
            }
        }

        /// The interfaces of a dump; `nil` if it was not asked for or failed.
        package var table: InterfaceTable?
        package var paths: [Verdict] = []
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
        /// What a stream is to be told; put together when somebody listens, for most streams have no listener.
        package struct Telling: Sendable {
            package var key: StreamKey
            var publication: ScopeState.Publication
            var now: Duration
            var wallTime: Duration

            package var transition: Transition {
                let content = publication.content
                return Transition(
                    sequence: content.sequence, epoch: publication.epoch, previous: content.previous, current: content.current,
                    kinds: content.kinds, cause: content.cause, at: BootInstant(sinceBoot: now), wallTime: wallTime,
                    flapPenalty: publication.penalty.level(at: now))
            }
        }

        package var transitions: [Telling] = []
        /// The hosts that are to be looked up.
        package var hosts: [String] = []
        /// How long until the monitor wants an empty batch.
        package var wait: Duration?

        package var validation: Validation?

        mutating func tell(_ scope: Scope, _ publication: ScopeState.Publication, _ now: Duration, _ wallTime: Duration) {
            let key = StreamKey(scope: scope, isRaw: publication.isRaw)
            transitions.append(Telling(key: key, publication: publication, now: now, wallTime: wallTime))
        }
    }

    package let evaluator: PathEvaluator
    package var health = MonitorHealth()
    package var table = InterfaceTable()
    var scopes: [Scope: ScopeState] = [:] {
        didSet { knownUrgency = nil }
    }
    /// What the scopes call for, as long as none changes.
    private var knownUrgency: Urgency?
    let lossGrace: Duration
    var schedule: Schedule
    /// The place of the scope that was added last.
    var newestOrder: UInt64 = 0
    var log = CauseLog()
    package var hasSnapshot = false
    /// If true, a scope was judged at least once.
    package var hasVerdict = false
    var needsInterfaces = true
    /// Whether the next dump makes up for a loss or a suspension.
    var isResync = false
    /// Whether the last dump failed, so that another one has to wait for its time.
    var isDumpFailing = false
    /// The reason for the end, once the source has ended.
    var ending: Cause?
    /// If true, nothing was judged yet and the last request failed.
    var isBlind = false
    /// The reason why the source hears no events.
    var impairment: ReachabilityError?
    /// Whether nothing of what was asked last was answered.
    var isStalled = false
    var backoff = ResyncBackoff()
    /// What is to be asked about at the next evaluation.
    var doubts = Doubts()
    /// What is to be looked at again shortly after, because hints may precede their changes.
    var unsettled = Doubts()
    /// The scopes that have not been told of the last suspension yet.
    var resumed: Set<Scope> = []
    var resynced = false
    /// The scopes that are to be evaluated on request, at the next batch and in the one that is under way.
    private var requests: Set<Scope> = []
    var requestsUnderWay: Set<Scope> = []
    /// The addresses whose presence is watched.
    var held: Set<IPAddress> = []
    var hosts: HostBook
    /// What is known of the far end; `nil` without a validator.
    package var validation: ValidationState?
    /// Whether there is a validator: a look at this costs less than one at an optional of that size.
    let isValidating: Bool
    /// The addresses that the scopes ask about, and those that the source was last told.
    var index = DestinationIndex()
    var destinations: Set<IPAddress>?
    var isIndexOutdated = true
    var mayHaveNewDestinations = true
    /// Whether the source hears no events, so that everything is asked at intervals.
    var isPolled = false {
        didSet { schedule.isPolled = isPolled }
    }

    package init(_ configuration: ReachabilityMonitor.Configuration, resolvesHosts: Bool = true) {
        evaluator = PathEvaluator(
            ipv4Representatives: configuration.ipv4Representatives, ipv6Representatives: configuration.ipv6Representatives)
        lossGrace = configuration.lossGrace
        hosts = HostBook(refreshInterval: configuration.hostRefreshInterval, isAnswered: resolvesHosts)
        schedule = Schedule(
            auditInterval: configuration.auditInterval,
            auditIntervalWhileUnsatisfied: configuration.auditIntervalWhileUnsatisfied, pollInterval: configuration.pollInterval)
        isValidating = configuration.validator != nil
        if isValidating {
            validation = ValidationState(
                timeout: configuration.validationTimeout, longestPause: configuration.revalidationInterval)
        }
        retain(.internet)
    }

    /// If true, the table is as current as events make it.
    package var hasCurrentTable: Bool { hasSnapshot && !needsInterfaces && !isPolled && health.mode == .live }

    /// Begins to watch a scope, or counts one more use of it.
    ///
    /// Returns whether it still needs its first evaluation.
    @discardableResult
    package mutating func retain(_ scope: Scope) -> Bool {
        if scopes[scope] == nil {
            newestOrder += 1
            // A cable that flaps does so for every scope: until it has edges of its own, a new one has those of the internet.
            scopes[scope] = ScopeState(
                lossGrace: lossGrace, order: newestOrder, steadiness: scopes[.internet]?.steadiness ?? Steadiness())
            if isBlind { scopes[scope]?.goBlind() }
            isIndexOutdated = true
        }
        scopes[scope]?.uses += 1
        return scopes[scope]?.level.path == nil
    }

    /// Counts one use less; a scope that nobody uses is forgotten.
    ///
    /// Returns whether it is.
    @discardableResult
    package mutating func release(_ scope: Scope) -> Bool {
        // In its place: whoever has waited for the network gives up its use before it goes on.
        guard let place = scopes.index(forKey: scope) else { return true }
        guard scopes.values[place].loseUse() else { return false }
        scopes.remove(at: place)
        requests.remove(scope)
        requestsUnderWay.remove(scope)
        isIndexOutdated = true
        return true
    }

    /// Has a watched scope evaluated with the next batch, and its condition told of it, whatever the evaluation finds.
    package mutating func request(_ scope: Scope) {
        if scopes[scope] != nil { requests.insert(scope) }
    }

    /// The addresses that all scopes ask about; `nil` if they are those of the last call.
    package mutating func takeNewDestinations() -> Set<IPAddress>? {
        indexDestinations()
        guard mayHaveNewDestinations else { return nil }
        mayHaveNewDestinations = false
        let current = index.addresses
        guard current != destinations else { return nil }
        destinations = current
        return current
    }

    /// What all scopes together call for.
    struct Urgency {
        var isUnsatisfied = false
        /// When the first of the held losses is due.
        var deadline: Duration?
        /// When the first of the unsteady scopes is steady again.
        var steadyAt: Duration?
    }

    /// What the scopes call for.
    mutating func urgency() -> Urgency {
        if let knownUrgency { return knownUrgency }
        var urgency = Urgency()
        for place in scopes.values.indices {
            urgency.isUnsatisfied = urgency.isUnsatisfied || scopes.values[place].level.isUnsatisfied
            urgency.deadline = Duration.earlier(urgency.deadline, scopes.values[place].deadline)
            urgency.steadyAt = Duration.earlier(urgency.steadyAt, scopes.values[place].steadyAt)
        }
        knownUrgency = urgency
        return urgency
    }

    /// Has those scopes asked about whose loss is to be told.
    private mutating func doubtHeldLosses(at now: Duration) {
        for (scope, state) in scopes {
            if let deadline = state.deadline, deadline <= now { doubts.insert(scope) }
        }
    }

    mutating func isLossDue(at now: Duration) -> Bool { urgency().deadline.map { $0 <= now } ?? false }

    /// Whether everything is to be asked anew without a hint.
    private func isDue(at now: Duration) -> Bool {
        schedule.isRetryDue(at: now) || backoff.isDue(at: now)
    }

    /// Takes in a batch and says what must be asked now.
    package mutating func receive(_ batch: NetworkEventBatch) -> Plan {
        let now = batch.now.sinceBoot
        count(batch)
        if isValidating { validation?.advance(to: now) }
        indexDestinations()
        let hadHints = apply(batch.events, at: now)
        settleHosts(at: now)
        indexDestinations()
        var plan = Plan(table: table, now: now, wallTime: batch.wallTime)
        let mayDump = !isDumpFailing || schedule.isRetryDue(at: now)
        plan.isAudit = hasSnapshot && mayDump && schedule.isAuditDue(at: now, unsatisfied: urgency().isUnsatisfied)
        takeRequests()
        plan.isExplained =
            hadHints || !log.isEmpty || !schedule.isSettled || needsInterfaces || !requestsUnderWay.isEmpty
        if plan.isAudit || isDue(at: now) { doubts = .all }
        if schedule.isReevaluationDue(at: now) { doubts.formUnion(unsettled) }
        if isLossDue(at: now) { doubtHeldLosses(at: now) }
        if backoff.isDue(at: now) { needsInterfaces = true }
        let isRushed = batch.hasMore && now < (schedule.lastEvaluation ?? .zero).saturatingAdd(Schedule.pace)
        guard !isRushed || !hasSnapshot else { return plan }
        plan.needsInterfaces = plan.isAudit || (needsInterfaces && mayDump)
        guard !needsInterfaces || plan.needsInterfaces else { return plan }
        plan.isTableDoubtful = backoff.isPending && !plan.needsInterfaces
        plan.isEvaluation = !doubts.isEmpty || schedule.isReevaluationDue(at: now)
        // In the same order whenever the same happens: a replay hands out answers in the order in which they were given.
        for place in scopes.indices {
            // In its place: a state is large, and most of it is of no interest here.
            let (scope, known, families) = (scopes.keys[place], scopes.values[place].level.path, scopes.values[place].families)
            guard isInDoubt(scope, isKnown: known != nil, asking: families) else { continue }
            // What was dumped anew may have changed without a word, and the first answer must be a whole one.
            let isDescribed = scopes.values[place].level.isDescribed
            // The reason of one family is weighed against the other's evidence.
            let asksAll = plan.needsInterfaces || !hasSnapshot || known?.isSatisfied != true || !isDescribed
            plan.questions.append(
                Plan.Question(
                    scope: scope, known: known, isDescribed: isDescribed, host: host(of: scope) ?? [],
                    nameLookupFailure: nameLookupFailure(of: scope),
                    families: asksAll ? .all : doubts.families(of: scope, asking: families),
                    order: scopes.values[place].order))
        }
        if plan.questions.count > 1 { plan.questions.sort { $0.order < $1.order } }
        return plan
    }

    /// Those that come later are for the next batch: the lookups of this one may be made before them.
    private mutating func takeRequests() {
        guard !requests.isEmpty else { return }
        for scope in requests { doubts.insert(scope) }
        requestsUnderWay.formUnion(requests)
        requests = []
    }

    /// Says what to publish of the answers, and when to ask again.
    ///
    /// - Parameters:
    ///   - answers: those that were settled; their paths may have got details since.
    ///   - settlement: what came of them.
    package mutating func conclude(_ plan: Plan, _ answers: Answers, _ settlement: Settlement) -> Outcome {
        var outcome = Outcome()
        noteFailures(answers, plan)
        tellValidation(plan, &outcome)
        if hasSnapshot && (!answers.paths.isEmpty || (plan.questions.isEmpty && plan.isEvaluation)) {
            for entry in settlement.entries { report(entry, answers, plan, &outcome) }
            if plan.isEvaluation || plan.questions.count == scopes.count { schedule.noteEvaluation(at: plan.now) }
            if answers.failures.isEmpty { log.removeSeen() }
            doubts = Doubts()
            doubtUnanswered(plan, answers)
            if schedule.isSettled { unsettled = Doubts() }
            resynced = backoff.isPending
        }
        tellHeldLosses(plan, &outcome)
        if plan.isAudit && answers.table != nil {
            schedule.noteAudit(at: plan.now)
            health.lastAudit = BootInstant(sinceBoot: plan.now)
        }
        if schedule.isSettled && doubts.isEmpty && !backoff.isPending { log.removeAll() }
        let nextLookup = hasSnapshot && !hosts.isEmpty ? askForHosts(at: plan.now, &outcome) : nil
        // While all requests fail everything waits for the next attempt: what is due already would be asked for again and again.
        let urgency = urgency()
        let due = isStalled ? nil : Duration.earlier(schedule.next(unsatisfied: urgency.isUnsatisfied), backoff.due)
        var wake = Duration.earlier(due, Duration.earlier(schedule.retry, Duration.earlier(urgency.deadline, nextLookup)))
        wake = Duration.earlier(wake, urgency.steadyAt)
        concludeValidation(plan, &outcome)
        if isValidating, let next = validation?.next { wake = Duration.earlier(wake, next) }
        outcome.wait = wake.map { max(.zero, $0.saturatingSubtract(plan.now)) }
        return outcome
    }

    /// The end of the source: what listeners and conditions are told last.
    package mutating func end(failure: ReachabilityError?, now: Duration, wallTime: Duration) -> Outcome {
        var outcome = Outcome()
        let cause = Cause(.ended, failure?.description ?? "the monitor ended")
        for (scope, state) in scopes {
            var state = state
            for publication in state.end(cause) {
                outcome.tell(scope, publication, now, wallTime)
            }
        }
        scopes = [:]
        hosts.keep([])
        ending = cause
        health.mode = .blind
        health.failure = failure
        return outcome
    }
}
