/// What a bus has to do because of a decision.
package enum Effect: Sendable {
    /// Let an attempt start.
    case start(JobKey)
    /// Cancel the running attempt; it is awaited.
    case interrupt(JobKey, JobState.Interruption)
    /// Tell the job's caller that it is over.
    case end(JobKey, Ending)
    /// Tell those who listen.
    case publish(Subject, JobChange)
    /// Warn that this machine has run out of something; once until there are no jobs.
    case warnOfShortage
}

/// The job that news are about, which may have ended.
package struct Subject: Hashable, Sendable {
    package var key: JobKey
    package var number: UInt64
    package var scope: ConditionIndex
    package var destination: String?
    /// How many attempts have been started.
    package var started: Int
    /// How long it has waited for conditions so far.
    package var waited: Duration
}

/// An attempt that starts.
package struct Start: Hashable, Sendable {
    package var number: Int
    package var epoch: UInt64
    /// How long it may take; `nil` if nothing limits it.
    package var limit: Duration?
}

/// How a job ended, if not by success.
package enum Ending: Hashable, Sendable {
    /// The caller, or the owner of the bus, no longer wants it.
    case cancelled
    /// The job gave up.
    ///
    /// `isCut` says that time ended a running attempt, whose error is then of no interest.
    case gaveUp(GiveUp.Reason, Tally, isCut: Bool)
}

/// What a job has been through, in numbers.
package struct Tally: Hashable, Sendable {
    package var started: Int
    package var charged: Int
    package var networkFailures: Int
    package var waited: Duration
    package var elapsed: Duration
}

/// What happened to a job.
package enum JobChange: Hashable, Sendable {
    /// It begins to wait for a condition, the first of those that are unmet.
    case waiting(ConditionIndex)
    case started(Int, StartReason)
    case failed(AttemptFailure, isCharged: Bool)
    case backingOff(Duration)
    case succeeded
    case ended(Ending)
}

/// What becomes of a job after its attempt failed.
package enum FailureOutcome: Hashable, Sendable {
    /// All is decided: effects tell what comes next.
    case settled
    /// It waits: compute the delay after so many failures, and park the job with it.
    case backOff(index: Int, previous: Duration?)
}

/// What let an attempt start, and what that was worth.
package struct StartReason: Hashable, Sendable {
    package var trigger: RetryEvent.Trigger
    /// How much later it would have started if nothing had voided its soft delay.
    package var saved: Duration?
    /// How long ago the edge of the scope was that the job waited for.
    package var sinceEdge: Duration?
}

extension RetryBusCore {
    /// What lets a job start that is about to, before it is armed anew.
    func startReason(of job: JobState, at now: BusTime) -> StartReason {
        let planned = job.history.voided == .past ? nil : max(job.history.voided, job.history.hard)
        let saved = planned.flatMap { $0 > now ? $0 - now : nil }
        let scopesEdge = job.heedsScope ? edge(of: job.scope) : .past
        let lastEdge = job.conditions.reduce(scopesEdge) { max($0, edge(of: $1)) }
        let isNew = job.history.started == 0
        let hasSeenEdge = epoch(of: job) != job.history.armedEpoch
        let hasWaited = isNew ? job.reportedWait >= 0 && lastEdge >= job.submitted : hasSeenEdge
        // Otherwise a server's order had the last word.
        if hasWaited, job.history.hard <= lastEdge {
            let isScopes = lastEdge == scopesEdge
            return StartReason(
                trigger: isScopes ? .reconnect : .condition, saved: saved,
                sinceEdge: isScopes && !job.history.sawEdge && lastEdge != .past ? now - lastEdge : nil)
        }
        if isNew { return StartReason(trigger: .first) }
        let isRetryNow = saved != nil && !hasSeenEdge && retryNows(of: job) != job.history.armedRetryNows
        return StartReason(trigger: isRetryNow ? .retryNow : .timer, saved: saved)
    }

    private func edge(of condition: ConditionIndex) -> BusTime { conditions[Int(condition)]?.edgeAt ?? .past }
}
