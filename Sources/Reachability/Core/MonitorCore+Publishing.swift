extension MonitorCore {
    /// What the answers mean for the levels and epochs of scopes: what jobs wait for, and so decided before anything is put into
    /// words.
    package struct Settlement: Sendable {
        /// A verdict that was taken over.
        struct Entry {
            /// Which of the answers it was.
            var position: Int
            /// The scope's place among all: one that was released and watched again meanwhile is another one.
            var order: UInt64
            var observation: ScopeLevel.Observation
            var resumed: Bool
            /// If true, the path changed so often that it is not relied on yet.
            var isUnsteady: Bool
            /// If true, ``MonitorCore/request(_:)`` led here: the condition is told, also if nothing changed.
            var wasRequested: Bool
        }

        var entries: [Entry] = []
        /// The scopes that have become steady again.
        var steadied: Set<Scope> = []
    }

    /// Takes in the answers and says what they mean for conditions.
    ///
    /// What else follows from them is said by ``conclude(_:_:_:)``, which has to be called next.
    package mutating func settle(_ plan: Plan, _ answers: Answers) -> Settlement {
        var settlement = Settlement()
        take(answers, plan)
        guard hasSnapshot else { return settlement }
        settlement.steadied = settleDown(at: plan.now)
        settlement.entries.reserveCapacity(answers.paths.count)
        for position in answers.paths.indices {
            let resumed = !resumed.isEmpty && resumed.remove(answers.paths[position].scope) != nil
            // A scope may have been released while its question was asked.
            guard let place = scopes.index(forKey: answers.paths[position].scope) else { continue }
            // Where it is: a state is large, and copies of it are most of the work.
            let observation = scopes.values[place].observe(
                answers.paths[position].path, table, resumed: resumed, at: plan.now)
            let wasRequested = !requestsUnderWay.isEmpty && requestsUnderWay.remove(answers.paths[position].scope) != nil
            settlement.entries.append(
                Settlement.Entry(
                    position: position, order: scopes.values[place].order, observation: observation, resumed: resumed,
                    isUnsteady: scopes.values[place].steadiness.steadyAt != nil, wasRequested: wasRequested))
        }
        noteLevelForValidation(plan)
        return settlement
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

    /// Publishes what of a verdict is news.
    mutating func report(_ entry: Settlement.Entry, _ answers: Answers, _ plan: Plan, _ outcome: inout Outcome) {
        let scope = answers.paths[entry.position].scope
        var path = answers.paths[entry.position].path
        // It may have been released since.
        guard let place = scopes.index(forKey: scope), scopes.values[place].order == entry.order else { return }
        let log = log
        let circumstances = ScopeState.Circumstances(now: plan.now, resumed: entry.resumed, resynced: resynced)
        let details = answers.paths[entry.position].details
        scopes.values[place].describe(path, isComplete: details.isEmpty)
        if isValidating, let finding = validation?.finding, scope == .internet { path.validation = finding }
        let news = scopes.values[place].report(path, entry.observation, circumstances) {
            log.best(from: entry.observation.old, to: path)
                ?? Cause(.audit, entry.wasRequested ? "a check after a failure found it" : "a periodic check found it")
        }
        if let publication = news.raw {
            if scope == .internet {
                hosts.notePathChange(at: plan.now)
                if isValidating { validation?.noteOtherWay(at: plan.now) }
            }
            if !plan.isExplained && !isPolled { health.missedByEvents += 1 }
            outcome.tell(scope, publication, plan.now, plan.wallTime)
        }
        if let publication = news.damped { outcome.tell(scope, publication, plan.now, plan.wallTime) }
    }

    /// Tells losses whose grace is over from what is known: nobody may have answered since.
    mutating func tellHeldLosses(_ plan: Plan, _ outcome: inout Outcome) {
        guard isLossDue(at: plan.now) else { return }
        for scope in Array(scopes.keys) {
            guard let deadline = scopes[scope]?.deadline, deadline <= plan.now,
                let publication = scopes[scope]?.tellHeldLoss(at: plan.now)
            else { continue }
            outcome.tell(scope, publication, plan.now, plan.wallTime)
        }
    }
}
