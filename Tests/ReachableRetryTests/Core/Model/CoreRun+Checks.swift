@testable import ReachableRetry

/// The invariants of each effect, and of the state between events.
extension CoreRun {
    func check(_ isTrue: Bool, _ text: @autoclosure () -> String, _ index: Int? = nil) throws(Fault) {
        guard !isTrue else { return }
        let job = index.map { "\njob \($0): \(model.jobs[$0])" } ?? ""
        throw Fault(description: "at \(model.now): \(text())\(job)\nconditions: \(model.conditions)")
    }

    /// Checks that a change of a condition or scope affects only its own jobs, and that they start in order.
    func check(_ effects: [Effect], isOwn: (CoreModel.Job) -> Bool) throws(Fault) {
        var starts: [Int] = []
        for effect in effects {
            let index =
                switch effect {
                case .start(let key), .announce(let key), .interrupt(let key, _), .end(let key, _), .handBack(let key, _):
                    index(key)
                case .publish(let changed, _): index(changed.key)
                case .warnOfShortage: model.jobs.firstIndex(where: isOwn) ?? 0
                }
            try check(isOwn(model.jobs[index]), "it is affected by \(effect)", index)
            if case .start = effect { starts.append(index) }
        }
        // In a queue bulk jobs have their share.
        guard hasNoQueue else { return }
        let order = starts.sorted { left, right in
            let (first, second) = (model.jobs[left].priority, model.jobs[right].priority)
            return first == second ? left < right : first > second
        }
        try check(starts == order, "they start in the order \(starts), not \(order)")
    }

    mutating func apply(_ effects: [Effect]) throws(Fault) {
        model.measure()
        for effect in effects {
            switch effect {
            case .start(let key):
                try started(index(key))
                _ = core.begin(key, at: now)
            case .announce(let key): try check(false, "it is announced, and has no reader", index(key))
            case .interrupt(let key, let interruption): try interrupted(index(key), interruption)
            case .end(let key, let ending): try ended(index(key), ending)
            case .handBack(let key, _): try check(false, "it is handed back, and was not submitted so", index(key))
            case .warnOfShortage: break
            case .publish(let changed, let change): try published(changed, change, index(changed.key))
            }
        }
        model.measure()
    }

    /// Returns the job's number; a job may start before its key is known.
    private func index(_ key: JobKey) -> Int { keys.firstIndex(of: key) ?? keys.count }

    // MARK: - Effects

    private mutating func started(_ index: Int) throws(Fault) {
        let job = model.jobs[index]
        try check(job.state == .parked, "it starts while \(job.state)", index)
        try check(!job.isPaused, "it starts though it is paused", index)
        try check(model.isMet(job), "it starts with an unmet condition", index)
        try check(model.release(job) <= model.now, "it starts too early", index)
        try check(model.endOfServerDelay(job) <= model.now, "it starts during the delay ordered by its server", index)
        try check(job.deadline > model.now, "it starts after its deadline", index)
        try check(!model.isShutDown, "it starts after the shutdown", index)
        try checkGate(index)
        let epoch = model.epoch(job)
        if epoch != job.armedEpoch {
            let isReset =
                job.variant.rule == .resetBackoff || (job.variant.rule == .automatic && job.lastFault == .network)
            if isReset { (model.jobs[index].failureIndex, model.jobs[index].previousDelay) = (0, nil) }
            model.jobs[index].connectivityIndex = 0
        }
        (model.jobs[index].state, model.jobs[index].sources) = (.running, [])
        model.jobs[index].started += 1
        model.jobs[index].startedAt = model.now
        model.jobs[index].soft = .min
        model.jobs[index].armedEpoch = epoch
        model.jobs[index].armedScopeEpoch = model.conditions[job.scope].epoch
        model.jobs[index].armedRetryNows = model.retryNows(job)
        (model.jobs[index].isInterrupted, model.jobs[index].interruptedBy) = (false, nil)
    }

    private mutating func interrupted(_ index: Int, _ interruption: JobState.Interruption) throws(Fault) {
        let job = model.jobs[index]
        try check(job.state == .running && !job.isInterrupted, "it is interrupted while \(job.state)", index)
        let isRight =
            switch interruption {
            case .cancelled: job.isCancelled
            case .deadline: job.deadline <= model.now
            case .timeout: job.variant.timeout.map { job.startedAt + $0 <= model.now } ?? false
            case .loss: job.variant.grace.map { (job.missingSince ?? .max) <= model.now - $0 } ?? false
            }
        try check(isRight, "it is interrupted because \(interruption)", index)
        (model.jobs[index].isInterrupted, model.jobs[index].interruptedBy) = (true, interruption)
    }

    /// True if no job is queued: the reason why a queued job waits is known only at its turn.
    private var hasNoQueue: Bool {
        isExact && !model.isDelayingJobs && !model.jobs.contains(where: \.mayBeQueued)
    }

    private mutating func ended(_ index: Int, _ ending: Ending) throws(Fault) {
        let job = model.jobs[index]
        try check(job.state != .ended, "it ends twice", index)
        switch ending {
        case .cancelled: try check(job.isCancelled, "it ends as cancelled without a cancellation", index)
        case .gaveUp(let reason, let counts, _):
            let waited = job.waitedBefore + (job.waitSince.map { model.now - $0 } ?? 0)
            let expected = JobCounts(
                started: job.started, charged: job.charged, networkFailures: job.networkFailures,
                waited: hasNoQueue && !job.mayHaveBeenQueued ? .milliseconds(waited) : counts.waited,
                elapsed: .milliseconds(model.now - job.submitted))
            try check(counts == expected, "its report is \(counts), not \(expected)", index)
            try check(isRight(reason, job), "\(reason) is no reason to give up", index)
        }
        model.end(index)
        ends.append(index)
    }

