/// The waits of jobs, and their starts.
extension RetryBusCore {
    // MARK: - What a job sees

    /// Returns the sum of the epochs of a job's scope and conditions.
    func epoch(of job: JobState) -> UInt64 {
        var sum: UInt64 = job.heedsScope ? scopeEpoch(of: job) : 0
        for condition in job.conditions { sum &+= conditions[Int(condition)]?.epoch ?? 0 }
        return sum
    }

    func scopeEpoch(of job: JobState) -> UInt64 { conditions[Int(job.scope)]?.epoch ?? 0 }

    func retryNows(of job: JobState) -> UInt64 { retryNows &+ (conditions[Int(job.scope)]?.retryNows ?? 0) }

    /// Returns true if an edge or a call to retry now came since the last attempt started, which ends the delay.
    ///
    /// The next attempt is armed again, so each edge counts once.
    func isVoided(_ job: JobState) -> Bool {
        epoch(of: job) != job.history.armedEpoch || retryNows(of: job) != job.history.armedRetryNows
    }

    /// Returns the first unmet condition of a job.
    func unmet(_ job: JobState) -> ConditionIndex? {
        if job.waitsForScope, conditions[Int(job.scope)]?.isOpen == false { return job.scope }
        return job.conditions.first { conditions[Int($0)]?.isOpen == false }
    }

    // MARK: - Moving on

    /// Ends a job that is not running, lets it wait for a condition or a time, or queues it.
    ///
    /// All decisions about waits are made here. ``releaseJobs(at:)`` starts queued jobs.
    ///
    /// - Parameter hasFailed: True if its attempt has just failed.
    mutating func advance(_ index: JobIndex, hasFailed: Bool = false, at now: BusTime) {
        guard let job = jobs[Int(index)], !job.isRunning, !job.hasEnded else { return }
        if endIfOver(index, job, at: now) { return }
        if job.isPaused { return rest(index, job, at: now) }
        let isClosed = job.waitsForScope && conditions[Int(job.scope)]?.isOpen == false
        if isClosed || !holdBack(index, hasFailed: hasFailed, at: now) { enqueue(index, at: now) }
    }

    /// Lets a paused job wait.
    private mutating func rest(_ index: JobIndex, _ job: JobState, at now: BusTime) {
        leave(index, at: now)
        jobs[Int(index)]?.phase = .resting
        arm(index)
    }

    /// Ends a job after its deadline, or if a condition will never be satisfied.
    mutating func endIfOver(_ index: JobIndex, _ job: JobState, at now: BusTime) -> Bool {
        if job.deadline <= now {
            giveUp(index, .deadline, at: now)
        } else if job.conditions.contains(where: { conditions[Int($0)]?.isHopeless == true }) {
            giveUp(index, .conditionEnded, at: now)
        } else {
            return false
        }
        return true
    }

    /// Lets a job wait for another condition than its scope or for a time, if it has to; returns true if it waits.
    private mutating func holdBack(_ index: JobIndex, hasFailed: Bool = false, at now: BusTime) -> Bool {
        guard let job = jobs[Int(index)] else { return false }
        if job.history.soft != .past, isVoided(job) {
            jobs[Int(index)]?.history.voided = job.history.soft
            jobs[Int(index)]?.history.soft = .past
        }
        if let condition = unmet(job) {
            wait(index, for: condition, at: now)
            return true
        }
        guard let history = jobs[Int(index)]?.history, max(history.soft, history.hard) > now else { return false }
        backOff(index, isNew: hasFailed, at: now)
        return true
    }

    /// Starts the first job of a queue, unless it has to wait for something else; in any case it leaves the queue.
    ///
    /// - Parameter lender: The job whose attempt lends it a place; `nil` if it gets one of its own.
    mutating func proceed(_ index: JobIndex, _ pass: GateState.Pass, lender: JobIndex? = nil, at now: BusTime) {
        guard let job = jobs[Int(index)] else { return }
        if endIfOver(index, job, at: now) || holdBack(index, at: now) { return }
        if job.history.hasEventReader, !job.history.isAnnounced { return announce(index, job, at: now) }
        start(index, pass, lender: lender, at: now)
    }

