@testable import ReachableRetry

/// The places, starts and ends of jobs.
extension CoreOracle {
    /// Moves a job that is not running to its next place.
    mutating func advance(_ index: Int, hasFailed: Bool = false) {
        guard jobs[index].state == .parked else { return }
        if endIfOver(index) { return }
        let job = jobs[index]
        if job.isPaused {
            move(index, to: .paused)
            arm(index)
        } else if job.waitsForScope && !conditions[job.scope].isOpen || !delayIfNeeded(index, hasFailed: hasFailed) {
            enqueue(index)
        }
    }

    mutating func endIfOver(_ index: Int) -> Bool {
        let job = jobs[index]
        if job.deadline <= now {
            giveUp(index, .deadline)
        } else if job.extras.contains(where: { conditions[$0].isHopeless }) {
            giveUp(index, .conditionEnded)
        }
        return jobs[index].state == .ended
    }

    /// Makes the job wait for another condition or for a delay, and returns `true` if it has to.
    mutating func delayIfNeeded(_ index: Int, hasFailed: Bool = false) -> Bool {
        if isVoided(jobs[index]) { jobs[index].soft = .past }
        let job = jobs[index]
        if let condition = unmet(job).first {
            if job.place != .waiting(condition) { move(index, to: .waiting(condition)) }
            reportWaiting(index)
        } else if max(job.soft, job.hard) > now {
            move(index, to: .backingOff)
            if hasFailed { publish(index, .backingOff(max(job.soft, job.hard) - now)) }
        } else {
            return false
        }
        arm(index)
        return true
    }

    private mutating func enqueue(_ index: Int) {
        if jobs[index].place != .queued {
            if jobs[index].position == nil { takePosition(index) }
            move(index, to: .queued)
        }
        let job = jobs[index]
        if let limit = job.waitLimit, job.waitsForScope, job.limit == .never, !conditions[job.scope].isUnknown {
            jobs[index].limit = now + limit
        }
        reportWaiting(index)
        arm(index)
        dirtyGates.insert(job.gate)
    }

    mutating func takePosition(_ index: Int) {
        positions += 1
        jobs[index].position = QueuePosition(priority: jobs[index].priority, number: positions)
    }

    private mutating func reportWaiting(_ index: Int) {
        guard let condition = unmet(jobs[index]).first, jobs[index].reportedWait != condition, conditions[condition].level.isKnown
        else { return }
        jobs[index].reportedWait = condition
        publish(index, .waiting(ConditionIndex(condition)))
    }

    mutating func move(_ index: Int, to place: Place) {
        let gate = jobs[index].gate
        (jobs[index].place, jobs[index].limit) = (place, .never)
        if queue(gate).isEmpty { (gates[gate].timer, gates[gate].offer) = (.never, nil) }
    }

    mutating func start(_ index: Int, _ pass: Pass) {
        move(index, to: .nowhere)
        var job = jobs[index]
        if epoch(job) != job.armedEpoch {
            let isReset = job.variant.rule == .resetBackoff || job.variant.rule == .automatic && job.lastFault == .network
            if isReset { (job.failureIndex, job.previousDelay) = (0, nil) }
            job.connectivityIndex = 0
        }
        job.state = .running
        job.reportedWait = nil
        job.startedAt = now
        job.started += 1
        (job.armedEpoch, job.armedScopeEpoch, job.armedRetryNows) = (epoch(job), conditions[job.scope].epoch, retryNows(job))
        (job.soft, job.interruption, job.interruptAt, job.sources) = (.past, nil, .never, [])
        (job.pass, job.round) = (pass, gates[job.gate].round)
        jobs[index] = job
        noteStart(index)
        arm(index)
        publish(index, .started(job.started, StartReason(trigger: .first)))
        actions.append((index, .start))
    }

    mutating func interrupt(_ index: Int, _ interruption: JobState.Interruption) {
        guard jobs[index].state == .running, jobs[index].interruption == nil else { return }
        jobs[index].interruption = interruption
        arm(index)
        actions.append((index, .interrupt(interruption)))
    }

    /// True if the policy may interrupt the attempt: a condition is unsatisfied, or all source addresses are lost.
    private func isCutOff(_ job: Job) -> Bool {
        guard job.variant.heedsSource else { return !unmet(job).isEmpty }
        let areUsable = job.sources.map { conditions[$0].isSatisfied || conditions[$0].level.isFinished }
        return !areUsable.isEmpty && !areUsable.contains(true)
    }

    /// Sets or clears the time of the attempt's interruption: a loss must last for the grace.
    mutating func reconsiderInterruption(_ index: Int) {
        let job = jobs[index]
        guard job.state == .running, job.interruption == nil, let grace = job.variant.grace else { return }
        if !isCutOff(job) {
            jobs[index].interruptAt = .never
        } else if job.interruptAt.isNever {
            jobs[index].interruptAt = now + .milliseconds(grace)
        }
        if grace == 0, isCutOff(job) { return interrupt(index, .loss) }
        arm(index)
    }

    mutating func giveUp(_ index: Int, _ reason: GiveUp.Reason, isCut: Bool = false) {
        let job = jobs[index]
        let counts = JobCounts(
            started: job.started, charged: job.charged, networkFailures: job.networkFailures, waited: job.waited,
            elapsed: now - job.submitted)
        end(index, .gaveUp(reason, counts, isCut: isCut))
    }

    mutating func end(_ index: Int, _ ending: Ending) {
        publish(index, .ended(ending))
        actions.append((index, .end(ending)))
        finish(index)
    }

    mutating func finish(_ index: Int) {
        move(index, to: .nowhere)
        jobs[index].state = .ended
        if living.isEmpty { shortage = nil }
        arm(index)
    }
}
