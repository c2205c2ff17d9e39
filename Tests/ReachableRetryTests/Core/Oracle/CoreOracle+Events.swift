@testable import ReachableRetry

/// The inputs of the oracle: the same as the core's.
extension CoreOracle {
    // MARK: - Jobs

    mutating func submit(_ variant: Variant, scope: Int, extras: [Int], destination: String?, priority: JobPriority) {
        let deadline = variant.elapsed.map { now + .milliseconds($0) } ?? .never
        let index = jobs.count
        jobs.append(
            Job(
                variant: variant, scope: scope, extras: extras, gate: gate(scope, destination), priority: priority, submitted: now,
                deadline: deadline))
        takePosition(index)
        jobs[index].armedEpoch = epoch(jobs[index])
        jobs[index].armedRetryNows = retryNows(jobs[index])
        advance(index)
        releaseJobs()
    }

    mutating func succeed(_ index: Int) {
        let job = jobs[index]
        dirtyGates.insert(job.gate)
        noteAnswer(index)
        notePassage(index)
        if job.variant.isBudgeted { budget?.noteSuccess(refund: job.refund) }
        publish(index, .succeeded)
        finish(index)
        releaseJobs()
    }

    mutating func cancel(_ index: Int) {
        guard jobs[index].state != .ended, !jobs[index].isCancelled else { return }
        jobs[index].isCancelled = true
        if jobs[index].state == .running { return interrupt(index, .cancelled) }
        end(index, .cancelled)
        releaseJobs()
    }

    mutating func setPaused(_ isPaused: Bool, _ index: Int) {
        guard jobs[index].isPaused != isPaused else { return }
        jobs[index].isPaused = isPaused
        if isPaused { advance(index) } else { letGo([index]) }
        releaseJobs()
    }

    mutating func setExtras(_ extras: [Int], _ index: Int) {
        let missed = epoch(jobs[index]) &- jobs[index].armedEpoch
        jobs[index].extras = extras
        jobs[index].armedEpoch = epoch(jobs[index]) &- missed
        if jobs[index].state == .parked { letGo([index]) }
        reconsiderInterruption(index)
        releaseJobs()
    }

    /// Sets the source addresses of the attempt, until its end.
    mutating func setSources(_ sources: [Int], _ index: Int) {
        guard jobs[index].variant.heedsSource, jobs[index].sources.isEmpty else { return }
        jobs[index].sources = sources
        reconsiderInterruption(index)
    }

    mutating func shutDown(drainEnd end: BusTime) {
        isShutDown = true
        drainEnd = min(drainEnd, end)
        for index in inOrder(living) where jobs[index].state != .running { self.end(index, .cancelled) }
        if drainEnd <= now { cancelRunning() }
    }

    private mutating func cancelRunning() {
        drainEnd = .never
        for index in inOrder(running) {
            jobs[index].isCancelled = true
            interrupt(index, .cancelled)
        }
    }

    // MARK: - Conditions

    mutating func update(_ index: Int, _ level: Level) {
        let old = conditions[index]
        guard level != old.level else { return change(index, since: old) }
        conditions[index].level = level
        var evaluated = old.level
        evaluated.isUnsteady = level.isUnsteady
        if level != evaluated { conditions[index].lostUntil = nil }
        if level.isKnown, !old.level.isKnown {
            conditions[index].baseline += level.epoch - old.level.epoch
        } else if level.epoch != old.level.epoch {
            conditions[index].edges.append(now)
        }
        change(index, since: old)
    }

    mutating func giveUpFirstVerdict(of index: Int) {
        let old = conditions[index]
        conditions[index].unknownUntil = .never
        if !old.level.isKnown { conditions[index].isGivenUp = true }
        change(index, since: old)
    }

    /// Records that a lookup found a satisfied scope unreachable.
    mutating func lose(_ index: Int) {
        let old = conditions[index]
        guard old.isReachability, old.isLive, old.isSatisfied else { return }
        conditions[index].lostUntil = now + .seconds(1)
        change(index, since: old)
    }

    private mutating func endLosses() {
        for index in conditions.indices {
            guard let end = conditions[index].lostUntil, end <= now else { continue }
            let old = conditions[index]
            conditions[index].lostUntil = nil
            change(index, since: old)
        }
    }

    mutating func retryNow(_ scope: Int?) {
        if let scope { conditions[scope].retryNows += 1 } else { allRetryNows += 1 }
        for gate in gates.indices where scope == nil || gates[gate].scope == scope {
            noteRetryNow(gate)
            dirtyGates.insert(gate)
        }
        letGo(
            living.filter {
                jobs[$0].place != .queued && (scope == nil || jobs[$0].scope == scope) && jobs[$0].state == .parked
            })
        releaseJobs()
    }