    /// Announces an attempt to the job's reader, who may take time: until it asks for the next event, the job holds no place.
    private mutating func announce(_ index: JobIndex, _ job: JobState, at now: BusTime) {
        jobs[Int(index)]?.history.isAnnounced = true
        jobs[Int(index)]?.pausers.insert(.reader)
        rest(index, job, at: now)
        effects.append(.announce(key(index)))
    }

    /// Queues a job at its gate.
    private mutating func enqueue(_ index: JobIndex, at now: BusTime) {
        guard let job = jobs[Int(index)] else { return }
        if !job.isQueued {
            leave(index, at: now)
            let position = job.position == .none ? takePosition(job.priority) : job.position
            if position != job.position { jobs[Int(index)]?.position = position }
            let entry = GateQueue.Entry(position: position, job: index, queueing: jobs[Int(index)]?.noteQueueing() ?? 0)
            gates[job.gate].queues[QueueClass(job)].append(entry)
            for lender in job.history.lenders { offer(entry, of: job, to: lender) }
            let closedSince = job.waitsForScope ? closedTime(of: job.scope, at: now) : .never
            jobs[Int(index)]?.phase = .queued(closedSince: closedSince, limit: .never)
        }
        if job.waitsForScope, conditions[Int(job.scope)]?.isUnknown != true,
            case .queued(let closedSince, .never)? = jobs[Int(index)]?.phase
        {
            jobs[Int(index)]?.phase = .queued(closedSince: closedSince, limit: now + job.longestWait)
        }
        reportWaiting(index)
        if job.waitsForScope, jobs[Int(index)]?.reportedWait != job.scope { gates[job.gate].unreported.insert(index) }
        arm(index)
        dirtyGates.append(job.gate)
    }

    /// Lets a job wait for another condition than its scope.
    private mutating func wait(_ index: JobIndex, for condition: ConditionIndex, at now: BusTime) {
        guard let job = jobs[Int(index)] else { return }
        if job.isQueued || job.waitsFor != condition {
            leave(index, at: now)
            conditions[Int(condition)]?.waiting.insert(index)
            // A loss of the scope replaces this wait, because the wait for the network has a limit.
            if condition != job.scope, job.waitsForScope { conditions[Int(job.scope)]?.attentive.insert(index) }
            jobs[Int(index)]?.phase = .waiting(for: condition, since: now)
        }
        reportWaiting(index)
        arm(index)
    }

    /// Reports the wait of jobs that were queued for another reason when their scope was lost.
    mutating func reportWaitOfQueued(of scope: ConditionIndex, at now: BusTime) {
        for gate in Array(gates.all(of: scope)) {
            let unreported = gates[gate].unreported
            gates[gate].unreported = []
            for job in inOrder(unreported) { advance(job, at: now) }
        }
    }

    /// Reports a wait if its condition changed and has a verdict.
    private mutating func reportWaiting(_ index: JobIndex) {
        guard let job = jobs[Int(index)], let condition = unmet(job), job.reportedWait != condition,
            conditions[Int(condition)]?.level.isKnown == true
        else { return }
        jobs[Int(index)]?.reportedWait = condition
        publish(index, .waiting(condition))
    }

    private mutating func backOff(_ index: JobIndex, isNew: Bool, at now: BusTime) {
        leave(index, at: now)
        guard let job = jobs[Int(index)] else { return }
        if isNew { publish(index, .backingOff(max(job.history.soft, job.history.hard) - now)) }
        jobs[Int(index)]?.phase = .backingOff
        for condition in CollectionOfOne(job.scope) + job.conditions { conditions[Int(condition)]?.attentive.insert(index) }
        arm(index)
    }

