internal import ReachableRetry

/// A failed attempt of a request, as an ``HTTPRetryClassifier`` sees it.
///
/// Free of any HTTP client's types.
public struct HTTPFailure: Sendable {
    /// The method of the request that was sent.
    public var method: String
    /// `true` if the request may be sent twice whatever its method is: it carries an idempotency key, or the caller says so.
    public var isIdempotent: Bool
    /// The response's status; `nil` without a response.
    public var status: Int?
    /// The code of `URLError` for the connection's error, whichever client reported it; `nil` if there was a response, or if the
    /// error is of another kind.
    public var errorCode: Int?
    /// The system's error behind ``errorCode``: an `errno`, or a negative number of getaddrinfo(3); `nil` if the client does not
    /// report it.
    ///
    /// Requests of `URLSession` report only a shortage of descriptors or memory.
    public var systemError: Int32?
    /// `false` if the request was never sent because there was no connection; `nil` if the client cannot tell, such as `URLSession`
    /// after a timeout.
    ///
    /// Derived from ``errorCode`` if the host was not found or refused the connection, and from the text of `URLSession`'s error if
    /// there was no connection for another reason.
    public var wasSent: Bool?
    /// The error; `nil` if there was a response.
    public var error: (any Error)?
    /// The time of the failure since the beginning of 1970 in UTC.
    public var time: Duration
    private var headers: [String: String]

    /// Creates a failure; the names of headers are case-insensitive.
    public init(
        method: String, isIdempotent: Bool = false, status: Int? = nil, headers: [String: String] = [:], errorCode: Int? = nil,
        systemError: Int32? = nil, wasSent: Bool? = nil, error: (any Error)? = nil, time: Duration
    ) {
        (self.method, self.isIdempotent, self.status) = (method, isIdempotent, status)
        (self.errorCode, self.systemError, self.error, self.time) = (errorCode, systemError, error, time)
        // Cannot find host, cannot connect to host, name lookup failed: before a connection. A client that reports the system's
        // error uses the same codes for errors of an open connection.
        let isEarly = systemError == nil && errorCode.map { [-1003, -1004, -1006].contains($0) } == true
        self.wasSent = wasSent ?? (isEarly ? false : nil)
        self.headers = Dictionary(headers.map { ($0.key.lowercased(), $0.value) }) { first, _ in first }
    }

    /// Returns a header of the response, or `nil` if it has none of that name.
    public func header(_ name: String) -> String? { headers[name.lowercased()] }

    /// Returns the delay that the server orders, counted from ``time``, or `nil` if it orders none.
    ///
    /// A date is compared with the response's `Date`, if there is one, so that this machine's clock may be wrong.
    ///
    /// - Parameter maximum: The longest delay to return.
    public func retryAfter(maximum: Duration) -> Duration? {
        guard let value = header("Retry-After") else { return nil }
        let written = header("Date").flatMap { HTTPDate.seconds($0, now: time.components.seconds) }
        return RetryAfter.delay(value, now: written.map { .seconds($0) } ?? time, maximum: maximum)
    }
}

extension HTTPFailure {
    /// The statuses of requests that were not carried out: misdirected, too early, too many (RFC 9110, 8470, 6585).
    private static let unprocessedStatuses: Set<Int> = [421, 425, 429]

    /// `true` if the request may have been carried out, so that a repetition might carry it out twice.
    var mayHaveBeenReceived: Bool {
        status.map { !Self.unprocessedStatuses.contains($0) } ?? (wasSent != false)
    }

    /// The status; 429 for a 403 that orders a delay, as public APIs answer too many requests.
    var effectiveStatus: Int? { status == 403 && retryAfter(maximum: .seconds(1)) != nil ? 429 : status }

    /// The fault as far as the response or the error shows it; the bus adds the state of the network.
    var evidence: FailureReport.Evidence {
        if let status = effectiveStatus { return .classified(fault(ofStatus: status)) }
        if let systemError { return FailureReport(systemError: systemError).evidence }
        switch errorCode {
        // Cannot connect to host.
        case -1004: return .refused
        // Cannot find host, name lookup failed: on Linux also a lookup without any network.
        case -1003, -1006: return .unanswered
        // Silence on an open connection may have any reason.
        case -1001: return wasSent == true ? .unclassified : .timedOut
        case -1009: return .unreachable
        // URLSession's "unknown" without a connection: no route, or no answer on the way.
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

/// A client's error of a connection in the terms of ``HTTPFailure``.
///
/// Each client has error types of its own; one translation lets one classifier serve all of them.
package struct ConnectionFault: Hashable, Sendable {
    /// The code of `URLError`; `nil` if it is no error of a connection.
    package var errorCode: Int?
    /// The system's error, as in ``HTTPFailure/systemError``.
    package var systemError: Int32?
    /// `false` if the request was never sent, as in ``HTTPFailure/wasSent``.
    package var wasSent: Bool?

    package init(_ errorCode: Int?, systemError: Int32? = nil, wasSent: Bool? = nil) {
        (self.errorCode, self.systemError, self.wasSent) = (errorCode, systemError, wasSent)
    }

    /// Creates a fault from an `errno` that a client reports.
    ///
    /// - Parameters:
    ///   - systemError: The `errno`.
    ///   - isConnecting: `true` if the system reported it before there was a connection.
    package init(systemError: Int32, isConnecting: Bool = false) {
        self.systemError = systemError
        // The system reports these only before there is a connection: ENFILE, EMFILE, EADDRNOTAVAIL, ECONNREFUSED.
        wasSent = isConnecting || [23, 24, 99, 111].contains(systemError) ? false : nil
        errorCode =
            switch systemError {
            case 100, 101: -1009  // ENETDOWN, ENETUNREACH
            case 99, 111, 112, 113: -1004  // EADDRNOTAVAIL, ECONNREFUSED, EHOSTDOWN, EHOSTUNREACH
            case 110: -1001  // ETIMEDOUT
            case 32, 102, 103, 104, 107, 108: -1005  // EPIPE, ENETRESET, ECONNABORTED, ECONNRESET, ENOTCONN, ESHUTDOWN
            default: -1
            }
    }

    /// Creates one fault from those of the attempts to connect to each of a host's addresses; `nil` if there are none.
    ///
    /// A refusal comes first, then any other answer or silence, and last the lack of a route to a family.
    package init?(anyOf faults: [ConnectionFault]) {
        let noRoute: [Int32?] = [100, 101]
        guard
            let fault = faults.first(where: { $0.systemError == 111 })
                ?? faults.first(where: { !noRoute.contains($0.systemError) }) ?? faults.first
        else { return nil }
        self = fault
        wasSent = false
    }
}
