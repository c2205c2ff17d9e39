/// What failures lead to.
extension RetryBusCore {
    /// The running attempt failed.
    ///
    /// - Parameters:
    ///   - interruption: why the attempt was cancelled before it ended, as its task saw it; what came later did not touch it.
    ///   - isGone: whether the kernel, asked just now, says that the scope is gone: the event may still be on its way.
    ///   - id: the job's name, for others that a server's order holds as well.
    /// - Returns: whether a delay has to be computed, with which ``park(_:for:at:)`` is to be called. That is the caller's function
    ///   and must not run where the bus is locked; meanwhile the job may be cancelled, end, and an edge may come.
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

    /// Whether a failure would be charged as things look, and might not be if the scope turned out to be gone.
    package func wouldCharge(_ key: JobKey, _ report: FailureReport) -> Bool {
        guard let job = self[key], job.phase == .running, isUncharged(job), job.interruption != .loss else { return false }
        if case .classified(let fault) = report.evidence, fault != .unknown { return false }
        let now = BusTime.never
        switch fault(report, job, isGone: false, at: now) {
        case .network, .local: return false
        case .server, .overload, .request, .unknown: return true
        }
    }

    /// The delay of a job that failed is known.
    ///
    /// Reads anew what changed since the attempt started: an edge that came meanwhile ends the delay before it began.
    package mutating func park(_ key: JobKey, for delay: Duration, at now: BusTime) -> [Effect] {
        guard let job = self[key], job.phase == .failed else { return [] }
        let least: Duration =
            switch job.lastFault {
            case .local: ReleaseRules.leastDelayAfterShortage
            case .network where !job.lastWasCharged: ReleaseRules.leastDelay
            default: .zero
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
        if job.isCancelled {
            end(index, .cancelled, at: now)
            return .settled
        }
        let fault = fault(report, job, isGone: isGone, at: now)
        let isInterrupted = job.interruption == .loss
        let isCharged =
            switch fault {
            case .network: !isInterrupted && !isUncharged(job)
            case .local: false
            case .server, .overload, .request, .unknown: true
            }
        count(index, fault, report, isCharged: isCharged)
        if fault == .local { noteShortage(at: now) }
        noteFailureAtGate(key(index), job, fault, report, isCharged: isCharged, at: now)
        if case .overload(let delay?) = fault, delay > .zero, gates.destination(job.gate) != nil {
            gates[job.gate].throttle(until: now + delay, by: id, release.rules)
        }
        publish(index, .failed(AttemptFailure(fault, mayRetry: report.mayRetry), isCharged: isCharged))
        noteFailure(job, fault, report)
        if let reason = reasonToStop(index, report, fault, at: now) {
            giveUp(index, reason, isCut: reason == .deadline && job.interruption == .deadline, at: now)
            return .settled
        }
        guard let job = jobs[Int(index)] else { return .settled }
        // Behind those who have not had their turn: the next canary is another job.
        if release.rules.hasCanaries { jobs[Int(index)]?.position = .none }
        if isCharged || fault == .local {
            return .backOff(index: Int(job.history.failureIndex), previous: job.history.previousDelay)
        }
        if unmet(job) != nil || epoch(of: job) != job.history.armedEpoch {
            restIfLost(index, at: now)
            // It waits for the network, or goes at once because the network came back during the attempt.
            advance(index, at: now)
            return .settled
        }
        if release.rules.hasCanaries, QueueClass(job).isGated {
            let end = gates[job.gate].noteNetworkFailure(
                of: job.history.round, epoch: job.history.armedScopeEpoch, release.rules, &random, at: now)
            // The gate's delay may be shorter, and then another job tries: each by itself fails twice a second at most.
            jobs[Int(index)]?.history.soft = max(end, now + ReleaseRules.leastDelay)
            // Somebody said to retry now while the attempt ran: that holds for what the gate makes of its failure, too.
            if retryNows(of: job) != job.history.armedRetryNows { gates[job.gate].noteRetryNow() }
            advance(index, at: now)
            return .settled
        }
        let number = job.history.connectivityIndex.saturatingIncrement()
        jobs[Int(index)]?.history.connectivityIndex = number
        return .backOff(index: Int(number), previous: job.history.previousDelay)
    }

    /// Has the gate draw its conclusions from a failure of which the network is not to blame.
    ///
    /// An answer proves the way, whatever it says; a failure without one proves nothing, also if it ends its job.
    private mutating func noteFailureAtGate(
        _ key: JobKey, _ job: JobState, _ fault: AttemptFailure.Fault, _ report: FailureReport, isCharged: Bool, at now: BusTime
    ) {
        let isAnswer = report.evidence.isAnswer || report.evidence == .refused && fault == .server
        if isAnswer { noteAnswer(to: job) }
        let rules = release.rules
        guard rules.hasCanaries, QueueClass(job).isGated else { return }
        let (gate, round) = (job.gate, job.history.round)
        // Of jobs that name no destination it is not known whether they share a server.
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

    /// This machine ran out of something: only as many attempts may run as did without it.
    private mutating func noteShortage(at now: BusTime) {
        if shortage == nil { effects.append(.warnOfShortage) }
        shortage = Shortage(firstLimit: max(1, running), since: now)
    }

    /// Why there is no further attempt; `nil` if there may be one.
    private mutating func reasonToStop(
        _ index: JobIndex, _ report: FailureReport, _ fault: AttemptFailure.Fault, at now: BusTime
    ) -> GiveUp.Reason? {
        guard let job = jobs[Int(index)] else { return nil }
        // First: what a predicate says of the error of an attempt that time cut says nothing of the work.
        if job.interruption == .deadline { return .deadline }
        if !report.mayRetry { return .permanent }
        if isShutDown { return .shutDown }
        if job.deadline <= now { return .deadline }
        if let most = job.rules.maxAttempts, Int(job.history.charged) >= most { return .attempts }
        if case .overload(let delay?) = fault {
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
        if report.evidence == .nameless { job.history.answersAtNameless = conditions[Int(job.scope)]?.answers }
        job.lastFault = JobState.LastFault(fault)
        job.lastWasCharged = isCharged
        job.history.sawEdge = epoch(of: job) != job.history.armedEpoch
        jobs[Int(index)] = job
    }

    /// The server answered an attempt of a job: the way is there, and names are found.
    mutating func noteAnswer(to job: JobState) {
        gates[job.gate].noteAnswer(in: job.history.armedScopeEpoch)
        conditions[Int(job.scope)]?.answers &+= 1
    }

    /// The party that a failure is due to, in the light of what happened to the path.
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
        // A family that this path has not, for example: the kernel has no way, and no edge will bring one.
        case .unreachable: return record.isLive && job.history.unreachableEpoch == record.epoch ? .unknown : .network
        case .unanswered, .timedOut:
            let isSettling =
                record.isLive && gates[job.gate].blamesTheNetwork(epoch: record.epoch, edgeAt: record.edgeAt, now: now)
            return isSettling ? .network : .server
        // Others get through since it failed like this before: the trouble is its own server's.
        case .nameless: return job.history.answersAtNameless.map { $0 != record.answers } ?? false ? .server : .network
        case .refused: return .server
        case .addressless, .shortage: return .local
        case .unclassified: return .unknown
        }
    }

    /// Whether failures of the network cost the job nothing.
    private func isUncharged(_ job: JobState) -> Bool {
        job.waitsForScope && conditions[Int(job.scope)]?.isLive == true
    }
}

/// What a job's budget is told and asked.
///
/// A budget may belong to several buses, so it is the one thing here that others change, too: behind a lock of its own, under which
/// nothing is called.
extension RetryBusCore {
    /// Counts a failure, unless it says nothing of a server.
    ///
    /// Nobody was reached, or the fault lies with the job; and whom the job's own deadline cut short had no time to answer.
    func noteFailure(_ job: JobState, _ fault: AttemptFailure.Fault, _ report: FailureReport) {
        guard let budget = job.rules.budget, job.interruption != .deadline, report.mayRetry else { return }
        switch fault {
        case .network, .local, .request: break
        case .server, .overload, .unknown: budget.noteFailure(isFirst: job.history.refund < 0)
        }
    }

    /// Whether there may be another attempt, which is then paid for.
    ///
    /// To be asked last: a job that ends anyway pays for none.
    mutating func paysForRetry(_ index: JobIndex, _ report: FailureReport, _ fault: AttemptFailure.Fault) -> Bool {
        // Also if it counts as an attempt: a server that was not reached has nothing to be spared.
        guard fault != .network, fault != .local, let job = jobs[Int(index)], let budget = job.rules.budget else { return true }
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
