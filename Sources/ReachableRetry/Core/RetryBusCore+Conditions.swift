/// What changes of conditions lead to.
extension RetryBusCore {
    /// A condition changed, or may have.
    ///
    /// Only jobs that depend on it are looked at, and of those only the ones that wait for what changed.
    package mutating func update(_ index: ConditionIndex, _ level: Level, at now: BusTime) -> [Effect] {
        guard let old = conditions[Int(index)] else { return [] }
        conditions[Int(index)]?.update(level, at: now)
        if old.isLost, conditions[Int(index)]?.isLost == false { lossTimers.cancel(index) }
        conditionChanged(index, since: old, at: now)
        return takeEffects()
    }

    /// Nobody has looked at a condition in time, or ever will: its jobs go ahead.
    package mutating func stopWaitingForTheFirstLook(_ index: ConditionIndex, at now: BusTime) -> [Effect] {
        guard let old = conditions[Int(index)] else { return [] }
        conditions[Int(index)]?.stopWaitingForTheFirstLook(at: now)
        conditionChanged(index, since: old, at: now)
        return takeEffects()
    }

    mutating func conditionChanged(_ index: ConditionIndex, since old: ConditionRecord, at now: BusTime) {
        guard let new = conditions[Int(index)] else { return }
        let isEdge = new.epoch != old.epoch
        let isFirstLook = new.level.isKnown && !old.level.isKnown
        let concernsWaiting = new.isOpen && (isEdge || !old.isOpen) || isFirstLook
        let concernsOthers = isEdge || new.isOpen != old.isOpen
        // Those who stand in line are looked at as they are let go: a loss costs the same however many they are.
        if isEdge { drawSpread(of: index, at: now) }
        if isEdge || new.isUnsteady && !old.isUnsteady { tellGatesOfEdge(of: index) }
        if !new.isUnsteady && old.isUnsteady {
            for gate in gates.all(of: index) { gates[gate].noteSteadiness() }
        }
        if isEdge || new.isOpen != old.isOpen || new.isUnsteady != old.isUnsteady { stirred += gates.all(of: index) }
        if !new.isOpen && (isFirstLook || old.isOpen) { tellThoseInLine(of: index, at: now) }
        // An edge voids the delay of those who are attentive; a loss sends them to wait without a timer.
        let affected = (concernsWaiting ? Array(new.waiting) : []) + (concernsOthers ? Array(new.attentive) : [])
        for job in inOrder(affected) { advance(job, at: now) }
        if concernsOthers {
            for job in inOrder(new.interruptible) { reconsiderInterruption(job, at: now) }
        }
        if new.isHopeless && !old.isHopeless {
            for job in liveJobs where jobs[Int(job)]?.conditions.contains(index) == true { advance(job, at: now) }
        }
        letGo(at: now)
    }

    /// One draw for all gates of a scope: it is the machine that must not come back with the others.
    private mutating func drawSpread(of scope: ConditionIndex, at now: BusTime) {
        guard release.rules.hasCanaries, release.rules.spread > .zero else { return }
        conditions[Int(scope)]?.spreadUntil = now + release.rules.spread.scaled(by: Backoff.chance(chance.next()))
    }

    /// The gates of a scope try the way anew.
    private mutating func tellGatesOfEdge(of scope: ConditionIndex) {
        guard let record = conditions[Int(scope)] else { return }
        for gate in gates.all(of: scope) {
            gates[gate].noteEdge(isUnsteady: record.isUnsteady, spreadUntil: record.spreadUntil, release.rules)
        }
    }

    /// Retries now: voids the delays of one scope's jobs, or of all, but not what a server ordered, unless that is to be ignored.
    package mutating func nudge(_ scope: ConditionIndex?, ignoringOrders: Bool = false, at now: BusTime) -> [Effect] {
        if let scope {
            conditions[Int(scope)]?.nudges &+= 1
        } else {
            nudges &+= 1
        }
        let scopes = scope.map { [$0] } ?? conditions.indices.map(ConditionIndex.init)
        // A job is registered with all of its conditions: once is enough.
        let jobs = scopes.reduce(into: Set<JobIndex>()) { $0.formUnion(conditions[Int($1)]?.attentive ?? []) }
        for scope in scopes {
            for gate in gates.all(of: scope) {
                gates[gate].noteNudge()
                if ignoringOrders { gates[gate].forgetOrder() }
                stirred.append(gate)
            }
        }
        if ignoringOrders { makeOrdersSoft(of: scope, at: now) }
        for job in inOrder(jobs) { advance(job, at: now) }
        letGo(at: now)
        return takeEffects()
    }

    /// Turns what servers ordered into delays that the nudge voids; the time before a job's first attempt is its owner's.
    private mutating func makeOrdersSoft(of scope: ConditionIndex?, at now: BusTime) {
        for index in jobs.indices {
            guard let job = jobs[index], scope.map({ $0 == job.scope }) ?? true, job.phase != .running,
                job.history.started > 0, job.history.hard > now
            else { continue }
            jobs[index]?.history.soft = max(job.history.soft, job.history.hard)
            jobs[index]?.history.hard = .past
        }
    }

    /// The kernel says that a scope is gone though its condition does not say so yet: it counts as unsatisfied.
    ///
    /// The next evaluation ends that, or ``ConditionRecord/lossTime``.
    package mutating func lose(_ index: ConditionIndex, at now: BusTime) -> [Effect] {
        guard let old = conditions[Int(index)] else { return [] }
        conditions[Int(index)]?.lose(at: now)
        guard !old.isLost, let new = conditions[Int(index)], new.isLost else { return [] }
        lossTimers.arm(index, at: new.lostUntil)
        conditionChanged(index, since: old, at: now)
        return takeEffects()
    }

    mutating func endLoss(of index: ConditionIndex, at now: BusTime) {
        guard let old = conditions[Int(index)] else { return }
        conditions[Int(index)]?.endLoss(at: now)
        conditionChanged(index, since: old, at: now)
    }

    /// Has a job whose failure was not charged rest if its scope is lost without an edge: the loss may turn out to be none.
    mutating func restIfLost(_ index: JobIndex, at now: BusTime) {
        guard let job = jobs[Int(index)], conditions[Int(job.scope)]?.isLost == true, epoch(of: job) == job.history.armedEpoch
        else { return }
        jobs[Int(index)]?.history.soft = now + ReleaseRules.leastDelay
    }

    /// An attempt is cancelled when something it needs has been gone for longer than the grace.
    mutating func reconsiderInterruption(_ index: JobIndex, at now: BusTime) {
        guard let job = jobs[Int(index)], job.interruption == nil, let grace = job.rules.interruption?.grace else { return }
        let hasLoss = job.rules.interruption?.heedsSource == true ? hasLostSource(job) : unmet(job) != nil
        if !hasLoss {
            jobs[Int(index)]?.history.interruptAt = .never
        } else if job.history.interruptAt.isNever {
            jobs[Int(index)]?.history.interruptAt = now + grace
        }
        if grace == .zero, hasLoss { return interrupt(index, .loss) }
        arm(index)
    }

    /// If true, this machine has none of the addresses that the attempt's connections come from.
    private func hasLostSource(_ job: JobState) -> Bool {
        !job.history.sources.isEmpty
            && job.history.sources.allSatisfy { conditions[Int($0)].map { $0.isLive && !$0.isSatisfied } ?? false }
    }
}
