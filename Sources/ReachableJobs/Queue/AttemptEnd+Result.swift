internal import FoundationEssentials
internal import Reachability
internal import ReachableRetry

extension AttemptResult {
    /// Creates the result of an attempt; `nil` if it has none, because it was cut.
    ///
    /// - Parameters:
    ///   - end: The end on the bus.
    ///   - claimed: The claim.
    ///   - time: Returns the store's time of the end, which matters if the job runs again.
    init?(_ end: AttemptEnd<Void>, of claimed: ClaimedJob, time: () -> StoreInstant?) {
        var counters = claimed.job.counters
        switch end {
        case .succeeded(_, let started):
            counters.started = started
            self.init(claimed.ticket, .succeeded, counters: counters)
        // It may have been carried out; a job within the operation has the same errors.
        case .handedBack(let back, let error as RetryError) where back.isCut && error.isCut && !claimed.job.isRepeatable: return nil
        case .handedBack(let back, let error):
            counters.set(back.past)
            var holds: Duration?
            if case .overload = back.fault, back.hard > .zero, claimed.job.destination != nil { holds = back.hard }
            let outcome = Outcome.again(
                soft: back.soft, isNetwork: back.fault == .network, hard: back.hard > .zero ? back.hard : nil)
            self.init(
                claimed.ticket, outcome, counters: counters, error: error.storedText, holdsDestination: holds, time: time())
        case .gaveUp(let report):
            // The worker ended, not the job.
            guard report.reason != .shutDown else { return nil }
            (counters.started, counters.networkFailures) = (report.attempts, report.networkFailures)
            counters.charged = max(0, report.charged - Crashes.charged(counters))
            self.init(
                claimed.ticket, .failed(reason: report.reason.rawValue), counters: counters,
                error: report.lastError.map(\.storedText) ?? claimed.job.lastError)
        case .cancelled: return nil
        }
    }
}

extension Error {
    /// The text that stores keep: the description for people, if there is one.
    fileprivate var storedText: String { (self as? any LocalizedError)?.errorDescription ?? "\(self)" }
}

extension DurableJob {
    /// The past for the bus, with the delay from which decorrelated jitter draws the next one.
    var past: JobPast {
        var past = counters.past
        past.previousDelay = softDelay.map { $0.since.duration(to: $0.until) }
        past.isNetworkFailure = softDelay?.isNetwork ?? false
        return past
    }
}

extension DurableJob.Counters {
    /// The past for the bus; crashes count as charged attempts.
    var past: JobPast {
        JobPast(
            started: started, charged: charged + Crashes.charged(self), networkFailures: networkFailures, failureIndex: failureIndex
        )
    }

    mutating func set(_ past: JobPast) {
        (started, networkFailures, failureIndex) = (past.started, past.networkFailures, past.failureIndex)
        charged = max(0, past.charged - Crashes.charged(self))
    }
}
