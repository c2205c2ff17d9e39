@testable import ReachableRetry

/// The consequences of failures.
extension CoreOracle {
    /// Handles the failure of the running attempt.
    mutating func fail(
        _ index: Int, _ report: FailureReport, interruption: JobState.Interruption?, isGone: Bool, delays: FailureDelays
    ) {
        // It has no part in what its end and the loss change.
        jobs[index].state = .ended
        if isGone { lose(jobs[index].scope) }
        jobs[index].state = .parked
        jobs[index].interruption = interruption
        arm(index)
        dirtyGates.insert(jobs[index].gate)
        retireLongRuns(jobs[index].gate)
        defer { releaseJobs() }
        if jobs[index].isCancelled { return end(index, .cancelled) }
        let fault = fault(jobs[index], report, isGone: isGone)
        let isCharged =
            switch fault {
            case .network: interruption != .loss && !isFree(jobs[index])
            case .local: false
            default: true
            }
        note(index, fault, report, isCharged: isCharged)
        if let reason = reasonToStop(index, report, fault) {
            return giveUp(index, reason, isCut: reason == .deadline && interruption == .deadline)
        }
        // Another job becomes the next canary.
        if release.hasCanaries { jobs[index].position = nil }
        delay(index, fault, isCharged: isCharged, delays)
        advance(index, hasFailed: true)
    }

    /// Returns the fault of a failure.
    ///
    /// A classified answer stands. If a loss interrupted the attempt, or it overlapped an outage, the fault is the network's.
    private func fault(_ job: Job, _ report: FailureReport, isGone: Bool) -> AttemptFailure.Fault {
        if isAnswer(report), case .classified(let fault) = report.evidence { return fault }
        if job.interruption == .loss { return .network }
        if report.evidence == .shortage || report.evidence == .classified(.local) { return .local }
        if report.evidence == .classified(.network) { return .network }
        let scope = conditions[job.scope]
        let isBroken = isGone || scope.epoch != job.armedScopeEpoch || !scope.isSatisfied
        if job.variant.mode != .ignore, scope.isLive, isBroken { return .network }
        let isSettling = scope.edges.last.map { now <= $0 + Self.settling } ?? false
        switch report.evidence {
        // Once for each job and epoch of a watched scope.
        case .unreachable: return scope.isLive && job.unreachableIn == scope.epoch ? .unknown : .network
        case .unanswered, .timedOut:
            return scope.isLive && isSettling && gates[job.gate].reachedIn != scope.epoch ? .network : .server
        case .noNameServer:
            guard let seen = job.answersAtNameFailure else { return .network }
            return scope.answers > seen ? .server : .network
        case .refused: return .server
        case .noSourceAddress: return .local
        default: return .unknown
        }
    }

    private func isAnswer(_ report: FailureReport) -> Bool {
        guard case .classified(let fault) = report.evidence else { return false }
        return fault != .network && fault != .local && fault != .unknown
    }

    /// True if network failures are not charged.
    private func isFree(_ job: Job) -> Bool { job.waitsForScope && conditions[job.scope].isLive }

    private mutating func note(_ index: Int, _ fault: AttemptFailure.Fault, _ report: FailureReport, isCharged: Bool) {
        let job = jobs[index]
        if isCharged { jobs[index].charged += 1 }
        if isCharged || fault == .local { jobs[index].failureIndex += 1 }
        if fault == .network, !isCharged { jobs[index].networkFailures += 1 }
        if fault == .network, report.evidence == .unreachable { jobs[index].unreachableIn = job.armedScopeEpoch }
        if report.evidence == .noNameServer { jobs[index].answersAtNameFailure = conditions[job.scope].answers }
        jobs[index].lastFault = fault
        jobs[index].lastWasCharged = isCharged
        if fault == .local { shortage = (max(1, running.count), now) }
        let isAnswered = isAnswer(report) || report.evidence == .refused && fault == .server
        if isAnswered { noteAnswer(index) }
        if isCharged { noteCharge(index, fault, isAnswered: isAnswered) }
        publish(index, .failed(AttemptFailure(fault, mayRetry: report.mayRetry), isCharged: isCharged))
        guard report.mayRetry, job.variant.isBudgeted, job.interruption != .deadline else { return }
        switch fault {
        case .network, .local, .request: break
        case .server, .overload, .unknown: budget?.noteFailure()
        }
    }

    private mutating func reasonToStop(
        _ index: Int, _ report: FailureReport, _ fault: AttemptFailure.Fault
    ) -> GiveUp.Reason? {
        let job = jobs[index]
        if job.interruption == .deadline { return .deadline }
        if !report.mayRetry { return .permanent }
        if isShutDown { return .shutDown }
        if job.deadline <= now { return .deadline }
        if let limit = job.variant.maxAttempts, job.charged >= limit { return .attempts }
        if case .overload(let delay?) = fault {
            jobs[index].hard = max(job.hard, now + max(.zero, delay))
            if jobs[index].hard > job.deadline { return .deadline }
        }
        guard fault != .network, fault != .local, job.variant.isBudgeted, budget != nil else { return nil }
        let isTimeout = job.interruption == .timeout || report.evidence == .timedOut
        guard let refund = budget?.takeRetry(afterTimeout: isTimeout) else { return .budget }
        jobs[index].refund = refund
        return nil
    }

    private mutating func delay(_ index: Int, _ fault: AttemptFailure.Fault, isCharged: Bool, _ delays: FailureDelays) {
        let job = jobs[index]
        if isCharged || fault == .local {
            jobs[index].soft = now + max(delays.counted, fault == .local ? .seconds(1) : .zero)
            jobs[index].previousDelay = delays.counted
        } else if !unmet(job).isEmpty || epoch(job) != job.armedEpoch {
            // If the loss is not confirmed, the job must not start at once.
            if conditions[job.scope].lostUntil != nil, epoch(job) == job.armedEpoch { jobs[index].soft = now + .milliseconds(500) }
        } else if release.hasCanaries, job.isGated {
            let end = noteNetworkFailure(index)
            // At most two uncharged failures a second.
            jobs[index].soft = max(end, now + .milliseconds(500))
            if retryNows(job) != job.armedRetryNows { noteRetryNow(job.gate) }
        } else {
            // Uncharged failures have no other limit.
            jobs[index].soft = now + max(delays.network, .milliseconds(500))
            jobs[index].previousDelay = delays.network
            jobs[index].connectivityIndex += 1
        }
    }
}
