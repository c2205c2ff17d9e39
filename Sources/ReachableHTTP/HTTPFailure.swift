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
    /// not tell it, as `URLSession` never does.
    public var systemError: Int32?
    /// The error; `nil` if there was a response.
    public var error: (any Error)?
    /// When it was noticed, since the beginning of 1970 in UTC.
    public var time: Duration
    private var headers: [String: String]

    /// Makes a failure; names of header fields are compared without regard to case.
    public init(
        method: String, isIdempotent: Bool = false, status: Int? = nil, headers: [String: String] = [:], errorCode: Int? = nil,
        systemError: Int32? = nil, error: (any Error)? = nil, time: Duration
    ) {
        (self.method, self.isIdempotent, self.status) = (method, isIdempotent, status)
        (self.errorCode, self.systemError, self.error, self.time) = (errorCode, systemError, error, time)
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
