/// The rate at which a bus starts jobs after a reconnect.
///
/// Applies to jobs that wait for the network (``RetryPolicy/Connectivity/wait(upTo:)``), separately for each scope and
/// destination. On a healthy network only ``paced(perSecond:burst:)`` delays jobs.
public struct ReleasePolicy: Hashable, Sendable {
    package var rules: ReleaseRules

    /// One job tries first; after its success the others follow in growing numbers.
    ///
    /// After each reconnect the first job, the canary, is the most urgent and oldest one. If it fails, another job tries after a
    /// shared delay, so a network that is up but carries no traffic yet costs a few attempts in all. After a success two attempts
    /// run at a time, then four, and so on. The limit ends when no job waits. An attempt that has run for 5 s makes room for others
    /// and proves nothing. A network failure starts over.
    ///
    /// Many jobs that something else held start in the same way: those that a condition or ``RetryBus/resume(_:)`` lets go, and
    /// those of a durable queue that is resumed or has filled up before its worker starts. None of them tries first if an attempt
    /// was answered since the last reconnect.
    ///
    /// A delay ordered by a server (``AttemptFailure/Fault/overload(retryAfter:)``) applies to all jobs with that destination. If a
    /// server fails several jobs in a row, one job tries for all, at intervals that grow to 1 min. Jobs without a destination may
    /// use different servers, so their server failures are not counted together.
    ///
    /// A path that was lost and found more than five times within 30 s has to last for 3 s before jobs other than interactive ones
    /// try it. The monitor counts, so this also applies to the first job of a new bus.
    ///
    /// While jobs wait, at most 16 attempts run at a time, and two interactive ones besides. The delay after the first network
    /// failure is up to 0.5 s, doubled after each further one, at most 5 s, of which up to half is taken off at random.
    public static let gated = tuned()

    /// Like ``gated``, with other limits.
    ///
    /// - Parameters:
    ///   - maxInFlight: The most attempts that run at a time while others wait; at least 1.
    ///   - spread: The longest delay of bulk jobs, as in ``spread(over:)``.
    public static func gated(maxInFlight: Int, spread: Duration = .zero) -> ReleasePolicy {
        tuned(maxInFlight: maxInFlight, spread: spread)
    }

    /// Like ``gated``, for tests that expect exact times: the delays after failures are not shortened at random.
    public static let exact = tuned(jitter: false)

    /// Like ``gated``, with each limit.
    ///
    /// - Parameters:
    ///   - maxInFlight: The most attempts that run at a time while others wait; at least 1.
    ///   - interactiveBypass: The number of interactive jobs that may run besides; at least 0.
    ///   - rate: The most starts per second of jobs other than interactive ones, while jobs wait; `nil` sets no limit. Clamped to
    ///     at least one per hour; NaN is treated as that minimum.
    ///   - burst: The number of them that may start at once; at least 1.
    ///   - spread: The longest delay of bulk jobs. Each reconnect draws a random part of it, so that a fleet does not return at
    ///     once.
    ///   - backoff: The delay after the first failure, doubled after each further one. Jitter takes off up to half.
    ///   - maximumBackoff: The longest delay.
    ///   - jitter: `false` for exact delays after failures; `spread` is random in either case.
    package static func tuned(
        maxInFlight: Int = 16, interactiveBypass: Int = 2, rate: Double? = nil, burst: Int = 1, spread: Duration = .zero,
        backoff: Duration = .milliseconds(500), maximumBackoff: Duration = .seconds(5), jitter: Bool = true
    ) -> ReleasePolicy {
        ReleasePolicy(
            rules: ReleaseRules(
                hasCanaries: true, maxInFlight: min(max(1, maxInFlight), 1 << 30), interactiveBypass: max(0, interactiveBypass),
                pace: rate.map { Pace(perSecond: $0, burst: burst) }, spread: max(.zero, spread), backoff: max(.zero, backoff),
                maximumBackoff: max(.zero, maximumBackoff), isJittered: jitter))
    }

    /// All jobs start at once.
    ///
    /// After network failures on a satisfied path each job uses its own backoff.
    public static let immediate = ReleasePolicy(rules: ReleaseRules())

