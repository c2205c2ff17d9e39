/// What failures lead to.
extension RetryBusCore {
    /// The running attempt failed.
    ///
    /// - Parameters:
    ///   - interruption: why the attempt was cancelled before it ended, as its task saw it; what came later did not touch it.
    ///   - isGone: whether the kernel, asked just now, says that the scope is gone: the event may still be on its way.
    /// - Returns: whether a delay has to be computed, with which ``park(_:for:at:)`` is to be called. That is the caller's function
    ///   and must not run where the bus is locked; meanwhile the job may be cancelled, end, and an edge may come.
    package mutating func fail(
        _ key: JobKey, _ report: FailureReport, interruption: JobState.Interruption?, isGone: Bool, at now: BusTime
    ) -> (Judgement, [Effect]) {
        guard self[key]?.phase == .running else { return (.settled, []) }
        unregister(key.index)
        timers.cancel(key.index)
        jobs[Int(key.index)]?.phase = .judged
        jobs[Int(key.index)]?.interruption = interruption
        guard let job = self[key] else { return (.settled, []) }
        // What has run for long until now has got through, whatever this failure says.
        retireLongRuns(of: job.gate, at: now)
        noteEndOfAttempt(job)
        let judgement = judge(key.index, job, report, isGone: isGone, at: now)
        letGo(at: now)
        return (judgement, takeEffects())
    }

    /// Whether a failure would be charged as things look, and might not be if the scope turned out to be gone.
    package func wouldCharge(_ key: JobKey, _ report: FailureReport) -> Bool {
        guard let job = self[key], job.phase == .running, isUncharged(job), job.interruption != .unsatisfied else { return false }
        switch report {
        case .classified(.permanent), .classified(.server), .classified(.connectivity), .unreachable: return false
        default: break
        }
        let now = BusTime.never
        return classify(report, job, isGone: false, at: now) != .connectivity
    }

    /// The delay of a job that failed is known.
    ///
    /// Reads anew what changed since the attempt started: an edge that came meanwhile ends the delay before it began.
    package mutating func park(_ key: JobKey, for delay: Duration, at now: BusTime) -> [Effect] {
        guard let job = self[key], job.phase == .judged else { return [] }
        jobs[Int(key.index)]?.history.soft = now + max(job.lastWasCharged ? .zero : GateState.leastDelay, delay)
        jobs[Int(key.index)]?.history.previousDelay = delay
        advance(key.index, at: now)
        letGo(at: now)
        return takeEffects()
    }

    private mutating func judge(
        _ index: JobIndex, _ job: JobState, _ report: FailureReport, isGone: Bool, at now: BusTime
    ) -> Judgement {
        if job.isCancelled {
            end(index, .cancelled, at: now)
            return .settled
        }
        let failure = classify(report, job, isGone: isGone, at: now)
        let isInterrupted = job.interruption == .unsatisfied
        let isCharged = !isInterrupted && (failure != .connectivity || !isUncharged(job))
        count(index, failure, isCharged: isCharged)
        tellGate(job, failure, isCharged: isCharged, at: now)
        tell(index, .failed(failure, isCharged: isCharged))
        noteFailure(job, failure)
        if let reason = reasonToStop(index, report, failure, at: now) {
            giveUp(index, reason, isCut: reason == .deadline && job.interruption == .deadline, at: now)
            return .settled
        }
        guard let job = jobs[Int(index)] else { return .settled }
        // Behind those who have not had their turn: the next canary is another job.
        if release.rules.hasCanaries { jobs[Int(index)]?.turn = .none }
        if isCharged { return .backOff(index: Int(job.history.failureIndex), previous: job.history.previousDelay) }
        if unmet(job) != nil || epoch(of: job) != job.history.armedEpoch {
            restIfLost(index, at: now)
            // It waits for the network, or goes at once because the network came back during the attempt.
            advance(index, at: now)
            return .settled
        }
        if release.rules.hasCanaries, Lane(job).isGated {
            jobs[Int(index)]?.history.soft = gates[job.gate].noteNetworkFailure(
                of: job.history.round, epoch: job.history.armedScopeEpoch, release.rules, &chance, at: now)
            // Somebody said to retry now while the attempt ran: that holds for what the gate makes of its failure, too.
            if nudges(of: job) != job.history.armedNudges { gates[job.gate].noteNudge() }
            advance(index, at: now)
            return .settled
        }
        let number = job.history.connectivityIndex.saturatingIncrement()
        jobs[Int(index)]?.history.connectivityIndex = number
        return .backOff(index: Int(number), previous: job.history.previousDelay)
    }

