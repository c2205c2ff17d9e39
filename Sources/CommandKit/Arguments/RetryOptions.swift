package import ArgumentParser
package import ReachableRetry

/// The options that make a retry policy.
package struct RetryOptions: ParsableArguments {
    /// The jitters by name.
    package enum JitterName: String, CaseIterable, ExpressibleByArgument {
        case none
        case full
        case equal
        case decorrelated

        package var jitter: Jitter {
            switch self {
            case .none: .none
            case .full: .full
            case .equal: .equal
            case .decorrelated: .decorrelated
            }
        }
    }

    /// The behaviours while offline by name.
    package enum ConnectivityName: String, CaseIterable, ExpressibleByArgument {
        case wait
        case accelerate
        case ignore

        package var connectivity: RetryPolicy.Connectivity {
            switch self {
            case .wait: .wait(upTo: nil)
            case .accelerate: .accelerate
            case .ignore: .ignore
            }
        }
    }

    @Option(help: ArgumentHelp("Give up after this many attempts; attempts broken off by an outage do not count.", valueName: "n"))
    package var attempts: Int?

    @Option(
        help: ArgumentHelp(
            "The delays between attempts: immediate, constant:2s, linear:1s+1s, exponential:500ms..30s or fibonacci:1s..60s.",
            valueName: "curve"),
        completion: .list(
            LiveCompletion.quoted(["immediate", "constant:2s", "linear:1s+1s", "exponential:500ms..30s", "fibonacci:1s..60s"])),
        transform: { try BackoffArgument($0) })
    package var backoff: BackoffArgument?

    @Option(help: ArgumentHelp("The jitter of these delays.", valueName: "kind"))
    package var jitter = JitterName.full

    @Option(
        help: ArgumentHelp("Give up after this time, such as 2s, 5m or 1h; includes waiting and suspend.", valueName: "duration"),
        transform: { try DurationArgument($0) })
    package var deadline: DurationArgument?

    @Option(
        help: ArgumentHelp(
            "End an attempt and all its processes after this time; it counts as failed. Exit code 124 if it was the last attempt.",
            valueName: "duration"),
        transform: { try DurationArgument($0) })
    package var attemptTimeout: DurationArgument?

    @Option(
        help: ArgumentHelp(
            "While offline: wait for the network; accelerate (keep trying, and retry at once on a reconnect); or ignore it.",
            valueName: "rule"))
    package var connectivity = ConnectivityName.wait

    @Option(
        help: ArgumentHelp("Exit codes that end the retries, such as 2,64,70-79.", valueName: "codes"),
        transform: { try ExitCodesArgument($0) })
    package var giveUpOn: ExitCodesArgument?

    package func validate() throws {
        if let attempts, attempts < 1 { throw ValidationError("--attempts is below 1; next: use 1 or more") }
        if attemptTimeout?.duration == .zero {
            throw ValidationError("--attempt-timeout is zero; next: use a longer time, such as 30s")
        }
    }

    /// The retry policy.
    ///
    /// Without limits it never gives up: only the user knows which failures are final.
    package var policy: RetryPolicy {
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

    /// The words of the command line that make these options, with defaults left out.
    package var words: [String] {
        var words: [String] = []
        func add(_ name: String, _ value: String?) { if let value { words += [name, value] } }
        add("--attempts", attempts.map { "\($0)" })
        add("--backoff", backoff?.text)
        add("--jitter", jitter == .full ? nil : jitter.rawValue)
        add("--deadline", deadline?.text)
        add("--attempt-timeout", attemptTimeout?.text)
        add("--connectivity", connectivity == .wait ? nil : connectivity.rawValue)
        add("--give-up-on", giveUpOn?.text)
        return words
    }

    /// Creates it, for the parser.
    package init() {}
}
