public import ReachableRetry

/// The rule that decides which failures of HTTP requests are followed by another attempt.
///
/// Create one from sets or from a function, and chain several:
///
/// ```swift
/// let classifier = HTTPRetryClassifier { failure in
///     failure.status == 409 ? .retryAs(.server) : .undecided
/// }.otherwise(.standard)
/// ```
public struct HTTPRetryClassifier: Sendable {
    /// The methods whose requests may be sent twice and are commonly repeated (RFC 9110, section 9.2.2).
    public static let idempotentMethods: Set<String> = ["DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"]
    /// The statuses of transient failures: 408, 421, 425, 429, 500, 502, 503 and 504.
    public static let passingStatuses: Set<Int> = [408, 421, 425, 429, 500, 502, 503, 504]
    /// The codes of `URLError` of transient failures, on all systems.
    ///
    /// In their order: timed out, cannot find host, cannot connect to host, connection lost, name lookup failed, not connected, bad
    /// response of the server; roaming off, a call is active, data not allowed; secure connection failed, a certificate has expired
    /// or is not valid yet, cannot load from the network; decoding a download failed midway or at its end; the two codes of
    /// background sessions.
    public static let passingErrorCodes: Set<Int> = [
        -1001, -1003, -1004, -1005, -1006, -1009, -1011, -1018, -1019, -1020, -1200, -1201, -1204, -2000, -3006, -3007, -996, -997,
    ]
    /// The code of `URLError` for unknown errors: on Linux a lost route, or a connection that ends in the middle of a body.
    ///
    /// Other systems report codes of ``passingErrorCodes`` for these.
    public static let unknownErrorCode = -1
    /// The longest `Retry-After` that a classifier obeys by default: one day.
    public static let longestRetryAfter = Duration.seconds(86_400)

    /// The default: retries transient failures of requests that may be repeated, and obeys `Retry-After` up to one day.
    ///
    /// | Status | Repeated | With `Retry-After` |
    /// |---|---|---|
    /// | 429 | any method | an overload: all jobs to the destination wait |
    /// | 421, 425 | any method | the job waits |
    /// | 503 | if it may be received twice | an overload |
    /// | 403 | with `Retry-After`, if it may be received twice | an overload |
    /// | 408, 500, 502, 504 | if it may be received twice | the job waits |
    /// | others | no | ignored |
    public static let standard = HTTPRetryClassifier()

    /// A decision, and the longest `Retry-After` to obey with it.
    private typealias Verdict = (decision: HTTPRetryDecision, maximum: Duration)

    private let verdict: @Sendable (HTTPFailure) -> Verdict

    /// Creates a classifier from a function.
    ///
    /// The job's task calls the function once for each failure, never under a lock.
    public init(_ decide: @escaping @Sendable (HTTPFailure) -> HTTPRetryDecision) {
        verdict = { (decide($0), Self.longestRetryAfter) }
    }

    private init(verdict: @escaping @Sendable (HTTPFailure) -> Verdict) { self.verdict = verdict }

    /// Creates a classifier from sets; it leaves other statuses and error codes undecided.
    ///
    /// A request that was never sent, or that the server did not carry out (421, 425, 429), is repeated whatever its method is.
    /// A request that may have been received is repeated only if its method is listed or if it is idempotent otherwise. A 403 with
    /// `Retry-After` is treated as a 429.
    ///
    /// - Parameters:
    ///   - methods: The methods of requests that may be received twice; case-sensitive.
    ///   - statuses: The statuses of transient failures.
    ///   - errorCodes: The codes of `URLError` of transient failures.
    ///   - maximumRetryAfter: The longest `Retry-After` to obey.
    public init(
        methods: Set<String> = idempotentMethods, statuses: Set<Int> = passingStatuses,
        errorCodes: Set<Int> = passingErrorCodes.union([unknownErrorCode]), maximumRetryAfter: Duration = longestRetryAfter
    ) {
        @Sendable func decide(_ failure: HTTPFailure) -> HTTPRetryDecision {
            let isListed =
                failure.effectiveStatus.map(statuses.contains) ?? failure.errorCode.map(errorCodes.contains) ?? false
            guard isListed else { return .undecided }
            let isSafe = failure.isIdempotent || methods.contains(failure.method) || !failure.mayHaveBeenReceived
            guard isSafe else { return .undecided }
            guard case .classified(.overload(_)) = failure.evidence else { return .retry }
            let delay = failure.retryAfter(maximum: maximumRetryAfter)
            return .retryAs(.overload(retryAfter: delay))
        }
        verdict = { (decide($0), maximumRetryAfter) }
    }

    /// Returns a classifier that consults another one where this one is undecided.
    public func otherwise(_ next: HTTPRetryClassifier) -> HTTPRetryClassifier {
        HTTPRetryClassifier(verdict: { failure in
            let own = verdict(failure)
            return own.decision == .undecided ? next.verdict(failure) : own
        })
    }

    /// Decides about a failure.
    public func decision(for failure: HTTPFailure) -> HTTPRetryDecision { verdict(failure).decision }

    /// Returns the evidence of a failure with the decision about it.
    func report(on failure: HTTPFailure) -> FailureReport {
        let (decision, maximum) = verdict(failure)
        return switch decision {
        // A request that may be repeated is not to blame.
        case .retry:
            FailureReport(
                failure.evidence == .classified(.request) ? .classified(.server) : failure.evidence,
                retryAfter: failure.retryAfter(maximum: maximum))
        case .retryAs(let fault): FailureReport(.classified(fault))
        case .retryAsSystemError(let number): FailureReport(systemError: number)
        case .doNotRetry, .undecided: FailureReport(failure.evidence, mayRetry: false)
        }
    }
}

/// The decision of a classifier about a failure.
public enum HTTPRetryDecision: Hashable, Sendable {
    /// Another attempt may succeed.
    ///
    /// The response or the error shows the fault; for an error the bus also considers the state of the network.
    case retry
    /// Another attempt may succeed, and this is the fault, as with `RetryPolicy.classify(_:)`.
    ///
    /// `server`, `overload` and `request` mean that the server answered; a loss of the network does not overrule them.
    case retryAs(AttemptFailure.Fault)
    /// Another attempt may succeed, and the bus classifies the failure like this error of the system: an `errno`, or a negative
    /// number of getaddrinfo(3).
    ///
    /// See `RetryPolicy.errno(for:)`: a refused connection is the server's fault, unless the network was lost meanwhile.
    case retryAsSystemError(Int32)
    /// Another attempt would fail too, or must not be made.
    case doNotRetry
    /// The next classifier decides; without one there is no further attempt.
    case undecided
}
