/// What the passing of time leads to.
extension RetryBusCore {
    /// When something happens next by itself: the one timer that a bus needs.
    package func nextTime() -> BusTime {
        min(
            timers.earliest, gateTimers.earliest, lossTimers.earliest, timeOfNextPlace, count == 0 ? .never : drainEnd)
    }

    /// Time has passed: everything happens that is due.
    package mutating func tick(at now: BusTime) -> [Effect] {
        if drainEnd <= now { cancelRunning() }
        while true {
            var found: [ConditionIndex] = []
            while let scope = lossTimers.popDue(at: now) { found.append(scope) }
            for scope in found.sorted() { endLoss(of: scope, at: now) }
            var due: [JobIndex] = []
            while let job = timers.popDue(at: now) { due.append(job) }
            while let gate = gateTimers.popDue(at: now) { stirred.append(gate) }
            guard !due.isEmpty || !stirred.isEmpty || hasPlace(at: now) else { return takeEffects() }
            // Their times are all over: whose was the first does not matter any more.
            for job in inOrder(due) { timeCame(job, at: now) }
            letGo(at: now)
        }
    }

    /// The scopes of the jobs that are about to start because of the time.
    package func dueScopes(at now: BusTime) -> Set<ConditionIndex> {
        var scopes: Set<ConditionIndex> = []
        for case let job? in jobs where job.phase == .backingOff && job.waitsForScope && job.nextTime <= now {
            scopes.insert(job.scope)
        }
        if min(gateTimers.earliest, lossTimers.earliest) <= now {
            for case let job? in jobs where job.isInLine && job.waitsForScope { scopes.insert(job.scope) }
        }
        return scopes
    }

    private mutating func timeCame(_ index: JobIndex, at now: BusTime) {
        guard let job = jobs[Int(index)] else { return }
        switch job.phase {
        case .running:
            if job.deadline <= now {
                interrupt(index, .deadline)
            } else if job.limit <= now {
                interrupt(index, .timeout)
            } else if job.history.interruptAt <= now {
                interrupt(index, .loss)
            }
        case .waiting where job.deadline > now:
            guard job.waitsFor >= 0, let record = conditions[Int(job.waitsFor)] else { return arm(index) }
            if record.isUnknown, record.unknownUntil <= now {
                conditions[Int(job.waitsFor)]?.stopWaitingForTheFirstLook(at: now)
                conditionChanged(job.waitsFor, since: record, at: now)
                // It may still be its turn that it waits for.
                if jobs[Int(index)]?.phase == .waiting { arm(index) }
            } else if job.limit <= now {
                reconsiderLimit(index, job, record, at: now)
            } else {
                arm(index)
            }
        case .waiting, .backingOff, .judged:
            advance(index, at: now)
        }
    }

    /// A job has waited for long, or has stood in line for long.
    ///
    /// A loss tells those who stand in line nothing: their time is over only if the scope has been away for all of it.
    private mutating func reconsiderLimit(_ index: JobIndex, _ job: JobState, _ record: ConditionRecord, at now: BusTime) {
        let end = record.isOpen ? now + job.longestWait : record.unchangedSince + job.longestWait
        guard job.isInLine, end > now else { return giveUp(index, .waitLimit, at: now) }
        jobs[Int(index)]?.limit = end
        arm(index)
    }

    /// Has a running attempt cancelled.
    ///
    /// What happens to it after that no longer depends on time.
    mutating func interrupt(_ index: JobIndex, _ interruption: JobState.Interruption) {
        guard jobs[Int(index)]?.phase == .running, jobs[Int(index)]?.interruption == nil else { return }
        jobs[Int(index)]?.interruption = interruption
        timers.cancel(index)
        effects.append(.interrupt(key(index), interruption))
    }

    mutating func cancelRunning() {
        drainEnd = .never
        for index in liveJobs {
            jobs[Int(index)]?.isCancelled = true
            interrupt(index, .cancelled)
        }
    }

    /// Sets the job's timer to what it waits for now.
    mutating func arm(_ index: JobIndex) {
        guard let job = jobs[Int(index)] else { return }
        var time = job.nextTime
        // A monitor that is starting is not waited for as long as a network that is gone.
        if job.phase == .waiting, job.waitsFor >= 0, let record = conditions[Int(job.waitsFor)], record.isUnknown {
            time = min(time, record.unknownUntil)
        }
        if time.isNever { timers.cancel(index) } else { timers.arm(index, at: time) }
    }
}
