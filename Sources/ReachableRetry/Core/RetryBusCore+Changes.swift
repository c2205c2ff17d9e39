/// What is changed about jobs after they were submitted.
extension RetryBusCore {
    /// Lets a job start no attempt until it is resumed.
    ///
    /// A running attempt goes on, and delays, deadlines and the clock of its life do. What it waited for is forgotten until then.
    package mutating func pause(_ key: JobKey, by pauser: JobState.Pausers = .owner, at now: BusTime) -> [Effect] {
        guard let job = self[key], !job.pausers.contains(pauser) else { return [] }
        jobs[Int(key.index)]?.pausers.insert(pauser)
        // One whose delay is being computed comes here when it is parked.
        if job.phase != .judged { advance(key.index, at: now) }
        letGo(at: now)
        return takeEffects()
    }

    /// Lets a paused job go on: what happened meanwhile counts as if it had been there.
    package mutating func resume(_ key: JobKey, by pauser: JobState.Pausers = .owner, at now: BusTime) -> [Effect] {
        guard let job = self[key], job.pausers.contains(pauser) else { return [] }
        jobs[Int(key.index)]?.pausers.remove(pauser)
        if job.phase != .judged { advance(key.index, at: now) }
        letGo(at: now)
        return takeEffects()
    }

    /// Has a job need other conditions besides its scope, from now on.
    ///
    /// An edge that its delay has not met yet still ends it.
    package mutating func setConditions(_ new: [ConditionIndex], of key: JobKey, at now: BusTime) -> [Effect] {
        guard let job = self[key] else { return [] }
        let missed = epoch(of: job) &- job.history.armedEpoch
        // In line it is registered with nothing but its gate, and goes on waiting for as long as it has.
        if !job.isInLine { leave(key.index, at: now) }
        for condition in new { conditions[Int(condition)]?.uses += 1 }
        for condition in job.conditions { release(condition) }
        jobs[Int(key.index)]?.conditions = new
        if let changed = self[key], changed.history.started > 0 {
            let armedEpoch = epoch(of: changed) &- missed
            jobs[Int(key.index)]?.history.armedEpoch = armedEpoch
        }
        switch job.phase {
        case .running:
            if job.rules.interruption?.heedsConditions == true {
                watchForLosses(key.index)
                reconsiderInterruption(key.index, at: now)
            }
        case .waiting, .backingOff: advance(key.index, at: now)
        case .judged: break
        }
        letGo(at: now)
        return takeEffects()
    }

    /// Tells from which addresses the running attempt connects; once for each attempt, and only with a rule that heeds them.
    package mutating func setSources(_ sources: [ConditionIndex], of key: JobKey, at now: BusTime) -> [Effect] {
        guard let job = self[key], job.phase == .running, job.rules.interruption?.heedsSource == true,
            job.history.sources.isEmpty, !sources.isEmpty
        else { return [] }
        jobs[Int(key.index)]?.history.sources = sources
        for source in sources {
            conditions[Int(source)]?.uses += 1
            conditions[Int(source)]?.interruptible.insert(key.index)
        }
        reconsiderInterruption(key.index, at: now)
        return takeEffects()
    }

    /// The attempt is over, and its connections with it.
    mutating func dropSources(_ index: JobIndex) {
        guard let sources = jobs[Int(index)]?.history.sources, !sources.isEmpty else { return }
        jobs[Int(index)]?.history.sources = []
        for source in sources {
            conditions[Int(source)]?.interruptible.remove(index)
            release(source)
        }
    }
}