    private mutating func start(_ index: JobIndex, _ pass: GateState.Pass, lender: JobIndex?, at now: BusTime) {
        leave(index, at: now)
        guard var job = jobs[Int(index)] else { return }
        let epoch = epoch(of: job)
        let startReason = startReason(of: job, at: now)
        // The last attempt of a job that goes on in another life was not armed here.
        let hasReconnected = job.history.handsBack ? job.history.hasReconnected : epoch != job.history.armedEpoch
        if hasReconnected, job.resetsOnReconnect { (job.history.failureIndex, job.history.previousDelay) = (0, nil) }
        if epoch != job.history.armedEpoch { job.history.connectivityIndex = 0 }
        // The time limit counts from ``begin(_:at:)``.
        let round = gates[job.gate].round
        job.phase = .running(
            RunningState(pass: pass, round: round, scopeEpoch: scopeEpoch(of: job), keptBefore: job.history.kept))
        job.history.started = job.history.started.saturatingIncrement()
        job.history.armedEpoch = epoch
        job.history.armedRetryNows = retryNows(of: job)
        (job.history.soft, job.history.voided) = (.past, .past)
        job.history.isAnnounced = false
        job.reportedWait = -1
        jobs[Int(index)] = job
        takePlace(index, job.gate, of: lender)
        if lender == nil {
            gates[job.gate].noteStart(pass, QueueClass(job), key(index), job.history.started, release.rules, at: now)
        }
        if job.rules.interruption?.heedsConditions == true { watchForLosses(index) }
        arm(index)
        publish(index, .started(Int(job.history.started), startReason))
        effects.append(.start(key(index)))
    }

    /// Withdraws the announcement of an attempt, because its reader hears of a wait.
    package mutating func withdrawAnnouncement(_ key: JobKey) {
        if self[key]?.history.isAnnounced == true { jobs[Int(key.index)]?.history.isAnnounced = false }
    }

    /// Registers a running attempt for losses of its scope and conditions.
    mutating func watchForLosses(_ index: JobIndex) {
        guard let job = jobs[Int(index)] else { return }
        if job.waitsForScope { conditions[Int(job.scope)]?.interruptible.insert(index) }
        for condition in job.conditions { conditions[Int(condition)]?.interruptible.insert(index) }
    }

    mutating func unwatchLosses(of index: JobIndex, _ job: JobState) {
        guard job.rules.interruption?.heedsConditions == true else { return }
        for condition in CollectionOfOne(job.scope) + job.conditions { conditions[Int(condition)]?.interruptible.remove(index) }
    }

    /// Returns the number of the attempt that was announced; `nil` if there is none.
    package func announcedAttempt(of key: JobKey) -> Int? {
        guard let history = self[key]?.history, history.isAnnounced else { return nil }
        return Int(history.started.saturatingIncrement())
    }

    /// Returns the running attempt.
    package func currentStart(of key: JobKey, at now: BusTime) -> Start? {
        guard let job = self[key], let attempt = job.attempt else { return nil }
        let limit = attempt.limit.isNever ? job.rules.attemptTimeout.map { now + $0 } ?? .never : attempt.limit
        let end = min(job.deadline, limit)
        return Start(
            number: Int(job.history.started), epoch: job.history.armedEpoch, limit: end.isNever ? nil : max(.zero, end - now))
    }

    // MARK: - Registration

    /// Ends a wait and adds its time.
    mutating func leave(_ index: JobIndex, at now: BusTime) {
        if let wait = jobs[Int(index)].flatMap({ wait(of: $0, at: now) }) { jobs[Int(index)]?.history.waited += wait }
        unregister(index)
    }

    /// Returns the duration of a job's wait for a condition; for queued jobs this is the closed time of the scope.
    private func wait(of job: JobState, at now: BusTime) -> Duration? {
        switch job.phase {
        case .queued(let closedSince, _): closedSince.isNever ? nil : closedTime(of: job.scope, at: now) - closedSince
        case .waiting(_, let since): now - since
        case .resting, .backingOff, .running, .ended: nil
        }
    }

    private func closedTime(of scope: ConditionIndex, at now: BusTime) -> BusTime {
        conditions[Int(scope)]?.closedTime(at: now) ?? .start
    }

