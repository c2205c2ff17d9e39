/// The consequences of failures.
extension RetryBusCore {
    /// Decides about a job whose running attempt failed.
    ///
    /// - Parameters:
    ///   - interruption: The reason why the bus cut the attempt, as its task saw it.
    ///   - isGone: True if a lookup just found no path: the event may still be on its way.
    ///   - id: The job's name, for other jobs that wait for its server's delay.
    /// - Returns: ``FailureOutcome/backOff(index:previous:)`` if the caller has to compute a delay outside of the lock and call
    ///   ``park(_:for:at:)``. The job may be cancelled or end meanwhile, and an edge may come.
    package mutating func fail(
        _ key: JobKey, _ report: FailureReport, interruption: JobState.Interruption?, isGone: Bool, id: JobID? = nil,
        at now: BusTime
    ) -> (FailureOutcome, [Effect]) {
        guard self[key]?.phase == .running else { return (.settled, []) }
        unregister(key.index)
        dropSources(key.index)
        timers.cancel(key.index)
        jobs[Int(key.index)]?.phase = .failed
        jobs[Int(key.index)]?.interruption = interruption
        guard let job = self[key] else { return (.settled, []) }
        noteEndOfAttempt(key.index, job)
        let outcome = outcome(key.index, job, report, isGone: isGone, id, at: now)
        releaseJobs(at: now)
        return (outcome, takeEffects())
    }

    /// Returns true if a failure would be charged now, but not if a lookup found the scope gone.
    package func wouldCharge(_ key: JobKey, _ report: FailureReport) -> Bool {
        guard let job = self[key], job.phase == .running, isUncharged(job), job.interruption != .loss, !job.history.hasProgress
        else { return false }
        if case .classified(let fault) = report.evidence, fault != .unknown { return false }
        let now = BusTime.never
        switch fault(report, job, isGone: false, at: now) {
        case .network, .local: return false
        case .server, .overload, .request, .unknown: return true
        }
    }

    /// Applies the delay of a failed job.
    ///
    /// An edge that came since the attempt started ends the delay at once.
    package mutating func park(_ key: JobKey, for delay: Duration, at now: BusTime) -> [Effect] {
        guard let job = self[key], job.phase == .failed else { return [] }
        let least: Duration =
            switch job.lastFault {
            case .local: ReleaseRules.leastDelayAfterShortage
            case .none, .network, .other: job.lastWasCharged ? .zero : ReleaseRules.leastDelay
            }
        jobs[Int(key.index)]?.history.soft = now + max(least, delay)
        jobs[Int(key.index)]?.history.previousDelay = delay
        advance(key.index, at: now)
        releaseJobs(at: now)
        return takeEffects()
    }

    private mutating func outcome(
        _ index: JobIndex, _ job: JobState, _ report: FailureReport, isGone: Bool, _ id: JobID?, at now: BusTime
    ) -> FailureOutcome {
        if job.history.isCancelled {
            end(index, .cancelled, at: now)
            return .settled
        }
        let fault = fault(report, job, isGone: isGone, at: now)
        let isInterrupted = job.interruption == .loss
        let hasProgress = job.history.hasProgress && !report.evidence.isAnswer
        let isCharged =
            switch fault {
            case .network: !hasProgress && !isInterrupted && !isUncharged(job)
            case .local: false
            case .server, .overload, .request, .unknown: !hasProgress
            }
        if hasProgress {
            jobs[Int(index)]?.history.failureIndex = 0
            jobs[Int(index)]?.history.previousDelay = nil
        }
        count(index, fault, report, isCharged: isCharged)
        if fault == .local { noteShortage(at: now) }
        noteFailureAtGate(key(index), job, fault, report, isCharged: isCharged, at: now)
        if case .overload(let delay?) = fault, delay > .zero, gates.destination(job.gate) != nil {
            gates[job.gate].throttle(until: now + delay, by: id, release.rules)
        }
        publish(index, .failed(AttemptFailure(fault, mayRetry: report.mayRetry), isCharged: isCharged))
        if !hasProgress { noteFailure(job, fault, report) }
        if let reason = reasonToStop(index, report, fault, at: now) {
            giveUp(index, reason, isCut: reason == .deadline && job.interruption == .deadline, at: now)
            return .settled
        }
        guard let job = jobs[Int(index)] else { return .settled }
        // Behind the jobs that have not started, so that the next canary is another job.
        if release.rules.hasCanaries { jobs[Int(index)]?.position = .none }
        if isCharged || fault == .local {
            return .backOff(index: Int(job.history.failureIndex), previous: job.history.previousDelay)
        }
        if fault != .network { return .backOff(index: 1, previous: nil) }
        if unmet(job) != nil || epoch(of: job) != job.history.armedEpoch {
            restIfLost(index, at: now)
            // The job waits for the network, or starts at once after a reconnect during the attempt.
            advance(index, at: now)
            return .settled
        }
        if release.rules.hasCanaries, QueueClass(job).isGated {
            let end = gates[job.gate].noteNetworkFailure(
                of: job.history.round, epoch: job.history.armedScopeEpoch, release.rules, &random, at: now)
            // The gate's delay may be shorter and lets another job try; each job fails at most twice per second.
            jobs[Int(index)]?.history.soft = max(end, now + ReleaseRules.leastDelay)
            // A call to retry now during the attempt also ends the gate's new delay.
            if retryNows(of: job) != job.history.armedRetryNows { gates[job.gate].noteRetryNow() }
            advance(index, at: now)
            return .settled
        }
        let number = job.history.connectivityIndex.saturatingIncrement()
        jobs[Int(index)]?.history.connectivityIndex = number
        return .backOff(index: Int(number), previous: job.history.previousDelay)
    }

