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
