internal import ReachableRetry

/// An attempt of a request that failed: what a classifier is told of it.
///
/// Free of any HTTP client's types.
public struct HTTPFailure: Sendable {
    /// The request's method, as it was sent.
    public var method: String
    /// Whether the request may be sent twice whatever its method is: it carries an idempotency key, or the caller says so.
    public var isIdempotent: Bool
    /// The response's status; `nil` if there was no response.
    public var status: Int?
    /// Why there was no whole response, as a code of `URLError` whichever client it is; `nil` if there was one, or if the
    /// error is of another kind.
    public var errorCode: Int?
    /// The system's error behind ``errorCode``, an `errno` or one of getaddrinfo(3)'s, which are negative; `nil` if the client does
    /// not tell it.
    ///
    /// Of requests of `URLSession` only a shortage of descriptors or memory is known.
    public var systemError: Int32?
    /// If false, the request was never sent: no connection was made; `nil` if the client cannot tell, as `URLSession` cannot of a
    /// timeout.
    ///
    /// Known by the ``errorCode`` if the host was not found, or refused the connection, and by the words of `URLSession`'s error if
    /// there was no connection for another reason.
    public var wasSent: Bool?
    /// The error; `nil` if there was a response.
    public var error: (any Error)?
    /// When it was noticed, since the beginning of 1970 in UTC.
    public var time: Duration
    private var headers: [String: String]

    /// Makes a failure; names of header fields are compared without regard to case.
    public init(
        method: String, isIdempotent: Bool = false, status: Int? = nil, headers: [String: String] = [:], errorCode: Int? = nil,
        systemError: Int32? = nil, wasSent: Bool? = nil, error: (any Error)? = nil, time: Duration
    ) {
        (self.method, self.isIdempotent, self.status) = (method, isIdempotent, status)
        (self.errorCode, self.systemError, self.error, self.time) = (errorCode, systemError, error, time)
        // Cannot find host, cannot connect to host, name lookup failed: before a connection. A client that tells the system's error
        // calls one of a connection that was there by the same codes.
        let isEarly = systemError == nil && errorCode.map { [-1003, -1004, -1006].contains($0) } == true
        self.wasSent = wasSent ?? (isEarly ? false : nil)
        self.headers = Dictionary(headers.map { ($0.key.lowercased(), $0.value) }) { first, _ in first }
    }

    /// A header field of the response; `nil` if it has none of that name.
    public func header(_ name: String) -> String? { headers[name.lowercased()] }

    /// How long the server wants to be left alone, counted from ``time``; `nil` if it does not say so.
    ///
    /// A date is compared with the response's own `Date`, if there is one: so it does not matter what this machine's clock shows.
    public func retryAfter(maximum: Duration) -> Duration? {
        guard let value = header("Retry-After") else { return nil }
        let written = header("Date").flatMap { HTTPDate.seconds($0, now: time.components.seconds) }
        return RetryAfter.delay(value, now: written.map { .seconds($0) } ?? time, maximum: maximum)
    }
}

extension HTTPFailure {
    /// The statuses of requests that were not carried out: misdirected, too early, too many (RFC 9110, 8470, 6585).
    private static let unprocessedStatuses: Set<Int> = [421, 425, 429]

    /// If true, the request may have been carried out: sent again, it might be carried out twice.
    var mayHaveBeenReceived: Bool {
        status.map { !Self.unprocessedStatuses.contains($0) } ?? (wasSent != false)
    }

    /// The fault as far as the response or the error tells it; the network's part in an error is the bus's to judge.
    var evidence: FailureReport.Evidence {
        if let status { return .classified(fault(ofStatus: status)) }
        if let systemError { return FailureReport(systemError: systemError).evidence }
        switch errorCode {
        // Cannot connect to host.
        case -1004: return .refused
        // Cannot find host, name lookup failed: on Linux also a lookup without any network.
        case -1003, -1006: return .unanswered
        // A silence on a connection that is there may have any reason.
        case -1001: return wasSent == true ? .unclassified : .timedOut
        case -1009: return .unreachable
        // What URLSession calls unknown, if there was no connection: no route, or no answer on the way.
        case -1 where wasSent == false: return .unanswered
        default: return .unclassified
        }
    }

    private func fault(ofStatus status: Int) -> AttemptFailure.Fault {
        switch status {
        case 429, 503: .overload(retryAfter: retryAfter(maximum: HTTPRetryClassifier.longestRetryAfter))
        case 408, 421, 425: .server
        case 400...499: .request
        default: .server
        }
    }
}
