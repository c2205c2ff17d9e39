import Reachability
import ReachableRetry

/// The history of the job of `run`.
struct RunRecord {
    private(set) var summary = RunSummary()
    /// Why the job gave up.
    private(set) var reason: GiveUp.Reason?
    private(set) var lastFailure: ChildFailure?
    private var reconnectedAt: Duration?
    private var isSatisfied: Bool?
    /// The time of the first verdict, or of the first attempt if that came earlier: no attempt could have started before.
    private var beginning: Duration?

    /// The exit code of a deadline and of an attempt's time limit, as timeout(1) has it.
    static let timedOut: Int32 = 124

    /// Notes an event of the job.
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

    /// Notes whether all conditions of the job are satisfied.
    mutating func note(isSatisfied: Bool, at time: Duration) {
        beginning = beginning ?? time
        defer { self.isSatisfied = isSatisfied }
        if !isSatisfied { reconnectedAt = nil }
        if isSatisfied, self.isSatisfied == false { reconnectedAt = time }
    }

    /// Notes that an attempt starts.
    mutating func noteStart(isSatisfied: Bool, at time: Duration) {
        beginning = beginning ?? time
        if !isSatisfied { summary.startedOffline += 1 }
        if let reconnectedAt { summary.reconnectToAttempt = time - reconnectedAt }
        if isSatisfied, self.isSatisfied == false {
            // The bus may hear of a reconnect before this record.
            summary.reconnectToAttempt = .zero
            self.isSatisfied = true
        }
        reconnectedAt = nil
    }

    /// Notes that an attempt failed.
    ///
    /// A reconnect during the attempt could not start the next one before that.
    mutating func noteFailure(_ failure: ChildFailure, at time: Duration) {
        lastFailure = failure
        if reconnectedAt != nil { reconnectedAt = time }
    }

    /// Notes the end of the job.
    mutating func noteEnd(at time: Duration) { summary.elapsed = max(time - (beginning ?? .zero), summary.waited) }

    /// The exit code of a job without success.
    var code: Int32 {
        guard reason != .deadline, let lastFailure else { return Self.timedOut }
        return lastFailure.wasCut && !lastFailure.wasToldToEnd ? Self.timedOut : lastFailure.code
    }
}

/// The figures of `run --summary`.
struct RunSummary: Hashable {
    /// The number of attempts.
    var attempts = 0
    /// The number of attempts that failed by themselves.
    var charged = 0
    /// The number of attempts that failed during an outage.
    var brokenOff = 0
    /// The number of attempts that could not start because this machine was short of something.
    var notStarted = 0
    /// The number of attempts that started while the network was known to be away.
    var startedOffline = 0
    /// The time that the job waited for the network.
    var waited = Duration.zero
    /// The time from when the first attempt could have started to the end.
    var elapsed = Duration.zero
    /// The time from the last reconnect that an attempt waited for to this attempt; `nil` if none did.
    ///
    /// Counted from when the bus could have started the attempt: all scopes are there, and the attempt before has ended.
    var reconnectToAttempt: Duration?

    /// The lines.
    var lines: [String] {
        var lines = [
            "attempts: \(attempts), of which failed: \(charged), broken off by an outage: \(brokenOff)"
                + (notStarted > 0 ? ", not started: \(notStarted)" : ""),
            "time: \(RunNarrator.text(elapsed)), of which waiting for the network: \(RunNarrator.text(waited))",
            "attempts started while the network was away: \(startedOffline)",
        ]
        if let reconnectToAttempt {
            lines.append("from the network's return to the attempt: \(Self.precise(reconnectToAttempt))")
        }
        return lines
    }

    /// Milliseconds with two places.
    private static func precise(_ duration: Duration) -> String {
        let hundredths = Int64(clamping: duration.attoseconds / 10_000_000_000_000)
        let places = hundredths % 100
        return "\(hundredths / 100).\(places < 10 ? "0" : "")\(places)ms"
    }
}
