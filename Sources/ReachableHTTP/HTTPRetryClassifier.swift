internal import ReachableRetry

/// Decides which failures of HTTP requests are followed by another attempt.
///
/// A value: make one from sets, make one from a function of your own, and ask several in order.
///
/// ```swift
/// let classifier = HTTPRetryClassifier { failure in
///     failure.status == 409 ? .retryAs(.server) : .noOpinion
/// }.otherwise(.standard)
/// ```
public struct HTTPRetryClassifier: Sendable {
    /// The methods whose requests may be sent twice, and which are commonly sent again: RFC 9110, section 9.2.2.
    public static let idempotentMethods: Set<String> = ["DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"]
    /// The statuses of what passes: 408, 421, 425, 429, 500, 502, 503 and 504.
    public static let passingStatuses: Set<Int> = [408, 421, 425, 429, 500, 502, 503, 504]
    /// The codes of `URLError` of what passes, on all systems.
    ///
    /// In their order: timed out, cannot find host, cannot connect to host, connection lost, name lookup failed, not connected, bad
    /// response of the server; roaming off, a call is active, data not allowed; secure connection failed, a certificate's date is
    /// bad or yet to come, cannot load from the network; a download's decoding failed in its midst or at its end; and the two of
    /// background sessions.
    public static let passingErrorCodes: Set<Int> = [
        -1001, -1003, -1004, -1005, -1006, -1009, -1011, -1018, -1019, -1020, -1200, -1201, -1204, -2000, -3006, -3007, -996, -997,
    ]
    /// What `URLSession` calls unknown on Linux: a lost route as well as a connection that ends in the midst of a body.
    ///
    /// Known elsewhere by codes that are among ``passingErrorCodes``.
    public static let unknownErrorCode = -1

    /// Retries what passes, unless it may have been carried out and must not be twice, and heeds `Retry-After` up to a day.
    public static let standard = HTTPRetryClassifier()

    private let ask: @Sendable (HTTPFailure) -> HTTPRetryDecision

    /// Makes a classifier from a function.
    ///
    /// It is called by the job's task, once a failure, never under a lock.
    public init(_ opinion: @escaping @Sendable (HTTPFailure) -> HTTPRetryDecision) { ask = opinion }

    /// Makes a classifier from sets: it has an opinion about a failure if the status or the error's code is listed.
    ///
    /// A request that was never sent, or that the server did not carry out (421, 425, 429), is repeated whatever its method is; one
    /// that may have been received only if the method is listed, or if it is idempotent otherwise.
    ///
    /// - Parameters:
    ///   - methods: the methods of requests that may be received twice; they are case-sensitive.
    ///   - statuses: the statuses that pass.
    ///   - errorCodes: the codes of `URLError` that pass.
    ///   - maximumRetryAfter: the longest `Retry-After` of a server that is heeded.
    public init(
        methods: Set<String> = idempotentMethods, statuses: Set<Int> = passingStatuses,
        errorCodes: Set<Int> = passingErrorCodes.union([unknownErrorCode]), maximumRetryAfter: Duration = longestRetryAfter
    ) {
        ask = { failure in
            let isListed =
                failure.status.map(statuses.contains) ?? failure.errorCode.map(errorCodes.contains) ?? false
            guard isListed else { return .noOpinion }
            let isSafe = failure.isIdempotent || methods.contains(failure.method) || !failure.mayHaveBeenReceived
            guard isSafe else { return .noOpinion }
            guard case .classified(.overload(_)) = failure.evidence else { return .retry }
            let delay = failure.retryAfter(maximum: maximumRetryAfter)
            return .retryAs(.overload(retryAfter: delay))
        }
    }

    /// The longest `Retry-After` that is heeded unless a classifier says otherwise: a day.
    public static let longestRetryAfter = Duration.seconds(86_400)

    /// Asks this classifier, and another one if it has no opinion.
    public func otherwise(_ next: HTTPRetryClassifier) -> HTTPRetryClassifier {
        HTTPRetryClassifier { failure in
            let opinion = opinion(on: failure)
            return opinion == .noOpinion ? next.opinion(on: failure) : opinion
        }
    }

    /// What it makes of a failure.
    public func opinion(on failure: HTTPFailure) -> HTTPRetryDecision { ask(failure) }
}
