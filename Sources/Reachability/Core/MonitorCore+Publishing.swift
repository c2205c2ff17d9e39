extension MonitorCore {
    /// Takes over a verdict, and publishes what of it is news.
    mutating func publish(
        _ scope: Scope, _ path: NetworkPath, _ plan: Plan, _ circumstances: ScopeState.Circumstances, _ outcome: inout Outcome
    ) {
        // A scope may have been released while its question was asked.
        guard let place = scopes.index(forKey: scope) else { return }
        let (log, table) = (log, table)
        // Where it is: a state is large, and copies of it are most of the work.
        let (publications, conditionChanged) = scopes.values[place].observe(path, table, circumstances) { old in
            log.best(from: old, to: path) ?? Cause(.audit, "a periodic check found it")
        }
        guard conditionChanged || !publications.isEmpty else { return }
        let state = scopes.values[place]
        if scope == .internet && publications.contains(where: \.isRaw) { hosts.notePathChange(at: plan.now) }
        if !plan.isExplained && !isPolled && publications.contains(where: \.isRaw) { health.missedByEvents += 1 }
        for publication in publications {
            outcome.transitions.append(transition(scope, publication, state, plan.now, plan.wallTime))
        }
        if conditionChanged {
            let level = Condition.State(isSatisfied: path.isSatisfied, epoch: state.level.epoch)
            outcome.conditions.append(Outcome.Level(scope: scope, state: level))
        }
    }

    /// Tells losses whose grace is over from what is known: nobody may have answered since.
    mutating func tellHeldLosses(_ plan: Plan, _ outcome: inout Outcome) {
        guard isLossDue(at: plan.now) else { return }
        for scope in Array(scopes.keys) {
            guard var state = scopes[scope], let deadline = state.deadline, deadline <= plan.now,
                let publication = state.tellHeldLoss(at: plan.now)
            else { continue }
            scopes[scope] = state
            outcome.transitions.append(transition(scope, publication, state, plan.now, plan.wallTime))
        }
    }

    func transition(
        _ scope: Scope, _ publication: ScopeState.Publication, _ state: ScopeState, _ now: Duration, _ wallTime: Duration
    ) -> Outcome.Telling {
        let content = publication.content
        let transition = Transition(
            sequence: content.sequence, epoch: state.level.epoch, previous: content.previous, current: content.current,
            kinds: content.kinds, cause: content.cause, at: now, wallTime: wallTime, flapPenalty: state.penalty.level(at: now))
        return Outcome.Telling(key: StreamKey(scope: scope, isRaw: publication.isRaw), transition: transition)
    }
}
