import Reachability
import ReachableRetry

/// What `run` remembers of its job.
struct RunRecord {
    private(set) var summary = RunSummary()
    /// Why the job gave up.
    private(set) var reason: GiveUp.Reason?
    private(set) var lastFailure: ChildFailure?
    private var reconnectedAt: Duration?
    private var isSatisfied: Bool?

    /// The exit code that tells of a deadline, as timeout(1) has it.
    static let timedOut: Int32 = 124

    /// Takes in what happened to the job.
    mutating func take(_ event: RetryEvent) {
        summary.attempts = event.attempt
        summary.waited = event.waited
        if let failure = event.failure {
            if failure.isCharged { summary.charged += 1 } else { summary.brokenOff += 1 }
        }
        if let story = event.story { (summary.waited, reason) = (story.waited, story.reason) }
    }

    /// The network is there, or not.
    mutating func note(isSatisfied: Bool, at time: Duration) {
        defer { self.isSatisfied = isSatisfied }
        if !isSatisfied { reconnectedAt = nil }
        if isSatisfied, self.isSatisfied == false { reconnectedAt = time }
    }

    /// An attempt starts.
    mutating func noteStart(isSatisfied: Bool, at time: Duration) {
        if !isSatisfied { summary.startedOffline += 1 }
        if let reconnectedAt { summary.reconnectToAttempt = time - reconnectedAt }
        if isSatisfied, self.isSatisfied == false {
            // The bus may be told of a reconnect first.
            summary.reconnectToAttempt = .zero
            self.isSatisfied = true
        }
        reconnectedAt = nil
    }

    mutating func note(_ failure: ChildFailure) { lastFailure = failure }

    mutating func note(elapsed: Duration) { summary.elapsed = elapsed }

    /// The exit code of a job without success.
    var code: Int32 {
        guard reason != .deadline, let lastFailure else { return Self.timedOut }
        // What ended well because it was told to end has not done its work, unless its user told it.
        return lastFailure.code == 0 && !lastFailure.wasToldToEnd ? Self.timedOut : lastFailure.code
    }
}