    private func isRight(_ reason: GiveUp.Reason, _ job: CoreModel.Job) -> Bool {
        switch reason {
        case .waitLimit: job.variant.waitLimit.map { (job.scopeWaitSince ?? .max) <= model.now - $0 } ?? false
        case .conditionEnded: model.isHopeless(job)
        case .deadline: job.deadline <= model.now || job.hard > job.deadline
        // These reasons end a job with its attempt: `fail` checks them.
        default: job.state == .parked && job.started > 0
        }
    }

    private mutating func published(_ changed: ChangedJob, _ change: JobChange, _ index: Int) throws(Fault) {
        let job = model.jobs[index]
        try check(
            Int(changed.scope) == job.scope && changed.destination == job.destination && changed.number == numbers[index],
            "\(changed) describes another job", index)
        switch change {
        case .waiting(let condition):
            let first = model.unmet(job).first
            let isKnown = first.map { model.conditions[$0].isKnown } ?? false
            try check(isKnown && first == Int(condition) && job.reportedWait != first, "its event `waiting` is wrong", index)
            model.jobs[index].reportedWait = first
        case .started(let number, _):
            try check(number == job.started + 1, "it starts attempt \(number)", index)
            model.jobs[index].reportedWait = nil
        case .failed: try check(!job.isCancelled, "it has failed though it was cancelled", index)
        case .backingOff: try check(job.state == .parked, "it backs off", index)
        case .warned: break
        case .succeeded, .ended: publishedEnds.append(index)
        }
    }

    // MARK: - States

    /// Handles everything that is due, then checks the invariants between two events.
    mutating func settle() throws(Fault) {
        var rounds = 0
        try connect()
        while core.nextTime() <= now {
            try pass(to: model.now)
            rounds += 1
            try check(rounds < 100, "the next time stays in the past")
        }
        model.measure()
        for index in model.jobs.indices { try settled(index) }
        try check(core.nextTime() > now, "the next time stays in the past")
        try check(core.running == model.jobs.count { $0.state == .running }, "\(core.running) attempts run")
        try check(core.running <= core.maxConcurrent, "\(core.running) attempts run at a time")
        guard isExact else { return }
        let (next, wanted) = (core.nextTime(), model.nextTime)
        let expected = wanted == .max ? BusTime.never : BusTime(.milliseconds(wanted))
        // The limits of queued jobs are checked at intervals, so the core may wake up earlier.
        let isRight = hasNoQueue ? next == expected : next <= expected
        try check(isRight, "the next time is \(next), not \(expected)")
        try check(core.count == model.jobs.count { $0.state != .ended }, "\(core.count) jobs")
    }

    private func settled(_ index: Int) throws(Fault) {
        let job = model.jobs[index]
        try check((core[keys[index]] == nil) == (job.state == .ended), "the core disagrees about its end", index)
        guard job.state != .ended else { return }
        if job.state == .parked {
            try check(
                !isExact || !model.isReady(job) || model.timeOfStart(job) > model.now, "its wake-up was lost", index)
            try check(job.deadline > model.now, "it outlives its deadline", index)
            try check(!model.isHopeless(job), "it waits for a condition that has ended unsatisfied", index)
            try check(!model.isShutDown, "it waits after the shutdown", index)
            // Unmet conditions besides the scope are checked at its turn, unless nothing delays it.
            let unmet = model.unmet(job)
            let isKnown = unmet.first.map { model.conditions[$0].isKnown && (hasNoQueue || $0 == job.scope) } ?? false
            // The event may name any of several unmet conditions.
            let isPublished = job.reportedWait.map(unmet.contains) ?? false
            try check(!isKnown || job.isPaused || isPublished, "no event `waiting` was published", index)
        }
        if job.state == .running, !job.isInterrupted {
            try check(job.deadline > model.now && !job.isCancelled, "it should have been interrupted", index)
            let end = min(job.deadline, job.variant.timeout.map { job.startedAt + $0 } ?? .max)
            let limit = end == .max ? nil : Duration.milliseconds(end - model.now)
            let start = core.currentStart(of: keys[index], at: now)
            try check(start?.number == job.started && start?.limit == limit, "its start is \(String(describing: start))", index)
        }
        try check(job.charged <= job.variant.maxAttempts ?? .max, "it was charged too often", index)
        let isOpen = job.state == .running || job.isCancelled ? 1 : 0
        try check(job.started <= job.charged + job.networkFailures + job.localFailures + isOpen, "it started too often", index)
    }

    /// Ends all jobs and checks that nothing is left.
    mutating func endAll() throws(Fault) {
        for index in model.jobs.indices {
            try play(.cancel(job: index))
            if model.jobs[index].state == .running { try fail(index, .unclassified, false) }
            try settle()
        }
        try check(core.count == 0 && core.timerCount == 0 && core.nextTime() == .never, "jobs or timers are left")
        try check(core.running == 0 && core.gateTimers.count == 0, "attempts or the gates' timers are left")
        let all = Array(model.jobs.indices)
        try check(ends.sorted() == all && publishedEnds.sorted() == all, "\(ends) ended, \(publishedEnds) were published")
        for index in model.conditions.indices {
            let record = core.conditions[index]
            let isEmpty =
                record.map { $0.waiting.isEmpty && $0.attentive.isEmpty && $0.interruptible.isEmpty && $0.uses == 0 } ?? false
            try check(isEmpty && core.removeCondition(ConditionIndex(index)), "condition \(index) is still used")
        }
        try check(core.gates.count == 0, "gates are left")
    }
}
