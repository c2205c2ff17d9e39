extension MonitorCore {
    /// What the answers mean for the levels and epochs of scopes: what jobs wait for, and so decided before anything is put into
    /// words.
    package struct Settlement: Sendable {
        /// A verdict that was taken over.
        struct Entry: Sendable {
            /// Which of the answers it was.
            var position: Int
            /// The scope's place among all: one that was released and watched again meanwhile is another one.
            var order: UInt64
            var old: NetworkPath?
            var observation: ScopeLevel.Observation
            var resumed: Bool
        }

        package struct Change: Sendable {
            package var scope: Scope
            package var state: Condition.State
        }

        var entries: [Entry] = []
        /// The conditions that changed.
        package var changes: [Change] = []
    }

    /// Takes in the answers and says which conditions changed.
    ///
    /// What else follows from them is said by ``conclude(_:_:_:)``, which has to be called next.
    package mutating func settle(_ plan: Plan, _ answers: Answers) -> Settlement {
        var settlement = Settlement()
        take(answers, plan)
        guard hasSnapshot else { return settlement }
        for position in answers.paths.indices {
            let scope = answers.paths[position].scope
            let resumed = !resumed.isEmpty && resumed.remove(scope) != nil
            // A scope may have been released while its question was asked.
            guard let place = scopes.index(forKey: scope) else { continue }
            // Where it is: a state is large, and copies of it are most of the work.
            let old = scopes.values[place].level.path
            let observation = scopes.values[place].observe(answers.paths[position].path, table, resumed: resumed)
            settlement.entries.append(
                Settlement.Entry(
                    position: position, order: scopes.values[place].order, old: old, observation: observation, resumed: resumed))
            guard observation.conditionChanged else { continue }
            settlement.changes.append(Settlement.Change(scope: scope, state: scopes.values[place].level.state))
        }
        return settlement
    }

    /// Publishes what of a verdict is news.
    mutating func report(
        _ entry: Settlement.Entry, _ verdict: Answers.Verdict, _ plan: Plan, _ outcome: inout Outcome
    ) {
        // It may have been released since.
        guard let place = scopes.index(forKey: verdict.scope), scopes.values[place].order == entry.order else { return }
        let log = log
        let circumstances = ScopeState.Circumstances(now: plan.now, resumed: entry.resumed, resynced: resynced)
        scopes.values[place].describe(verdict.path, isComplete: verdict.details.isEmpty)
        let news = scopes.values[place].report(verdict.path, entry.observation, circumstances) {
            log.best(from: entry.old, to: verdict.path) ?? Cause(.audit, "a periodic check found it")
        }
        if let publication = news.raw {
            if verdict.scope == .internet { hosts.notePathChange(at: plan.now) }
            if !plan.isExplained && !isPolled { health.missedByEvents += 1 }
            outcome.tell(verdict.scope, publication, plan.now, plan.wallTime)
        }
        if let publication = news.damped { outcome.tell(verdict.scope, publication, plan.now, plan.wallTime) }
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