    /// Replaces an unused condition.
    mutating func replace(_ index: Int, _ condition: Condition) {
        conditions[index] = condition
        for gate in gates.indices where gates[gate].scope == index { gates[gate].isGone = true }
    }

    /// Handles a change of a condition for all jobs that need it.
    private mutating func change(_ index: Int, since old: Condition) {
        let new = conditions[index]
        let isTurned = new.isOpen != old.isOpen
        if isTurned || new.level.isKnown != old.level.isKnown { conditions[index].since = now }
        if new.epoch != old.epoch {
            if release.hasCanaries, release.spread > .zero {
                conditions[index].spreadUntil = now + release.spread.scaled(by: Backoff.random(random.next()))
            }
            if release.hasCanaries, fleetSize > 1 {
                let longest = min(5000, 5 * (fleetSize - 1))
                conditions[index].canaryAt = now + Duration.milliseconds(longest).scaled(by: Backoff.random(random.next()))
            }
        }
        let hasTurnedUnsteady = new.isUnsteady != old.isUnsteady
        for gate in gates.indices where gates[gate].scope == index && !gates[gate].isGone {
            if new.epoch != old.epoch || hasTurnedUnsteady && new.isUnsteady { noteEdge(gate) }
            if !new.isUnsteady { gates[gate].isUnsteady = false }
        }
        if new.epoch != old.epoch || isTurned || hasTurnedUnsteady {
            dirtyGates.formUnion(gates.indices.filter { gates[$0].scope == index })
        }
        let isLoss = !new.isOpen && (isTurned || new.level.isKnown != old.level.isKnown)
        let hasBecomeHopeless = new.isHopeless && !old.isHopeless
        letGo(
            living.filter { job in
                // Ends every job that needs it, including a failed one before its delay is known.
                let isEnded = hasBecomeHopeless && jobs[job].extras.contains(index)
                return isEnded || isConcerned(jobs[job], by: index, isLoss: isLoss)
            })
        for gate in gates.indices where gates[gate].scope == index && isTurned && new.isOpen { noteBacklog(gate) }
        for job in inOrder(living) { reconsiderInterruption(job) }
        releaseJobs()
    }

    /// Returns `true` if the change affects the job.
    ///
    /// A queued job reacts to the loss of its scope, and to everything else at its turn.
    private func isConcerned(_ job: Job, by index: Int, isLoss: Bool) -> Bool {
        guard job.state == .parked, job.scope == index || job.extras.contains(index) else { return false }
        return job.place != .queued || isLoss && job.scope == index && job.waitsForScope
    }

    // MARK: - Time

    /// Advances the time and adds up waits.
    mutating func pass(to time: BusTime) {
        for index in living where isWaiting(jobs[index]) { jobs[index].waited += time - now }
        now = time
    }

    private func isWaiting(_ job: Job) -> Bool {
        switch job.place {
        case .waiting: true
        case .queued: job.waitsForScope && !conditions[job.scope].isOpen
        default: false
        }
    }

    /// Handles everything that is due.
    mutating func tick() {
        if drainEnd <= now { cancelRunning() }
        while true {
            endLosses()
            let due = inOrder(living.filter { jobs[$0].timer <= now })
            let dueGates = gates.indices.filter { gates[$0].timer <= now }
            for job in due { jobs[job].timer = .never }
            for gate in dueGates { gates[gate].timer = .never }
            dirtyGates.formUnion(dueGates)
            guard !due.isEmpty || !dirtyGates.isEmpty || timeOfNextPlace <= now else { return }
            for job in due { timerFired(job) }
            releaseJobs()
        }
    }

    private mutating func timerFired(_ index: Int) {
        let job = jobs[index]
        switch (job.state, job.place) {
        case (.ended, _): break
        case (.running, _):
            if job.deadline <= now {
                interrupt(index, .deadline)
            } else if let timeout = job.variant.timeout, job.startedAt + .milliseconds(timeout) <= now {
                interrupt(index, .timeout)
            } else if job.interruptAt <= now {
                interrupt(index, .loss)
            }
        case (_, .queued) where job.deadline > now: waitTimerFired(index, waitsFor: job.scope)
        case (_, .waiting(let condition)) where job.deadline > now: waitTimerFired(index, waitsFor: condition)
        default: advance(index)
        }
    }

    private mutating func waitTimerFired(_ index: Int, waitsFor condition: Int) {
        let scope = conditions[condition]
        if scope.isUnknown, scope.unknownUntil <= now {
            giveUpFirstVerdict(of: condition)
        } else if jobs[index].limit <= now, let limit = jobs[index].waitLimit {
            // The limit counts from the loss of the scope.
            let end = (scope.isOpen ? now : scope.since) + limit
            guard end > now else { return giveUp(index, .waitLimit) }
            jobs[index].limit = end
        }
        if jobs[index].state == .parked { arm(index) }
    }
}
