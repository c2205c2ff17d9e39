internal import ReachableRetry

/// Decides which failures of HTTP requests are followed by another attempt, and whose fault they were.
///
/// A value: make one from sets, make one from a function of your own, and ask several in order.
///
/// ```swift
/// let classifier = HTTPRetryClassifier { failure in
///     failure.status == 409 ? .retry(.transient) : .noOpinion
/// }.otherwise(.standard)
/// ```
public struct HTTPRetryClassifier: Sendable {
    /// The methods whose requests may be sent twice, and which are commonly sent again: RFC 9110, section 9.2.2.
    public static let idempotentMethods: Set<String> = ["DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"]
    /// The statuses of what passes: 408, 429, 500, 502, 503 and 504.
    public static let passingStatuses: Set<Int> = [408, 429, 500, 502, 503, 504]
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

    /// Retries what passes, for methods that may be repeated, and heeds `Retry-After` up to a day.
    public static let standard = HTTPRetryClassifier()

    private let ask: @Sendable (HTTPFailure) -> HTTPRetryOpinion

    /// Makes a classifier from a function.
    ///
    /// It is called by the job's task, once a failure, never under a lock.
    public init(_ opinion: @escaping @Sendable (HTTPFailure) -> HTTPRetryOpinion) { ask = opinion }

    /// Makes a classifier from sets: it has an opinion about a failure if the method is listed, or the request is idempotent
    /// otherwise, and if the status or the error's code is listed.
    ///
    /// - Parameters:
    ///   - methods: the methods, which are case-sensitive.
    ///   - statuses: the statuses; these are the server's fault.
    ///   - errorCodes: the codes of `URLError`; whose fault such an error is, ``HTTPFailure/systemError`` says if it is known.
    ///   - maximumRetryAfter: for how long a server's `Retry-After` is heeded at most.
    public init(
        methods: Set<String> = idempotentMethods, statuses: Set<Int> = passingStatuses,
        errorCodes: Set<Int> = passingErrorCodes.union([unknownErrorCode]), maximumRetryAfter: Duration = .seconds(86_400)
    ) {
        ask = { failure in
            guard failure.isIdempotent || methods.contains(failure.method) else { return .noOpinion }
            if let status = failure.status, statuses.contains(status) {
                return .retry(.server(retryAfter: failure.retryAfter(maximum: maximumRetryAfter)))
            }
            if let code = failure.errorCode, errorCodes.contains(code) {
                return failure.systemError.map { .retryAsSystemError($0) } ?? Self.opinion(onErrorCode: code)
            }
            return .noOpinion
        }
    }

    /// Asks this classifier, and another one if it has no opinion.
    public func otherwise(_ next: HTTPRetryClassifier) -> HTTPRetryClassifier {
        HTTPRetryClassifier { failure in
            let opinion = opinion(on: failure)
            return opinion == .noOpinion ? next.opinion(on: failure) : opinion
        }
    }

    /// What it makes of a failure.
    public func opinion(on failure: HTTPFailure) -> HTTPRetryOpinion { ask(failure) }

    /// Whose fault an error of a connection is.
    ///
    /// Left open as far as the network decides about it. What is called the server's is never overruled by the bus; but a refused
    /// connection and a name that is not found are the network's if it went away or changed meanwhile, and the bus knows that only
    /// when the attempt has ended. As errors of the system, and as passing ones, it judges them in the light of that.
    private static func opinion(onErrorCode code: Int) -> HTTPRetryOpinion {
        switch code {
        case -1004: .retryAsSystemError(111)  // ECONNREFUSED
        case -1003, -1006: .retryAsSystemError(-3)  // EAI_AGAIN; on Linux also a lookup without any network
        case -1001: .retryAsSystemError(110)  // ETIMEDOUT
        case -1009: .retryAsSystemError(101)  // ENETUNREACH
        default: .retry(.transient)
        }
    }
}