    /// Records a failure at the job's gate, unless it is the network's.
    ///
    /// An answer proves the path whatever it says. A failure without an answer proves nothing, even if it ends its job.
    private mutating func noteFailureAtGate(
        _ key: JobKey, _ job: JobState, _ fault: AttemptFailure.Fault, _ report: FailureReport, isCharged: Bool, at now: BusTime
    ) {
        let isAnswer = report.evidence.isAnswer || report.evidence == .refused && fault == .server
        if isAnswer { noteAnswer(to: job) }
        let rules = release.rules
        guard rules.hasCanaries, QueueClass(job).isGated else { return }
        let (gate, round) = (job.gate, job.history.round)
        // Jobs without a destination may use different servers.
        let isShared = gates.destination(gate) != nil
        switch fault {
        case .network where !isCharged, .local: break
        case .request: gates[gate].notePassage(of: round, rules)
        case .server:
            if isAnswer { gates[gate].noteAnswer(of: round, rules) }
            if isShared, gates[gate].countsAsOverload(key) || gates[gate].isOverloaded {
                gates[gate].noteOverload(of: round, isShared: true, rules, &random, at: now)
            } else if !isAnswer {
                gates[gate].noteSilence(of: round, rules, &random, at: now)
            }
        case .overload:
            guard isShared else { return gates[gate].noteAnswer(of: round, rules) }
            let isOthers = gates[gate].countsAsOverload(key)
            gates[gate].noteOverload(of: round, isShared: isOthers, rules, &random, at: now)
        case .network, .unknown: gates[gate].noteSilence(of: round, rules, &random, at: now)
        }
    }

    /// Limits the attempts after a shortage to those that run.
    private mutating func noteShortage(at now: BusTime) {
        if shortage == nil { effects.append(.warnOfShortage) }
        shortage = Shortage(firstLimit: max(1, running), since: now)
    }

    /// Returns the reason against a further attempt; `nil` if there may be one.
    private mutating func reasonToStop(
        _ index: JobIndex, _ report: FailureReport, _ fault: AttemptFailure.Fault, at now: BusTime
    ) -> GiveUp.Reason? {
        guard let job = jobs[Int(index)] else { return nil }
        // First, because predicates do not apply to the error of an attempt that the deadline cut.
        if job.interruption == .deadline { return .deadline }
        if !report.mayRetry { return .permanent }
        if isShutDown { return .shutDown }
        if job.deadline <= now { return .deadline }
        if let most = job.rules.maxAttempts, Int(job.history.charged) >= most { return .attempts }
        let ordered = if case .overload(let delay) = fault { delay } else { fault == .server ? report.retryAfter : nil }
        if let delay = ordered {
            let hard = max(job.history.hard, now + max(.zero, delay))
            jobs[Int(index)]?.history.hard = hard
            if hard > job.deadline { return .deadline }
        }
        return paysForRetry(index, report, fault) ? nil : .budget
    }