    /// Has the gate draw its conclusions from a failure of which the network is not to blame.
    private mutating func tellGate(_ job: JobState, _ failure: FailureClass, isCharged: Bool, at now: BusTime) {
        let rules = release.rules
        guard rules.hasCanaries, Lane(job).isGated else { return }
        switch failure {
        case .connectivity where !isCharged: break
        // Somebody has said no for good: the way is there.
        case .permanent: gates[job.gate].notePassage(of: job.history.round, rules)
        case .server(let delay?) where delay > .zero && gates.destination(job.gate) != nil:
            gates[job.gate].noteOtherFailure(of: job.history.round, isOverload: true, rules, &chance, at: now)
            gates[job.gate].throttle(until: now + delay)
        case .server:
            let isShared = gates.destination(job.gate) != nil
            gates[job.gate].noteOtherFailure(of: job.history.round, isOverload: isShared, rules, &chance, at: now)
        case .connectivity, .transient:
            gates[job.gate].noteOtherFailure(of: job.history.round, isOverload: false, rules, &chance, at: now)
        }
    }

    /// Why there is no further attempt; `nil` if there may be one.
    private mutating func reasonToStop(
        _ index: JobIndex, _ report: FailureReport, _ failure: FailureClass, at now: BusTime
    ) -> GiveUp.Reason? {
        guard let job = jobs[Int(index)] else { return nil }
        // First: what a predicate says of the error of an attempt that time cut says nothing of the work.
        if job.interruption == .deadline { return .deadline }
        if failure == .permanent { return .permanent }
        if isShutDown { return .shutDown }
        if job.deadline <= now { return .deadline }
        if let most = job.rules.maxAttempts, Int(job.history.charged) >= most { return .attempts }
        if case .server(let delay?) = failure {
            let hard = max(job.history.hard, now + max(.zero, delay))
            jobs[Int(index)]?.history.hard = hard
            if hard > job.deadline { return .deadline }
        }
        return paysForRetry(index, report, failure) ? nil : .budget
    }

    private mutating func count(_ index: JobIndex, _ failure: FailureClass, isCharged: Bool) {
        guard var job = jobs[Int(index)] else { return }
        if isCharged {
            job.history.charged = job.history.charged.saturatingIncrement()
            job.history.failureIndex = job.history.failureIndex.saturatingIncrement()
        } else {
            job.history.connectivityFailures = job.history.connectivityFailures.saturatingIncrement()
        }
        job.lastWasConnectivity = failure == .connectivity
        job.lastWasCharged = isCharged
        job.history.sawEdge = epoch(of: job) != job.history.armedEpoch
        jobs[Int(index)] = job
    }

    /// Whose fault a failure was, in the light of what happened to the path.
    private func classify(_ report: FailureReport, _ job: JobState, isGone: Bool, at now: BusTime) -> FailureClass {
        if job.interruption == .unsatisfied { return .connectivity }
        guard let record = conditions[Int(job.scope)] else { return .transient }
        let overlaps =
            job.heedsScope && record.isLive && (isGone || record.epoch != job.history.armedScopeEpoch || !record.isSatisfied)
        switch report {
        // What the caller calls the server's or permanent is never overruled.
        case .classified(.permanent): return .permanent
        case .classified(.server(let delay)): return .server(retryAfter: delay)
        case .classified(.connectivity), .unreachable: return .connectivity
        case .classified(.transient), .unclassified: return overlaps ? .connectivity : .transient
        case .refused: return overlaps ? .connectivity : .server(retryAfter: nil)
        case .unanswered, .timedOut:
            let isSettling =
                record.isLive && gates[job.gate].blamesTheNetwork(epoch: record.epoch, edgeAt: record.edgeAt, now: now)
            return overlaps || isSettling ? .connectivity : .server(retryAfter: nil)
        }
    }

    /// Whether failures of the network cost the job nothing.
    private func isUncharged(_ job: JobState) -> Bool {
        job.waitsForScope && conditions[Int(job.scope)]?.isLive == true
    }
}
