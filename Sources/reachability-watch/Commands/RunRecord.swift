import CommandKit
import Reachability
import ReachableRetry

/// The history of the job of `run`.
struct RunRecord {
    private(set) var summary = RunSummary()
    /// The reason why the job gave up.
    private(set) var reason: GiveUp.Reason?
    private(set) var lastFailure: ChildFailure?
    private var reconnectedAt: Duration?
    private var isSatisfied: Bool?
    /// The time of the first verdict, or of an earlier first attempt: the summary counts from here.
    private var beginning: Duration?

    /// The exit code of an exceeded time limit, as in timeout(1).
    static let timedOut: Int32 = 124

    /// Records an event of the job.
    mutating func take(_ event: RetryEvent) {
        summary.attempts = event.attempt
        summary.waited = event.waited
        if let failure = event.failure {
            switch failure.fault {
            case _ where failure.isCharged: summary.charged += 1
            case .local: summary.notStarted += 1
            default: summary.brokenOff += 1
            }
        }
        if let report = event.report { (summary.waited, reason) = (report.waited, report.reason) }
    }

    /// Records the state of the job's conditions.
    mutating func note(isSatisfied: Bool, at time: Duration) {
        beginning = beginning ?? time
        defer { self.isSatisfied = isSatisfied }
        if !isSatisfied { reconnectedAt = nil }
        if isSatisfied, self.isSatisfied == false { reconnectedAt = time }
    }

    /// Records the start of an attempt.
    mutating func noteStart(isSatisfied: Bool, at time: Duration) {
        beginning = beginning ?? time
        if !isSatisfied { summary.startedOffline += 1 }
        if let reconnectedAt { summary.reconnectToAttempt = time - reconnectedAt }
        if isSatisfied, self.isSatisfied == false {
            // The bus may learn of a reconnect before this record.
            summary.reconnectToAttempt = .zero
            self.isSatisfied = true
        }
        reconnectedAt = nil
    }

    /// Records a failed attempt.
    ///
    /// A reconnect during the attempt counts from the attempt's end: no other attempt could start before.
    mutating func noteFailure(_ failure: ChildFailure, at time: Duration) {
        lastFailure = failure
        if reconnectedAt != nil { reconnectedAt = time }
    }

    /// Records the end of the job.
    mutating func noteEnd(at time: Duration) { summary.elapsed = max(time - (beginning ?? .zero), summary.waited) }

    /// The exit code of a job that did not succeed.
    var code: Int32 {
        guard reason != .deadline, let lastFailure else { return Self.timedOut }
        return lastFailure.interruption == .timeLimit ? Self.timedOut : lastFailure.code
    }
}

/// The figures of `run --summary`.
struct RunSummary: Hashable {
    /// The number of attempts.
    var attempts = 0
    /// The number of charged failures.
    var charged = 0
    /// The number of failures during an outage.
    var brokenOff = 0
    /// The number of attempts that could not start for lack of a resource.
    var notStarted = 0
    /// The number of attempts that started while offline.
    var startedOffline = 0
    /// The time spent waiting for the network.
    var waited = Duration.zero
    /// The time from the first possible start to the end.
    var elapsed = Duration.zero
    /// The time from the last reconnect to the attempt that it started; `nil` without such an attempt.
    ///
    /// Counts from the earliest possible start: all scopes are satisfied and the previous attempt has ended.
    var reconnectToAttempt: Duration?

    /// The lines of the summary.
    var lines: [String] {
        var lines = [
            "attempts: \(attempts), of which failed: \(charged), broken off by an outage: \(brokenOff)"
                + (notStarted > 0 ? ", not started: \(notStarted)" : ""),
            "time: \(durationText(elapsed)), of which waiting for the network: \(durationText(waited))",
            "attempts started while offline: \(startedOffline)",
        ]
        if let reconnectToAttempt {
            lines.append("from the reconnect to the attempt: \(durationText(reconnectToAttempt))")
        }
        return lines
    }
}