    /// Removes a job from all lists; it rests.
    mutating func unregister(_ index: JobIndex) {
        guard let job = jobs[Int(index)] else { return }
        jobs[Int(index)]?.phase = .resting
        switch job.phase {
        case .queued:
            for lender in job.history.lenders { withdraw(job, from: lender) }
            gates[job.gate].unreported.remove(index)
            gates[job.gate].queues[QueueClass(job)].remove { [jobs] in jobs[Int($0.job)]?.isQueued(as: $0) == true }
            if gates[job.gate].queues.isEmpty {
                gateTimers.cancel(job.gate)
                gates[job.gate].ready = nil
            }
        case .waiting(let condition, _):
            conditions[Int(condition)]?.waiting.remove(index)
            conditions[Int(job.scope)]?.attentive.remove(index)
        case .backingOff:
            for condition in CollectionOfOne(job.scope) + job.conditions { conditions[Int(condition)]?.attentive.remove(index) }
        case .running(let attempt):
            unwatchLosses(of: index, job)
            for source in attempt.sources {
                conditions[Int(source)]?.interruptible.remove(index)
                release(source)
            }
        case .resting, .ended: break
        }
    }

    func counts(_ job: JobState, at now: BusTime) -> JobCounts {
        JobCounts(
            started: Int(job.history.started), charged: Int(job.history.charged),
            networkFailures: Int(job.history.networkFailures),
            waited: job.history.waited + (wait(of: job, at: now) ?? .zero), elapsed: max(.zero, now - job.submitted))
    }

    mutating func giveUp(_ index: JobIndex, _ reason: GiveUp.Reason, isCut: Bool = false, at now: BusTime) {
        guard let job = jobs[Int(index)] else { return }
        end(index, .gaveUp(reason, counts(job, at: now), isCut: isCut), at: now)
    }
}

/// The consequences of changed conditions.
extension RetryBusCore {
    /// Updates the level of a condition.
    ///
    /// Visits only jobs that depend on the condition and wait for this kind of change.
    package mutating func update(_ index: ConditionIndex, _ level: Level, at now: BusTime) -> [Effect] {
        guard let old = conditions[Int(index)] else { return [] }
        conditions[Int(index)]?.update(level, at: now)
        if old.isLost, conditions[Int(index)]?.isLost == false { lossTimers.cancel(index) }
        conditionChanged(index, since: old, at: now)
        return takeEffects()
    }

