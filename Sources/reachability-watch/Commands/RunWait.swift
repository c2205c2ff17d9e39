import CommandKit
import Reachability
import ReachableRetry

/// The wait of `run` for its next attempt at one moment.
struct RunWait: Hashable {
    /// The kind of a wait.
    enum Kind: Hashable {
        /// Until this time has passed.
        case delay(Duration)
        /// Until something happens: the reason in words.
        case event(String)
    }

    var kind: Kind
    /// The number of the next attempt.
    var attempt: Int
    /// The number of failures that count.
    var charged: Int
    /// The number of failures that end the job; `nil` for no limit.
    var limit: Int?
    /// The time until the deadline; `nil` without one.
    var timeLeft: Duration?

    /// Returns the line about the wait.
    ///
    /// - Parameter elapsed: The time since the last attempt, or since the beginning.
    func text(after elapsed: Duration) -> String {
        // After a suspension the delay and the deadline may both be over.
        let isOver = timeLeft.map { $0 <= .zero } ?? false
        var parts: [String] =
            switch kind {
            case .delay where isOver: []
            case .delay(let delay): ["next attempt \(Self.due(delay)) (\(number))"]
            case .event(let reason): [reason, "\(Age(elapsed).text) so far"]
            }
        if let timeLeft { parts.append("gives up \(Self.due(timeLeft))") }
        return parts.joined(separator: "; ")
    }

    /// Returns the time until the line changes.
    func untilChange(after elapsed: Duration) -> Duration {
        var times = timeLeft.map { [Self.untilChange(ofRest: $0)] } ?? []
        switch kind {
        case .delay(let delay): times.append(Self.untilChange(ofRest: delay))
        case .event: times.append(Age(elapsed).untilChange)
        }
        return times.min() ?? .seconds(1)
    }

    /// The next attempt, and how many are left.
    private var number: String {
        guard let limit else { return "attempt \(attempt)" }
        // Attempts broken off by an outage do not count.
        return charged + 1 == attempt ? "attempt \(attempt) of \(limit)" : "attempt \(attempt), \(limit - charged) left"
    }

    /// Returns the end of a time that is left as text.
    private static func due(_ time: Duration) -> String { time > .zero ? "in \(Age(.seconds(shown(time))).text)" : "now" }

    /// Returns the time after which a time that is left has another text.
    private static func untilChange(ofRest time: Duration) -> Duration {
        let shown = shown(time)
        return max(time - .seconds(shown - (shown > 3600 ? 60 : 1)), .milliseconds(1))
    }

    /// Returns a time in seconds, rounded up so that it is not zero before its end; above an hour in whole minutes.
    private static func shown(_ time: Duration) -> Int64 {
        let (whole, attoseconds) = min(max(time, .zero), DurationArgument.longest).components
        let seconds = whole + (attoseconds > 0 ? 1 : 0)
        return seconds > 3600 ? (seconds + 59) / 60 * 60 : seconds
    }
}

/// The times at which `run` reports a wait: on a terminal whenever its last line changes, otherwise rarely.
struct WaitProgress {
    /// The time before the last line appears: shorter waits would only make it flicker.
    static let shortest = Duration.milliseconds(200)

    /// True for the last line of a terminal.
    let isLine: Bool
    /// The beginning of the wait; `nil` while there is none.
    private var began: Duration?
    /// The number of messages about this wait.
    private var reported = 0

    init(isLine: Bool) { self.isLine = isLine }

    /// Takes the present state.
    ///
    /// - Parameters:
    ///   - wait: The wait; `nil` while an attempt runs.
    ///   - now: The time on any clock.
    /// - Returns: The line to show or the message to write, and the time after which to call again.
    mutating func update(_ wait: RunWait?, at now: Duration) -> (text: String?, next: Duration?) {
        guard let wait else {
            (began, reported) = (nil, 0)
            return (nil, nil)
        }
        let elapsed = now - (began ?? now)
        began = began ?? now
        if isLine {
            guard elapsed >= Self.shortest else { return (nil, Self.shortest - elapsed) }
            return (wait.text(after: elapsed), min(wait.untilChange(after: elapsed), .seconds(60)))
        }
        let isDue = elapsed >= Self.time(ofMessage: reported)
        // After a suspension several are due.
        while Self.time(ofMessage: reported) <= elapsed { reported += 1 }
        return (isDue ? wait.text(after: elapsed) : nil, Self.time(ofMessage: reported) - elapsed)
    }

    /// Returns the length of a wait at a message about it: 1 min, 5 min, 15 min, then each hour.
    private static func time(ofMessage number: Int) -> Duration {
        switch number {
        case 0: .seconds(60)
        case 1: .seconds(300)
        case 2: .seconds(900)
        default: .seconds(3600) * (number - 2)
        }
    }
}
