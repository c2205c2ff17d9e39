import ArgumentParser
import ReachableRetry

/// The options of the retry policy.
struct RetryOptions: ParsableArguments {
    /// The names of jitters.
    enum JitterName: String, CaseIterable, ExpressibleByArgument {
        case none
        case full
        case equal
        case decorrelated

        var jitter: Jitter {
            switch self {
            case .none: .none
            case .full: .full
            case .equal: .equal
            case .decorrelated: .decorrelated
            }
        }
    }

    /// The names of the behaviours while offline.
    enum ConnectivityName: String, CaseIterable, ExpressibleByArgument {
        case wait
        case accelerate
        case ignore

        var connectivity: RetryPolicy.Connectivity {
            switch self {
            case .wait: .wait(upTo: nil)
            case .accelerate: .accelerate
            case .ignore: .ignore
            }
        }
    }

    @Option(help: ArgumentHelp("Give up after this many attempts; those that an outage broke off do not count.", valueName: "n"))
    var attempts: Int?

    @Option(
        help: ArgumentHelp(
            "The delays between attempts: immediate, constant:2s, linear:1s+1s, exponential:500ms..30s or fibonacci:1s..60s.",
            valueName: "curve"),
        transform: { try BackoffArgument($0) })
    var backoff: BackoffArgument?

    @Option(help: ArgumentHelp("The jitter of these delays.", valueName: "kind"))
    var jitter = JitterName.full

    @Option(
        help: ArgumentHelp("Give up after this time, such as 2s, 5m or 1h; waiting and suspension count.", valueName: "duration"),
        transform: { try DurationArgument($0) })
    var deadline: DurationArgument?

    @Option(
        help: ArgumentHelp(
            "End an attempt that takes longer than this, with all its processes; it counts as failed, and the last one makes 124.",
            valueName: "duration"),
        transform: { try DurationArgument($0) })
    var attemptTimeout: DurationArgument?

    @Option(
        help: ArgumentHelp(
            "While offline: wait for the network; accelerate (start attempts, and one at once on a reconnect); or ignore it.",
            valueName: "rule"))
    var connectivity = ConnectivityName.wait

    @Option(
        help: ArgumentHelp("Exit codes after which there is no further attempt, such as 2,64,70-79.", valueName: "codes"),
        transform: { try ExitCodesArgument($0) })
    var giveUpOn: ExitCodesArgument?

    func validate() throws {
        if let attempts, attempts < 1 { throw ValidationError("--attempts takes a number of at least 1.") }
        if attemptTimeout?.duration == .zero { throw ValidationError("--attempt-timeout takes a time above zero, such as 30s.") }
    }

    /// The policy.
    ///
    /// By default it never gives up: only the user knows when the command has failed for good.
    var policy: RetryPolicy {
        let curve = backoff?.backoff ?? .exponential(initial: .milliseconds(500), maximum: .seconds(30))
        return RetryPolicy(curve.jitter(jitter.jitter))
            .giveUpAfter(maxAttempts: attempts)
            .giveUpAfter(elapsed: deadline?.duration)
            .attemptTimeout(attemptTimeout?.duration)
            .connectivity(connectivity.connectivity)
            .giveUpOnErrors { [giveUpOn] error in
                guard let failure = error as? ChildFailure else { return false }
                return failure.isFinal || !failure.isPassing && giveUpOn?.contains(failure.code) == true
            }
            .classify { ($0 as? ChildFailure)?.isPassing == true ? .local : nil }
    }
}
