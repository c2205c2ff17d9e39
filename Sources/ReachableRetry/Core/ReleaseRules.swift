/// A release policy as the gates see it.
package struct ReleaseRules: Hashable, Sendable {
    /// The time after which an attempt no longer holds back others: an upload may take hours.
    static let longRun = Duration.seconds(5)
    /// Of so many releases one is a bulk job's while normal ones wait, too.
    static let bulkShare = 8
    /// What the pauses grow to while a server fails whoever tries it: a thousand machines that ask every five seconds would keep it
    /// down.
    static let longestPause = Duration.seconds(60)
    /// So many jobs failed in a row, and the server has too much to do.
    static let mostFailed = 4
    /// The time that a job waits at least after a failure of the network on a path that is there: such failures are not charged,
    /// and a policy without delays would never end.
    static let leastDelay = Duration.milliseconds(500)
    /// The same after this machine ran out of something.
    static let leastDelayAfterShortage = Duration.seconds(1)
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

/// The number of attempts that may run since this machine ran out of something: one more each second.
struct Shortage: Hashable, Sendable {
    let firstLimit: Int
    let since: BusTime

    func limit(at now: BusTime) -> Int {
        let seconds = max(0, (now - since).components.seconds)
        return firstLimit + Int(min(seconds, Int64(Int32.max)))
    }

    /// The time at which more than so many may run.
    func time(of running: Int) -> BusTime { since + .seconds(max(0, running - firstLimit + 1)) }
}