    /// Jobs start at a fixed rate, the most urgent and oldest first.
    ///
    /// After network failures on a satisfied path each job uses its own backoff.
    ///
    /// - Parameters:
    ///   - perSecond: The most starts per second. Clamped to at least one per hour; NaN is treated as that minimum.
    ///   - burst: The number of jobs that may start at once after a pause; at least 1.
    public static func paced(perSecond: Double, burst: Int = 1) -> ReleasePolicy {
        ReleasePolicy(rules: ReleaseRules(pace: Pace(perSecond: perSecond, burst: burst)))
    }

    /// Like ``gated``, with a random delay of bulk jobs, drawn for each reconnect.
    ///
    /// For a fleet of machines that lose the same server at the same time. Set `window` to the time that the server needs for all
    /// of them.
    public static func spread(over window: Duration) -> ReleasePolicy { tuned(spread: window) }
}

/// The rules of a release policy, as gates use them.
package struct ReleaseRules: Hashable, Sendable {
    /// The time after which an attempt makes room for others: an upload may take hours.
    static let longRun = Duration.seconds(5)
    /// One start in this many goes to a bulk job, even while normal jobs wait.
    static let bulkShare = 8
    /// The longest pause while a server fails every job: a thousand machines that retry every 5 s would keep it down.
    static let longestPause = Duration.seconds(60)
    /// The number of jobs that a server fails in a row before it counts as overloaded.
    static let mostFailed = 4
    /// The least delay after a network failure on a satisfied path: such failures are not charged, and a policy without delays
    /// would spin.
    static let leastDelay = Duration.milliseconds(500)
    /// The least delay after a shortage on this machine.
    static let leastDelayAfterShortage = Duration.seconds(1)
    /// The first window after a canary's success.
    static let firstWindow = 2
    /// With more machines than this a window grows by one at a time.
    static let crowd = 20
    /// The times over which a fleet's first canaries after an edge and those after a failure spread, for each other machine.
    static let firstSpread = FleetSpread(each: .milliseconds(5), longest: .seconds(5))
    static let nextSpread = FleetSpread(each: .milliseconds(60), longest: .seconds(60))

    /// True if one job tries before the others after an edge, and network failures delay all of them.
    package var hasCanaries = false
    package var maxInFlight = Int.max
    /// The number of machines that regain the same servers at an edge, this one included.
    package var fleetSize = 1
    package var interactiveBypass = 0
    /// The rate of starts; with canaries only while jobs wait.
    package var pace: Pace?
    package var spread = Duration.zero
    package var backoff = Duration.milliseconds(500)
    package var maximumBackoff = Duration.seconds(5)
    /// True if a random part of up to half is taken off each delay.
    package var isJittered = true

    /// True if the rules use random numbers.
    var isRandom: Bool { hasCanaries && (isJittered || spread > .zero) }

    /// Returns the delay after a number of failures in a row.
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

/// The time over which machines that regain a server together spread their canaries.
struct FleetSpread {
    /// The time for each machine but one, and the longest in all.
    let each, longest: Duration

    /// Returns a random time for one of a number of machines; zero, without a random number, for a machine alone.
    func draw(_ machines: Int, _ random: inout SplitMix64) -> Duration {
        guard machines > 1 else { return .zero }
        // The longest time is reached long before the limit of the product.
        return min(longest, each * min(machines - 1, 1_000_000)).scaled(by: Backoff.random(random.next()))
    }
}

/// A rate with a burst: the generic cell rate algorithm (ITU-T I.371).
package struct Pace: Hashable, Sendable {
    /// The time between two starts in the long run.
    let interval: Duration
    /// The most that starts may be ahead of the rate.
    let tolerance: Duration

    init(perSecond: Double, burst: Int) {
        // At least one per hour, so that every job starts; at most one per nanosecond.
        let rate = perSecond >= 1 / 3600 ? min(perSecond, 1e9) : 1 / 3600
        interval = .nanoseconds(max(1, Int64((1e9 / rate).rounded())))
        tolerance = interval * min(max(1, burst) - 1, 1_000_000)
    }
}

/// The limit of running attempts after a shortage on this machine; it grows by one each second.
struct Shortage: Hashable, Sendable {
    let firstLimit: Int
    let since: BusTime

    func limit(at now: BusTime) -> Int {
        let seconds = max(0, (now - since).components.seconds)
        return firstLimit + Int(min(seconds, Int64(Int32.max)))
    }

    /// The time at which more than this many attempts may run.
    func time(of running: Int) -> BusTime { since + .seconds(max(0, running - firstLimit + 1)) }
}
