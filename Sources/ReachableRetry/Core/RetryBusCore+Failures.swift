/// The delays of one failure, by what it counts as.
///
/// A backoff may be a caller's function, so they are computed before the bus decides which one applies.
package struct FailureDelays: Hashable, Sendable {
    /// After a failure that is charged, or of this machine.
    package var counted: Duration
    /// After a failure of the network that no gate delays.
    package var network: Duration
    /// After progress.
    package var first: Duration

    /// Creates delays that are all the same.
    package init(_ delay: Duration) { (counted, network, first) = (delay, delay, delay) }

    /// Creates the delays of a job's backoff after the failures that it had before.
    ///
    /// - Parameter random: A random number in [0, 1).
    package init(_ context: FailureContext, random: Double) {
        let (backoff, history) = (context.job.rules.backoff, context.job.history)
        let (counted, network) = (Int(history.failureIndex) + 1, Int(history.connectivityIndex) + 1)
        let delay = backoff.delay(afterFailure: counted, previous: history.previousDelay, random: random)
        (self.counted, self.network, first) = (delay, delay, delay)
        // Without need a caller's function is not called.
        if network != counted, !context.isGated {
            self.network = backoff.delay(afterFailure: network, previous: history.previousDelay, random: random)
        }
        if history.hasProgress(context.attempt) { first = backoff.delay(afterFailure: 1, previous: nil, random: random) }
    }
}

/// The job and its path at the end of an attempt, by which the bus judges a failure.
package struct FailureContext: Sendable {
    let job: JobState
    let attempt: RunningState
    /// True if its gate delays it after a failure of the network.
    let isGated: Bool
    /// True if a monitor watches the path.
    fileprivate let isLive: Bool
    fileprivate let isSatisfied: Bool
    fileprivate let epoch: UInt64
    fileprivate let edgeAt: BusTime
    /// The number of answers to the jobs of the scope, and the epoch of the last one at the job's gate.
    fileprivate let answers: UInt64
    fileprivate let answerEpoch: UInt64?

    fileprivate init(
        _ job: JobState, _ attempt: RunningState, isGated: Bool, _ record: ConditionRecord, _ gate: GateState
    ) {
        (self.job, self.attempt, self.isGated) = (job, attempt, isGated)
        (isLive, isSatisfied, epoch) = (record.isLive, record.isSatisfied, record.epoch)
        (edgeAt, answers, answerEpoch) = (record.edgeAt, record.answers, gate.answerEpoch)
    }

    /// Returns true if the failure would be charged, but not if a lookup found the scope gone.
    package func wouldCharge(_ report: FailureReport) -> Bool {
        guard isUncharged, attempt.interruption != .loss, !job.history.hasProgress(attempt) else { return false }
        if case .classified(let fault) = report.evidence, fault != .unknown { return false }
        switch fault(report, at: .never) {
        case .network, .local: return false
        case .server, .overload, .request, .unknown: return true
        }
    }

    /// True if network failures of the job are not charged.
    fileprivate var isUncharged: Bool { job.waitsForScope && isLive }

    /// Returns the fault of a failure, which depends on what happened to the path.
    fileprivate func fault(_ report: FailureReport, at now: BusTime) -> AttemptFailure.Fault {
        switch report.evidence {
        case .classified(let fault) where report.evidence.isAnswer: return fault
        case _ where attempt.interruption == .loss: return .network
        case .classified(let fault) where fault != .unknown: return fault
        case .shortage: return .local
        case _ where job.heedsScope && isLive && (epoch != attempt.scopeEpoch || !isSatisfied): return .network
        case .classified(let fault): return fault
        // For example a family that this path lacks: no edge will bring it.
        case .unreachable: return isLive && job.history.unreachableEpoch == epoch ? .unknown : .network
        case .unanswered, .timedOut:
            let isSettling = answerEpoch != epoch && edgeAt != .past && now <= edgeAt + GateState.settlingTime
            return isLive && isSettling ? .network : .server
        // Other jobs got answers since the last such failure, so its own server is at fault.
        case .noNameServer: return job.history.answersAtNameFailure.map { $0 != answers } ?? false ? .server : .network
        case .refused: return .server
        case .noSourceAddress: return .local
        case .unclassified: return .unknown
        }
    }
}

