/// The past of a job whose earlier attempts ran in other lives, and perhaps in other processes.
///
/// A durable job runs one attempt per life: see ``StoredAttempt``.
package struct JobPast: Hashable, Sendable {
    /// The number of started attempts.
    package var started: Int
    /// The number of charged attempts.
    package var charged: Int
    /// The number of failures that the network caused.
    package var networkFailures: Int
    /// The number of the last failure for the backoff.
    package var failureIndex: Int
    /// The time since the job's first submission, for `giveUpAfter(elapsed:)`.
    package var elapsed: Duration
    /// The backoff after the last failure, for decorrelated jitter.
    package var previousDelay: Duration?
    /// True if the network caused the last failure.
    package var isNetworkFailure = false
    /// True if a reconnect came since the last failure.
    package var hasReconnected = false

    package init(
        started: Int = 0, charged: Int = 0, networkFailures: Int = 0, failureIndex: Int = 0, elapsed: Duration = .zero,
        previousDelay: Duration? = nil
    ) {
        (self.started, self.charged, self.networkFailures) = (started, charged, networkFailures)
        (self.failureIndex, self.elapsed, self.previousDelay) = (failureIndex, elapsed, previousDelay)
    }

    init(_ history: JobHistory, elapsed: Duration) {
        self.init(
            started: Int(history.started), charged: Int(history.charged), networkFailures: Int(history.networkFailures),
            failureIndex: Int(history.failureIndex), elapsed: elapsed)
    }
}

/// The end of a life whose attempt failed, and whose job goes on in another life.
package struct HandBack: Hashable, Sendable {
    /// The counts after the failure.
    package var past: JobPast
    /// The backoff; zero if a reconnect came during the attempt.
    package var soft: Duration
    /// The delay that a server ordered; zero if none.
    package var hard: Duration
    /// The fault of the failure.
    package var fault: AttemptFailure.Fault
    /// True if the bus cut the attempt, because of its time limit or a loss.
    package var isCut: Bool
}

extension JobHistory {
    /// Creates the history of a job that continues.
    init(_ past: JobPast) {
        self.init()
        started = Int32(clamping: past.started)
        charged = Int32(clamping: past.charged)
        networkFailures = Int32(clamping: past.networkFailures)
        connectivityIndex = networkFailures
        failureIndex = Int32(clamping: past.failureIndex)
        previousDelay = past.previousDelay
        hasReconnected = past.hasReconnected
    }
}

extension RetryBusCore {
    /// Ends the life of a failed job that goes on in another life.
    ///
    /// - Parameter isCut: True if the bus cut its attempt.
    mutating func handBack(_ index: JobIndex, _ job: JobState, isCut: Bool, at now: BusTime) {
        let soft = isVoided(job) || job.history.soft <= now ? .zero : job.history.soft - now
        let hard = job.history.hard <= now ? .zero : job.history.hard - now
        if max(soft, hard) > .zero { publish(index, .backingOff(max(soft, hard))) }
        var past = JobPast(job.history, elapsed: now - job.submitted)
        // As the next attempt of this life would.
        if epoch(of: job) != job.history.armedEpoch, job.resetsOnReconnect { past.failureIndex = 0 }
        let handBack = HandBack(past: past, soft: soft, hard: hard, fault: job.history.lastFailure, isCut: isCut)
        effects.append(.handBack(key(index), handBack))
        finish(index, JobEnd(ending: .cancelled, handBack: handBack))
    }
}
