/// How fast a bus lets jobs go when the network is back.
///
/// It decides about jobs that wait for the network (``RetryPolicy/Connectivity/wait(upTo:)``), for each scope and destination by
/// itself. While nothing is amiss no policy but ``paced(perSecond:burst:)`` delays anything.
public struct ReleasePolicy: Hashable, Sendable {
    package var rules: ReleaseRules

    /// One job tries first; when it has got through, the others follow, in a growing number at a time.
    ///
    /// ``gated(maxInFlight:interactiveBypass:rate:burst:spread:backoff:maximumBackoff:jitter:)`` with its defaults.
    public static let gated = gated()

    /// One job tries first; when it has got through, the others follow, in a growing number at a time.
    ///
    /// After each reconnect the first job is the most urgent and oldest one. If it fails, another one tries, after a delay that
    /// all share; so a network that is up but leads nowhere yet costs a few attempts, not one of each job. Once an attempt has
    /// succeeded, two run at a time, then four, and so on; when none is left to wait, nothing is limited any more. An attempt that
    /// has been running for five seconds counts as having got through, and no longer limits the others. A failure of the network
    /// starts it all over. A server that says when to come again (``AttemptFailure/Fault/overload(retryAfter:)``) is left alone
    /// until then by all jobs that name it as their destination, and one that fails several times in a row is tried by one for all,
    /// at intervals that grow to a minute. Of jobs that name none it is not known whether they share a server.
    ///
    /// A path that was lost and found more than five times within 30 seconds has to last for three before others than interactive
    /// jobs try it. The monitor counts, so that it holds for the first job of a new bus, too.
    ///
    /// - Parameters:
    ///   - maxInFlight: how many attempts run at a time at most while others wait; at least 1.
    ///   - interactiveBypass: how many interactive jobs may run besides; at least 0.
    ///   - rate: how many others than interactive jobs start a second at most, while jobs wait; `nil` sets no limit. What is below
    ///     one an hour, or not a number, counts as one an hour.
    ///   - burst: how many of them may start at once; at least 1.
    ///   - spread: bulk jobs wait for a part of this, drawn for each reconnect: many machines must not come back together.
    ///   - backoff: the longest delay after the first failure, doubled after each further one; jitter takes off up to half.
    ///   - maximumBackoff: what the delays do not exceed.
    ///   - jitter: Whether the delays after failures are shortened at random. `false` is for tests that expect exact times: a fleet
    ///     whose machines fail together also returns together. `spread` is drawn in either case.
    public static func gated(
        maxInFlight: Int = 16, interactiveBypass: Int = 2, rate: Double? = nil, burst: Int = 1, spread: Duration = .zero,
        backoff: Duration = .milliseconds(500), maximumBackoff: Duration = .seconds(5), jitter: Bool = true
    ) -> ReleasePolicy {
        ReleasePolicy(
            rules: ReleaseRules(
                hasCanaries: true, maxInFlight: min(max(1, maxInFlight), 1 << 30), interactiveBypass: max(0, interactiveBypass),
                pace: rate.map { Pace(perSecond: $0, burst: burst) }, spread: max(.zero, spread), backoff: max(.zero, backoff),
                maximumBackoff: max(.zero, maximumBackoff), isJittered: jitter))
    }

    /// All at once.
    ///
    /// Failures of the network on a path that is there are followed by the job's own backoff.
    public static let immediate = ReleasePolicy(rules: ReleaseRules())

    /// So many a second, the most urgent and oldest first, and never faster.
    ///
    /// Failures of the network on a path that is there are followed by the job's own backoff.
    ///
    /// - Parameters:
    ///   - perSecond: what is below one an hour, or not a number, counts as one an hour.
    ///   - burst: how many may start at once after a pause; at least 1.
    public static func paced(perSecond: Double, burst: Int = 1) -> ReleasePolicy {
        ReleasePolicy(rules: ReleaseRules(pace: Pace(perSecond: perSecond, burst: burst)))
    }

    /// Like ``gated``, and bulk jobs wait for a part of a time that is drawn for each reconnect.
    ///
    /// For many machines that lose the same server at the same time: `window` should be the time that it needs for all of them.
    public static func spread(over window: Duration) -> ReleasePolicy { gated(spread: window) }
}

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
    func delay(afterFailure number: Int, isOverload: Bool = false, _ random: inout SplitMix64) -> Duration {
        let maximumBackoff = isOverload ? max(maximumBackoff, Self.longestPause) : maximumBackoff
        var delay = min(backoff, maximumBackoff)
        var doublings = number - 1
        while doublings > 0, delay > .zero, delay < maximumBackoff {
            delay = delay > maximumBackoff / 2 ? maximumBackoff : delay * 2
            doublings -= 1
        }
        return isJittered ? delay / 2 + (delay / 2).scaled(by: Backoff.random(random.next())) : delay
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