/// The consequences of failures.
extension RetryBusCore {
    /// Decides about a job whose running attempt failed.
    ///
    /// An edge that came since the attempt started ends the delay at once.
    ///
    /// - Parameters:
    ///   - interruption: The reason why the bus cut the attempt, as its task saw it.
    ///   - isGone: True if a lookup just found no path: see ``lose(_:at:)``.
    ///   - delays: The delays to choose from.
    ///   - id: The job's name, for other jobs that wait for its server's delay.
    package mutating func fail(
        _ key: JobKey, _ report: FailureReport, interruption: JobState.Interruption?, isGone: Bool, delays: FailureDelays,
        id: JobID? = nil, at now: BusTime
    ) -> [Effect] {
        guard let job = self[key], var attempt = job.attempt else { return [] }
        attempt.interruption = interruption
        unregister(key.index)
        timers.cancel(key.index)
        noteEndOfAttempt(key.index, job, attempt)
        // The event may still be on its way.
        if isGone { noteLoss(of: job.scope, at: now) }
        if judge(key.index, job, attempt, report, delays, id, at: now), let job = jobs[Int(key.index)] {
            if !job.history.handsBack {
                advance(key.index, hasFailed: true, at: now)
            } else if !endIfOver(key.index, job, at: now) {
                handBack(key.index, job, isCut: interruption?.isCut == true, at: now)
            }
        }
        releaseJobs(at: now)
        return takeEffects()
    }

    /// Returns the context of a running attempt, as if it failed now.
    package func failureContext(of key: JobKey) -> FailureContext? {
        guard let job = self[key], let attempt = job.attempt else { return nil }
        return failureContext(of: job, attempt)
    }

    private func failureContext(of job: JobState, _ attempt: RunningState) -> FailureContext? {
        let isGated = release.rules.hasCanaries && QueueClass(job).isGated
        return conditions[Int(job.scope)].map { FailureContext(job, attempt, isGated: isGated, $0, gates[job.gate]) }
    }

    /// Delays a failed job.
    private mutating func delay(_ index: JobIndex, _ delay: Duration, atLeast least: Duration, at now: BusTime) {
        jobs[Int(index)]?.history.soft = now + max(least, delay)
        jobs[Int(index)]?.history.previousDelay = delay
    }

    /// Charges and delays a failed job, or ends it; returns `true` if it goes on.
    private mutating func judge(
        _ index: JobIndex, _ job: JobState, _ attempt: RunningState, _ report: FailureReport, _ delays: FailureDelays,
        _ id: JobID?, at now: BusTime
    ) -> Bool {
        if attempt.isCancelled {
            end(index, .cancelled, at: now)
            return false
        }
        guard let context = failureContext(of: job, attempt) else { return false }
        let fault = context.fault(report, at: now)
        let isInterrupted = attempt.interruption == .loss
        let hasProgress = job.history.hasProgress(attempt) && !report.evidence.isAnswer
        let isCharged =
            switch fault {
            case .network: !hasProgress && !isInterrupted && !context.isUncharged
            case .local: false
            case .server, .overload, .request, .unknown: !hasProgress
            }
        if hasProgress {
            jobs[Int(index)]?.history.failureIndex = 0
            jobs[Int(index)]?.history.previousDelay = nil
        }
        count(index, attempt, fault, report, isCharged: isCharged)
        if fault == .local { noteShortage(at: now) }
        noteFailureAtGate(key(index), context, fault, report, isCharged: isCharged, at: now)
        if case .overload(let delay?) = fault, delay > .zero, gates.destination(job.gate) != nil {
            gates[job.gate].throttle(until: now + delay, by: id, release.rules)
        }
        publish(index, .failed(AttemptFailure(fault, mayRetry: report.mayRetry), isCharged: isCharged))
        if !hasProgress { noteFailure(job, attempt, fault, report) }
        if let reason = reasonToStop(index, attempt, report, fault, at: now) {
            giveUp(index, reason, isCut: reason == .deadline && attempt.interruption == .deadline, at: now)
            return false
        }
        guard let job = jobs[Int(index)] else { return false }
        // Behind the jobs that have not started, so that the next canary is another job.
        if release.rules.hasCanaries { jobs[Int(index)]?.position = .none }
        if isCharged || fault == .local {
            let least = fault == .local ? ReleaseRules.leastDelayAfterShortage : .zero
            delay(index, hasProgress ? delays.first : delays.counted, atLeast: least, at: now)
        } else if fault != .network {
            delay(index, delays.first, atLeast: ReleaseRules.leastDelay, at: now)
        } else if unmet(job) != nil || epoch(of: job) != job.history.armedEpoch {
            // The job waits for the network, or starts at once after a reconnect during the attempt.
            restIfLost(index, at: now)
        } else if context.isGated {
            let end = gates[job.gate].noteNetworkFailure(
                of: attempt.round, epoch: attempt.scopeEpoch, release.rules, &random, at: now)
            // The gate's delay may be shorter and lets another job try; each job fails at most twice per second.
            jobs[Int(index)]?.history.soft = max(end, now + ReleaseRules.leastDelay)
            // A call to retry now during the attempt also ends the gate's new delay.
            if retryNows(of: job) != job.history.armedRetryNows { gates[job.gate].noteRetryNow() }
        } else {
            jobs[Int(index)]?.history.connectivityIndex = job.history.connectivityIndex.saturatingIncrement()
            delay(index, delays.network, atLeast: ReleaseRules.leastDelay, at: now)
        }
        return true
    }

