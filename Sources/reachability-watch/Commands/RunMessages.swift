import Reachability
import ReachableRetry

/// The messages of `run` about its job, for people.
struct RunNarrator {
    /// The state of the network at an event.
    struct Situation {
        /// The scopes that the job cannot reach, with their paths.
        var missing: [(scope: Scope, path: NetworkPath)] = []
        /// Whether a reconnect would start the next attempt early.
        var heedsReconnects = true
    }

    /// The shortest wait that is mentioned if its beginning was not.
    private static let longWait = Duration.seconds(1)

    private var waited = Duration.zero
    private var hasToldOfWaiting = false
    /// The shortage that delays the job, as it was told; `nil` if something else happened since.
    private var shortage: String?

    /// Returns the message about an event; `nil` if there is none.
    ///
    /// - Parameter situation: Called only for the messages that need it.
    mutating func line(for event: RetryEvent, _ situation: () -> Situation) -> String? {
        switch event.kind {
        case .waiting:
            // The failure before, or the wait for another path, has said so.
            guard !hasToldOfWaiting else { return nil }
            (hasToldOfWaiting, shortage) = (true, nil)
            return "\(Self.text(situation().missing)): waiting for it"
        case .attemptStarted:
            let wait = event.waited - waited
            defer { (waited, hasToldOfWaiting) = (event.waited, false) }
            guard wait > .zero, hasToldOfWaiting || wait >= Self.longWait else { return nil }
            return "the network is back after \(Self.text(wait)): attempt \(event.attempt) starts"
        case .attemptFailed:
            return event.failure.flatMap { line(for: $0, of: event.attempt, situation) }
        case .backingOff:
            // The message about a shortage holds until something else happens.
            guard shortage == nil else { return nil }
            let reconnect = situation().heedsReconnects ? ", sooner if the network reconnects" : ""
            return event.delay.map { "next attempt in \(Self.text($0))\(reconnect)" }
        case .gaveUp:
            guard let report = event.report, report.lastError.map(Self.isExpected) != true else { return nil }
            return "giving up \(Self.count(report.attempts)): \(Self.text(report.reason))"
        default: return nil
        }
    }

    private mutating func line(
        for failure: RetryEvent.Failure, of attempt: Int, _ situation: () -> Situation
    ) -> String? {
        // An attempt that the deadline ended did not fail by itself, and the deadline has a message of its own.
        guard !Self.isExpected(failure.error), (failure.error as? ChildFailure)?.wasCut != true else { return nil }
        let reason = escapedForTerminal(Self.text(failure.error))
        if failure.fault == .local { return line(forShortage: reason, of: attempt) }
        shortage = nil
        let text = "attempt \(attempt) failed: \(reason)"
        guard !failure.isCharged else { return text }
        let missing = situation().missing
        guard !missing.isEmpty else { return "\(text) (during an outage: it does not count)" }
        hasToldOfWaiting = true
        return "\(text); it does not count: \(Self.text(missing)), waiting for it"
    }

    private mutating func line(forShortage reason: String, of attempt: Int) -> String? {
        defer { shortage = reason }
        return reason == shortage ? nil : "attempt \(attempt): \(reason); it does not count, trying again until it can"
    }

    /// The unreachable scopes and the reasons.
    private static func text(_ missing: [(scope: Scope, path: NetworkPath)]) -> String {
        let texts = missing.map { scope, path in
            let reason = path.offlineReason.map { " (\($0))" } ?? ""
            return scope == .internet ? "no network\(reason)" : "no path to \(escapedForTerminal(scope.description))\(reason)"
        }
        return texts.isEmpty ? "no network" : texts.joined(separator: ", ")
    }

    /// Whether the user ended the attempt, and knows.
    private static func isExpected(_ error: any Error) -> Bool { (error as? ChildFailure)?.wasToldToEnd == true }

    private static func text(_ error: any Error) -> String {
        error as? RetryError == .attemptTimedOut ? "it took too long" : "\(error)"
    }

    private static func text(_ reason: GiveUp.Reason) -> String {
        switch reason {
        case .permanent: "another one would fail the same way"
        case .attempts: "no more are allowed"
        case .deadline: "the deadline has passed"
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

    /// A duration as on the command line: `250ms`, `1.5s`, `2m 5s`, `1h 3m`.
    static func text(_ duration: Duration) -> String {
        let milliseconds = Int64(clamping: duration.attoseconds / 1_000_000_000_000_000)
        if milliseconds < 1000 { return "\(milliseconds)ms" }
        if milliseconds < 60_000 {
            let tenths = milliseconds % 1000 / 100
            return "\(milliseconds / 1000)\(tenths == 0 ? "" : ".\(tenths)")s"
        }
        let seconds = milliseconds / 1000
        if seconds < 3600 { return "\(seconds / 60)m\(seconds % 60 == 0 ? "" : " \(seconds % 60)s")" }
        return "\(seconds / 3600)h\(seconds / 60 % 60 == 0 ? "" : " \(seconds / 60 % 60)m")"
    }
}
