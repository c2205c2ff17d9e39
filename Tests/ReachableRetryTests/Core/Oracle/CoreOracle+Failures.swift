@testable import ReachableRetry

/// What failures lead to.
extension CoreOracle {
    /// The running attempt failed; says whether a delay is to be computed.
    mutating func fail(
        _ index: Int, _ report: FailureReport, interruption: JobState.Interruption?, isGone: Bool
    ) -> Judgement {
        jobs[index].state = .judged
        jobs[index].interruption = interruption
        arm(index)
        touched.insert(jobs[index].gate)
        retireLongRuns(jobs[index].gate)
        defer { letGo() }
        if jobs[index].isCancelled {
            end(index, .cancelled)
            return .settled
        }
        let failure = failureClass(jobs[index], report, isGone: isGone)
        let isCharged = failure != .connectivity || interruption != .unsatisfied && !isFree(jobs[index])
        note(index, failure, isCharged: isCharged)
        if let reason = reasonToStop(index, report, failure) {
            giveUp(index, reason, isCut: reason == .deadline && interruption == .deadline)
            return .settled
        }
        // The next canary is another job.
        if release.hasCanaries { jobs[index].turn = nil }
        return goOn(index, isCharged: isCharged)
    }

    /// The delay is known.
    mutating func park(_ index: Int, for delay: Duration) {
        // Failures that are not charged would never end.
        jobs[index].soft = now + (jobs[index].lastWasCharged ? delay : max(delay, .milliseconds(500)))
        jobs[index].previousDelay = delay
        advance(index)
        letGo()
    }

    private func failureClass(_ job: Job, _ report: FailureReport, isGone: Bool) -> FailureClass {
        if job.interruption == .unsatisfied { return .connectivity }
        let scope = conditions[job.scope]
        let isBroken = isGone || scope.epoch != job.armedScopeEpoch || !scope.isSatisfied
        let overlaps = job.variant.mode != .ignore && scope.isLive && isBroken
        let isSettling = scope.edges.last.map { now <= $0 + Self.settling } ?? false
        switch report {
        case .classified(.permanent): return .permanent
        case .classified(.server(let delay)): return .server(retryAfter: delay)
        case .classified(.connectivity), .unreachable: return .connectivity
        case .classified(.transient), .unclassified: return overlaps ? .connectivity : .transient
        case .refused: return overlaps ? .connectivity : .server(retryAfter: nil)
        case .unanswered, .timedOut:
            let isNews = scope.isLive && isSettling && gates[job.gate].reachedIn != scope.epoch
            return overlaps || isNews ? .connectivity : .server(retryAfter: nil)
        }
    }

    /// Whether failures of the network cost the job nothing.
    private func isFree(_ job: Job) -> Bool { job.waitsForScope && conditions[job.scope].isLive }

    private mutating func note(_ index: Int, _ failure: FailureClass, isCharged: Bool) {
        if isCharged {
            jobs[index].charged += 1
            jobs[index].failureIndex += 1
        } else {
            jobs[index].connectivityFailures += 1
        }
        jobs[index].lastWasConnectivity = failure == .connectivity
        jobs[index].lastWasCharged = isCharged
        if isCharged { noteOtherFailure(index, failure) }
        tell(index, .failed(failure, isCharged: isCharged))
        switch failure {
        case .connectivity, .permanent: break
        case .transient, .server:
            if jobs[index].variant.isBudgeted, jobs[index].interruption != .deadline { budget?.noteFailure() }
        }
    }

    private mutating func reasonToStop(_ index: Int, _ report: FailureReport, _ failure: FailureClass) -> GiveUp.Reason? {
        let job = jobs[index]
        if job.interruption == .deadline { return .deadline }
        if failure == .permanent { return .permanent }
        if isShutDown { return .shutDown }
        if job.deadline <= now { return .deadline }
        if let most = job.variant.most, job.charged >= most { return .attempts }
        if case .server(let delay?) = failure {
            jobs[index].hard = max(job.hard, now + max(.zero, delay))
            if jobs[index].hard > job.deadline { return .deadline }
        }
        guard failure != .connectivity, job.variant.isBudgeted, budget != nil else { return nil }
        let isTimeout = job.interruption == .timeout || report == .timedOut
        guard let refund = budget?.takeRetry(afterTimeout: isTimeout) else { return .budget }
        jobs[index].refund = refund
        return nil
    }

    private mutating func goOn(_ index: Int, isCharged: Bool) -> Judgement {
        let job = jobs[index]
        if isCharged { return .backOff(index: job.failureIndex, previous: job.previousDelay) }
        if !unmet(job).isEmpty || epoch(job) != job.armedEpoch {
            // A loss that turns out to be none must not make it start at once.
            if conditions[job.scope].lostUntil != nil, epoch(job) == job.armedEpoch { jobs[index].soft = now + .milliseconds(500) }
            advance(index)
            return .settled
        }
        if release.hasCanaries, job.isGated {
            jobs[index].soft = noteNetworkFailure(index)
            if nudges(job) != job.armedNudges { noteNudge(job.gate) }
            advance(index)
            return .settled
        }
        jobs[index].connectivityIndex += 1
        return .backOff(index: job.connectivityIndex + 1, previous: job.previousDelay)
    }
}