    /// Records a failure at the job's gate, unless it is the network's.
    ///
    /// An answer proves the path whatever it says. A failure without an answer proves nothing, even if it ends its job.
    private mutating func noteFailureAtGate(
        _ key: JobKey, _ context: FailureContext, _ fault: AttemptFailure.Fault, _ report: FailureReport, isCharged: Bool,
        at now: BusTime
    ) {
        let isAnswer = report.evidence.isAnswer || report.evidence == .refused && fault == .server
        if isAnswer { noteAnswer(to: context.job, in: context.attempt.scopeEpoch) }
        guard context.isGated else { return }
        let (gate, round, rules) = (context.job.gate, context.attempt.round, release.rules)
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
        _ index: JobIndex, _ attempt: RunningState, _ report: FailureReport, _ fault: AttemptFailure.Fault, at now: BusTime
    ) -> GiveUp.Reason? {
        guard let job = jobs[Int(index)] else { return nil }
        // First, because predicates do not apply to the error of an attempt that the deadline cut.
        if attempt.interruption == .deadline { return .deadline }
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
        return paysForRetry(index, attempt, report, fault) ? nil : .budget
    }

    private mutating func count(
        _ index: JobIndex, _ attempt: RunningState, _ fault: AttemptFailure.Fault, _ report: FailureReport, isCharged: Bool
    ) {
        guard var job = jobs[Int(index)] else { return }
        if isCharged { job.history.charged = job.history.charged.saturatingIncrement() }
        if isCharged || fault == .local { job.history.failureIndex = job.history.failureIndex.saturatingIncrement() }
        if fault == .network, !isCharged {
            job.history.networkFailures = job.history.networkFailures.saturatingIncrement()
        }
        if fault == .network, report.evidence == .unreachable { job.history.unreachableEpoch = attempt.scopeEpoch }
        if report.evidence == .noNameServer { job.history.answersAtNameFailure = conditions[Int(job.scope)]?.answers }
        job.history.lastFault = JobState.LastFault(fault)
        job.history.lastWasCharged = isCharged
        if job.history.handsBack { job.history.lastFailure = fault }
        job.history.sawEdge = epoch(of: job) != job.history.armedEpoch
        jobs[Int(index)] = job
    }

    /// Records an answer to a job: its path works, and names are found.
    ///
    /// - Parameter epoch: The epoch of its scope at the start of the attempt.
    mutating func noteAnswer(to job: JobState, in epoch: UInt64) {
        gates[job.gate].noteAnswer(in: epoch)
        conditions[Int(job.scope)]?.noteAnswer(in: epoch)
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
    func noteFailure(_ job: JobState, _ attempt: RunningState, _ fault: AttemptFailure.Fault, _ report: FailureReport) {
        guard let budget = job.rules.budget, attempt.interruption != .deadline, report.mayRetry else { return }
        switch fault {
        case .network, .local, .request: break
        case .server, .overload, .unknown: budget.noteFailure(isFirst: job.history.refund < 0)
        }
    }

    /// Pays for another attempt; returns `false` if the budget denies it.
    ///
    /// Must be called last, because a job that ends anyway pays for no retry.
    mutating func paysForRetry(
        _ index: JobIndex, _ attempt: RunningState, _ report: FailureReport, _ fault: AttemptFailure.Fault
    ) -> Bool {
        // Charged or not, an attempt that reached no server costs nothing; neither does progress.
        guard fault != .network, fault != .local, let job = jobs[Int(index)], let budget = job.rules.budget,
            job.history.lastWasCharged
        else { return true }
        let isTimeout = attempt.interruption == .timeout || report.evidence == .timedOut
        guard let refund = budget.takeRetry(afterTimeout: isTimeout) else { return false }
        jobs[Int(index)]?.history.refund = refund
        return true
    }

    /// Counts a success, and gives back what its attempt cost.
    func noteSuccess(_ job: JobState) {
        job.rules.budget?.noteSuccess(refund: job.history.refund < 0 ? nil : job.history.refund)
    }
}