    private mutating func count(_ index: JobIndex, _ fault: AttemptFailure.Fault, _ report: FailureReport, isCharged: Bool) {
        guard var job = jobs[Int(index)] else { return }
        if isCharged { job.history.charged = job.history.charged.saturatingIncrement() }
        if isCharged || fault == .local { job.history.failureIndex = job.history.failureIndex.saturatingIncrement() }
        if fault == .network, !isCharged {
            job.history.networkFailures = job.history.networkFailures.saturatingIncrement()
        }
        if fault == .network, report.evidence == .unreachable { job.history.unreachableEpoch = job.history.armedScopeEpoch }
        if report.evidence == .noNameServer { job.history.answersAtNameFailure = conditions[Int(job.scope)]?.answers }
        job.history.lastFault = JobState.LastFault(fault)
        job.lastWasCharged = isCharged
        if job.handsBack { job.history.lastFailure = fault }
        job.history.sawEdge = epoch(of: job) != job.history.armedEpoch
        jobs[Int(index)] = job
    }

    /// Records an answer to a job: its path works, and names are found.
    mutating func noteAnswer(to job: JobState) {
        gates[job.gate].noteAnswer(in: job.history.armedScopeEpoch)
        conditions[Int(job.scope)]?.noteAnswer(in: job.history.armedScopeEpoch)
    }

    /// Returns the fault of a failure, which depends on what happened to the path.
    private func fault(_ report: FailureReport, _ job: JobState, isGone: Bool, at now: BusTime) -> AttemptFailure.Fault {
        switch report.evidence {
        case .classified(let fault) where report.evidence.isAnswer: return fault
        case _ where job.interruption == .loss: return .network
        case .classified(let fault) where fault != .unknown: return fault
        case .shortage: return .local
        default: break
        }
        guard let record = conditions[Int(job.scope)] else { return .unknown }
        let overlaps =
            job.heedsScope && record.isLive && (isGone || record.epoch != job.history.armedScopeEpoch || !record.isSatisfied)
        if overlaps { return .network }
        switch report.evidence {
        case .classified(let fault): return fault
        // For example a family that this path lacks: no edge will bring it.
        case .unreachable: return record.isLive && job.history.unreachableEpoch == record.epoch ? .unknown : .network
        case .unanswered, .timedOut:
            let isSettling =
                record.isLive && gates[job.gate].blamesTheNetwork(epoch: record.epoch, edgeAt: record.edgeAt, now: now)
            return isSettling ? .network : .server
        // Other jobs got answers since the last such failure, so its own server is at fault.
        case .noNameServer: return job.history.answersAtNameFailure.map { $0 != record.answers } ?? false ? .server : .network
        case .refused: return .server
        case .noSourceAddress, .shortage: return .local
        case .unclassified: return .unknown
        }
    }

    /// Returns true if network failures of the job are not charged.
    private func isUncharged(_ job: JobState) -> Bool {
        job.waitsForScope && conditions[Int(job.scope)]?.isLive == true
    }
}

/// The use of a job's retry budget.
///
/// Several buses may share a budget, so it is the one mutable object that the core uses. It has a lock of its own, under which it
/// calls nothing.
extension RetryBusCore {
    /// Counts a failure that depends on the server.
    ///
    /// Network failures, failures of the job and attempts that the deadline cut do not count.
    func noteFailure(_ job: JobState, _ fault: AttemptFailure.Fault, _ report: FailureReport) {
        guard let budget = job.rules.budget, job.interruption != .deadline, report.mayRetry else { return }
        switch fault {
        case .network, .local, .request: break
        case .server, .overload, .unknown: budget.noteFailure(isFirst: job.history.refund < 0)
        }
    }

    /// Pays for another attempt; returns `false` if the budget denies it.
    ///
    /// Must be called last, because a job that ends anyway pays for no retry.
    mutating func paysForRetry(_ index: JobIndex, _ report: FailureReport, _ fault: AttemptFailure.Fault) -> Bool {
        // Charged or not, an attempt that reached no server costs nothing; neither does progress.
        guard fault != .network, fault != .local, let job = jobs[Int(index)], let budget = job.rules.budget,
            job.lastWasCharged
        else { return true }
        let isTimeout = job.interruption == .timeout || report.evidence == .timedOut
        guard let refund = budget.takeRetry(afterTimeout: isTimeout) else { return false }
        jobs[Int(index)]?.history.refund = refund
        return true
    }

    /// Counts a success, and gives back what its attempt cost.
    func noteSuccess(_ job: JobState) {
        job.rules.budget?.noteSuccess(refund: job.history.refund < 0 ? nil : job.history.refund)
    }
}
