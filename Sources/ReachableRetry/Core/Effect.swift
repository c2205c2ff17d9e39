/// A consequence of a decision, which the bus carries out.
package enum Effect: Sendable {
    /// Starts an attempt.
    case start(JobKey)
    /// Tells the job's reader that an attempt starts when it asks for the next event.
    case announce(JobKey)
    /// Cancels the running attempt, which is awaited.
    case interrupt(JobKey, JobState.Interruption)
    /// Reports the end to the job's caller.
    case end(JobKey, Ending)
    /// Reports the end of a life to its caller, who goes on with the job in another life.
    case handBack(JobKey, HandBack)
    /// Publishes a change to listeners.
    case publish(ChangedJob, JobChange)
    /// Warns of a shortage on this machine; once until no job is left.
    case warnOfShortage
}

/// The job of a change, which may have ended.
package struct ChangedJob: Hashable, Sendable {
    package var key: JobKey
    package var number: UInt64
    package var scope: ConditionIndex
    package var destination: String?
    /// The number of started attempts.
    package var started: Int
    /// The time that it has waited for conditions.
    package var waited: Duration
}

/// An attempt that starts.
package struct Start: Hashable, Sendable {
    package var number: Int
    package var epoch: UInt64
    /// The longest duration; `nil` if there is no limit.
    package var limit: Duration?
}

/// The end of a job that did not succeed.
package enum Ending: Hashable, Sendable {
    /// The caller or the owner of the bus cancelled it.
    case cancelled
    /// The job gave up.
    ///
    /// `isCut` is true if the deadline cut a running attempt, whose error is then dropped.
    case gaveUp(GiveUp.Reason, JobCounts, isCut: Bool)
}

/// The counts of a job.
package struct JobCounts: Hashable, Sendable {
    package var started: Int
    package var charged: Int
    package var networkFailures: Int
    package var waited: Duration
    package var elapsed: Duration
}

/// A change of a job.
package enum JobChange: Hashable, Sendable {
    /// It begins to wait for its first unmet condition.
    case waiting(ConditionIndex)
    case started(Int, StartReason)
    case failed(AttemptFailure, isCharged: Bool)
    case backingOff(Duration)
    case warned(String)
    case succeeded
    case ended(Ending)
}

/// The trigger of an attempt and the time that it saved.
package struct StartReason: Hashable, Sendable {
    package var trigger: RetryEvent.Trigger
    /// The part of the soft delay that was voided.
    package var saved: Duration?
    /// The time since the scope's edge that the job waited for.
    package var sinceEdge: Duration?
}

extension RetryBusCore {
    /// Returns the reason why a job starts now.
    ///
    /// Must be called before the job is armed again.
    func startReason(of job: JobState, at now: BusTime) -> StartReason {
        let planned = job.history.voided == .past ? nil : max(job.history.voided, job.history.hard)
        let saved = planned.flatMap { $0 > now ? $0 - now : nil }
        let scopesEdge = job.heedsScope ? edge(of: job.scope) : .past
        let lastEdge = job.conditions.reduce(scopesEdge) { max($0, edge(of: $1)) }
        let isNew = job.history.started == 0
        let hasSeenEdge = epoch(of: job) != job.history.armedEpoch
        let hasWaited = isNew ? job.reportedWait >= 0 && lastEdge >= job.submitted : hasSeenEdge
        // Otherwise a delay ordered by a server ended last.
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
