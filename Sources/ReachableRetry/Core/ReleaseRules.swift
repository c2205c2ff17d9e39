/// A release policy as the gates see it.
package struct ReleaseRules: Hashable, Sendable {
    /// How long an attempt runs until it counts as having got through: an upload may take hours.
    static let longRun = Duration.seconds(5)
    /// Of so many releases one is a bulk job's while normal ones wait, too.
    static let bulkShare = 8
    /// What the pauses grow to while a server fails whoever tries it: a thousand machines that ask every five seconds would keep it
    /// down.
    static let longestPause = Duration.seconds(60)
    /// So many failures of a server in a row, and one tries for all again.
    static let mostOverloads = 4
    /// The first window after a canary got through.
    static let firstWindow = 2

    /// Whether one job tries before the others after an edge, and failures of the network hold all of them back.
    package var hasCanaries = false
    package var maxInFlight = Int.max
    package var interactiveBypass = 0
    /// How fast jobs start; with canaries only while jobs wait.
    package var pace: Pace?
    package var spread = Duration.zero
    package var backoff = Duration.milliseconds(500)
    package var maximumBackoff = Duration.seconds(5)
    /// Whether chance takes off up to half of a delay.
    package var isJittered = true

    /// Whether chance plays a part.
    var isRandom: Bool { hasCanaries && (isJittered || spread > .zero) }

    /// The delay after so many failures in a row.
    func delay(afterFailure number: Int, isOverload: Bool = false, _ chance: inout SplitMix64) -> Duration {
        let maximumBackoff = isOverload ? max(maximumBackoff, Self.longestPause) : maximumBackoff
        var delay = min(backoff, maximumBackoff)
        var doublings = number - 1
        while doublings > 0, delay > .zero, delay < maximumBackoff {
            delay = delay > maximumBackoff / 2 ? maximumBackoff : delay * 2
            doublings -= 1
        }
        return isJittered ? delay / 2 + (delay / 2).scaled(by: Backoff.chance(chance.next())) : delay
    }
}

/// So many a time, and so many at once after a pause: the generic cell rate algorithm (ITU-T I.371).
package struct Pace: Hashable, Sendable {
    /// Between two in the long run.
    let interval: Duration
    /// How far ahead of that they may come.
    let tolerance: Duration

    init(perSecond: Double, burst: Int) {
        // One an hour at least, so that nothing waits for ever; one a nanosecond at most.
        let rate = perSecond >= 1 / 3600 ? min(perSecond, 1e9) : 1 / 3600
        interval = .nanoseconds(max(1, Int64((1e9 / rate).rounded())))
        tolerance = interval * min(max(1, burst) - 1, 1_000_000)
    }
}
