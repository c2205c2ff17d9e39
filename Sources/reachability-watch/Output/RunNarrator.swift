import Reachability
import ReachableRetry

/// What `run` says of its job, in lines for people.
struct RunNarrator {
    /// What to say of an event, given how the network is.
    func line(for event: RetryEvent, _ path: NetworkPath) -> String? {
        switch event.kind {
        case .waitingForConnectivity:
            let reason = path.offlineReason.map { " (\($0))" } ?? ""
            return "no network\(reason): waiting for it"
        case .attemptFailed:
            guard let failure = event.failure, !Self.isExpected(failure.error) else { return nil }
            let text = "attempt \(event.attempt) failed: \(escapedForTerminal(Self.text(failure.error)))"
            return failure.isCharged ? text : text + " (during an outage: it does not count)"
        case .backingOff:
            return event.delay.map { "next attempt in \(Self.text($0)), or when the network returns" }
        case .gaveUp:
            guard let story = event.story, story.lastError.map(Self.isExpected) != true else { return nil }
            return "giving up after \(Self.count(story.attempts)): \(Self.text(story.reason))"
        default: return nil
        }
    }

    /// Whether the user ended it, and need not be told.
    private static func isExpected(_ error: any Error) -> Bool { (error as? ChildFailure)?.wasToldToEnd == true }

    private static func text(_ error: any Error) -> String {
        error as? RetryError == .attemptTimedOut ? "it took too long" : "\(error)"
    }

    private static func text(_ reason: GiveUp.Reason) -> String {
        switch reason {
        case .permanent: "another one would fail the same way"
        case .attempts: "no more are allowed"
        case .deadline: "the time is over"
        default: reason.rawValue
        }
    }

    static func count(_ attempts: Int) -> String { attempts == 1 ? "1 attempt" : "\(attempts) attempts" }

    /// A duration as people write it: `250ms`, `1.5s`, `2m 5s`, `1h 3m`.
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
