extension MonitorCore {
    /// Takes over a verdict, and publishes what of it is news.
    mutating func publish(
        _ scope: Scope, _ path: NetworkPath, _ plan: Plan, _ circumstances: ScopeState.Circumstances, _ outcome: inout Outcome
    ) {
        // A scope may have been released while its question was asked.
        guard let place = scopes.index(forKey: scope) else { return }
        let log = log
        // Where it is: a state is large, and copies of it are most of the work.
        let publishing = scopes.values[place].observe(path, table, circumstances) { old in
            log.best(from: old, to: path) ?? Cause(.audit, "a periodic check found it")
        }
        if let publication = publishing.raw {
            if scope == .internet { hosts.notePathChange(at: plan.now) }
            if !plan.isExplained && !isPolled { health.missedByEvents += 1 }
            outcome.tell(scope, publication, plan.now, plan.wallTime)
        }
        if let publication = publishing.damped { outcome.tell(scope, publication, plan.now, plan.wallTime) }
        if let condition = publishing.condition { outcome.conditions.append(Outcome.Level(scope: scope, state: condition)) }
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