    /// Lets the jobs of a condition start without a first verdict.
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
        // Queued jobs are checked when they are released, so the cost of a loss does not grow with their number.
        if isEdge { drawSpread(of: index, at: now) }
        if isEdge || new.isUnsteady && !old.isUnsteady { noteEdgeAtGates(of: index, at: now) }
        if !new.isUnsteady && old.isUnsteady {
            for gate in gates.all(of: index) { gates[gate].noteSteadiness() }
        }
        if isEdge || new.isOpen != old.isOpen || new.isUnsteady != old.isUnsteady { dirtyGates += gates.all(of: index) }
        if !new.isOpen && (isFirstLook || old.isOpen) { reportWaitOfQueued(of: index, at: now) }
        // For attentive jobs an edge voids the delay, and a loss replaces the timer by a wait.
        let affected = (concernsWaiting ? Array(new.waiting) : []) + (concernsOthers ? Array(new.attentive) : [])
        letGo(affected, at: now)
        if new.isOpen && !old.isOpen {
            for gate in Array(gates.all(of: index)) { noteBacklog(at: gate, at: now) }
        }
        if concernsOthers {
            for job in inOrder(new.interruptible) { reconsiderInterruption(job, at: now) }
        }
        if new.isHopeless && !old.isHopeless {
            for job in liveJobs where jobs[Int(job)]?.conditions.contains(index) == true { advance(job, at: now) }
        }
        releaseJobs(at: now)
    }

    /// Draws the spread once for all gates of a scope, because machines have to be spread and not gates.
    private mutating func drawSpread(of scope: ConditionIndex, at now: BusTime) {
        guard release.rules.hasCanaries else { return }
        if release.rules.spread > .zero {
            conditions[Int(scope)]?.spreadUntil = now + release.rules.spread.scaled(by: Backoff.random(random.next()))
        }
        let wait = ReleaseRules.firstSpread.draw(fleetSize, &random)
        conditions[Int(scope)]?.canaryAt = now + wait
    }

    /// Starts probing at the gates of a scope.
    private mutating func noteEdgeAtGates(of scope: ConditionIndex, at now: BusTime) {
        guard let record = conditions[Int(scope)] else { return }
        for gate in gates.all(of: scope) { noteEdge(at: gate, record, at: now) }
    }

    /// Starts probing at a gate.
    mutating func noteEdge(at gate: Int32, _ record: ConditionRecord, at now: BusTime) {
        gates[gate].noteEdge(record, release.rules)
    }

    /// Voids the soft delays of one scope's jobs or of all jobs, and on request also the hard delays of servers.
    package mutating func retryNow(_ scope: ConditionIndex?, ignoringServerDelays: Bool = false, at now: BusTime) -> [Effect] {
        if let scope {
            conditions[Int(scope)]?.retryNows &+= 1
        } else {
            retryNows &+= 1
        }
        let scopes = scope.map { [$0] } ?? conditions.indices.map(ConditionIndex.init)
        // A job is registered with each of its conditions.
        let jobs = scopes.reduce(into: Set<JobIndex>()) { $0.formUnion(conditions[Int($1)]?.attentive ?? []) }
        for scope in scopes {
            for gate in gates.all(of: scope) {
                gates[gate].noteRetryNow()
                if ignoringServerDelays { gates[gate].forgetHardDelay() }
                dirtyGates.append(gate)
            }
        }
        if ignoringServerDelays { softenHardDelays(of: scope, at: now) }
        letGo(jobs, at: now)
        releaseJobs(at: now)
        return takeEffects()
    }

    /// Turns hard delays of servers into soft ones.
    ///
    /// The hard delay before a first attempt is its owner's and stays.
    private mutating func softenHardDelays(of scope: ConditionIndex?, at now: BusTime) {
        for index in jobs.indices {
            guard let job = jobs[index], scope.map({ $0 == job.scope }) ?? true, !job.isRunning,
                job.history.started > 0, job.history.hard > now
            else { continue }
            jobs[index]?.history.soft = max(job.history.soft, job.history.hard)
            jobs[index]?.history.hard = .past
        }
    }

    /// Records that a lookup found a scope gone before its condition changed: it counts as unsatisfied.
    ///
    /// The next evaluation or ``ConditionRecord/lossTime`` ends the loss.
    package mutating func lose(_ index: ConditionIndex, at now: BusTime) -> [Effect] {
        noteLoss(of: index, at: now)
        return takeEffects()
    }

    mutating func noteLoss(of index: ConditionIndex, at now: BusTime) {
        guard let old = conditions[Int(index)] else { return }
        conditions[Int(index)]?.lose(at: now)
        guard !old.isLost, let new = conditions[Int(index)], new.isLost else { return }
        lossTimers.arm(index, at: new.lostUntil)
        conditionChanged(index, since: old, at: now)
    }

    mutating func endLoss(of index: ConditionIndex, at now: BusTime) {
        guard let old = conditions[Int(index)] else { return }
        conditions[Int(index)]?.endLoss(at: now)
        conditionChanged(index, since: old, at: now)
    }

    /// Delays a job after an uncharged failure if its scope is lost without an edge, because the loss may be an error.
    mutating func restIfLost(_ index: JobIndex, at now: BusTime) {
        guard let job = jobs[Int(index)], conditions[Int(job.scope)]?.isLost == true, epoch(of: job) == job.history.armedEpoch
        else { return }
        jobs[Int(index)]?.history.soft = now + ReleaseRules.leastDelay
    }

    /// Starts, ends or fires the grace after which a loss cancels a running attempt.
    mutating func reconsiderInterruption(_ index: JobIndex, at now: BusTime) {
        guard let job = jobs[Int(index)], let attempt = job.attempt, attempt.interruption == nil,
            let grace = job.rules.interruption?.grace
        else { return }
        let hasLoss = job.rules.interruption?.heedsSource == true ? hasLostSources(attempt) : unmet(job) != nil
        if !hasLoss {
            jobs[Int(index)]?.attempt?.interruptAt = .never
        } else if attempt.interruptAt.isNever {
            jobs[Int(index)]?.attempt?.interruptAt = now + grace
        }
        if grace == .zero, hasLoss { return interrupt(index, .loss) }
        arm(index)
    }

    /// Returns true if this machine lost all source addresses of the attempt's connections.
    private func hasLostSources(_ attempt: RunningState) -> Bool {
        !attempt.sources.isEmpty
            && attempt.sources.allSatisfy { conditions[Int($0)].map { $0.isLive && !$0.isSatisfied } ?? false }
    }
}
