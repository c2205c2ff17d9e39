import CommandKit
import Reachability
import ReachableRetry

/// The messages of `run` about its job.
struct RunMessages {
    /// The state of the network at an event.
    struct Situation {
        /// The unreachable scopes of the job, with what is missing in words.
        var missing: [(scope: Scope, words: String?)] = []
        /// `true` if a reconnect starts the next attempt early.
        var heedsReconnects = true
    }

    /// The shortest wait to report when its beginning was not reported.
    private static let longWait = Duration.seconds(1)

    private var waited = Duration.zero
    private var hasReportedWait = false
    /// The reported shortage that delays the job; `nil` after any other event.
    private var shortage: String?

    /// Returns the message about an event, if it deserves one.
    ///
    /// - Parameter situation: Called only for the messages that need it.
    mutating func line(for event: RetryEvent, _ situation: () -> Situation) -> String? {
        switch event.kind {
        case .waiting:
            // The failure before, or the wait for another path, was reported with it.
            guard !hasReportedWait else { return nil }
            (hasReportedWait, shortage) = (true, nil)
            return "\(Self.text(situation().missing)): waiting for it"
        case .attemptStarted:
            let wait = event.waited - waited
            defer { (waited, hasReportedWait) = (event.waited, false) }
            guard wait > .zero, hasReportedWait || wait >= Self.longWait else { return nil }
            return "the network is back after \(durationText(wait)): attempt \(event.attempt) starts"
        case .attemptFailed:
            return event.failure.flatMap { line(for: $0, of: event.attempt, situation) }
        case .backingOff:
            // The message about the shortage still applies.
            guard shortage == nil else { return nil }
            guard let delay = event.delay else { return nil }
            guard delay > .zero else { return "next attempt now" }
            let reconnect = situation().heedsReconnects ? ", sooner if the network reconnects" : ""
            return "next attempt in \(durationText(delay))\(reconnect)"
        case .gaveUp:
            guard let report = event.report, report.lastError.map(Self.isExpected) != true else { return nil }
            return "giving up \(Self.count(report.attempts)): \(Self.text(report.reason))"
        default: return nil
        }
    }

    private mutating func line(
        for failure: RetryEvent.Failure, of attempt: Int, _ situation: () -> Situation
    ) -> String? {
        // The sender of a signal needs no message, and the deadline has its own.
        guard (failure.error as? ChildFailure)?.interruption == nil else { return nil }
        let reason = ForeignText(Self.text(failure.error)).terminal
        if failure.fault == .local { return line(forShortage: reason, of: attempt) }
        shortage = nil
        let text = "attempt \(attempt) failed: \(reason)"
        guard !failure.isCharged else { return text }
        let missing = situation().missing
        guard !missing.isEmpty else { return "\(text) (during an outage: it does not count)" }
        hasReportedWait = true
        return "\(text); it does not count: \(Self.text(missing)), waiting for it"
    }

    private mutating func line(forShortage reason: String, of attempt: Int) -> String? {
        defer { shortage = reason }
        return reason == shortage ? nil : "attempt \(attempt): \(reason); it does not count, trying again until it can"
    }

    /// Returns the unreachable scopes with their reasons.
    private static func text(_ missing: [(scope: Scope, words: String?)]) -> String {
        let texts = missing.map { scope, words in
            let reason = words.map { " (\($0))" } ?? ""
            return scope == .internet ? "no network\(reason)" : "no path to \(ForeignText(scope.description).terminal)\(reason)"
        }
        return texts.isEmpty ? "no network" : texts.joined(separator: ", ")
    }

    /// Returns `true` if a signal from the user ended the attempt.
    private static func isExpected(_ error: any Error) -> Bool { (error as? ChildFailure)?.interruption == .signal }

    private static func text(_ error: any Error) -> String {
        error as? RetryError == .attemptTimedOut ? "it took too long" : "\(error)"
    }

    private static func text(_ reason: GiveUp.Reason) -> String {
        switch reason {
        case .permanent: "another one would fail the same way"
        case .attempts: "no more are allowed; next: raise --attempts"
        case .deadline: "the deadline has passed; next: raise --deadline"
        default: reason.rawValue
        }
    }

    private static func count(_ attempts: Int) -> String {
        switch attempts {
        case 0: "before the first attempt"
        case 1: "after 1 attempt"
        default: "after \(attempts) attempts"
        }
    }
}
