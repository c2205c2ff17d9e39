#if AsyncHTTPClient
public import AsyncHTTPClient
public import Foundation
public import NIOCore
public import ReachableRetry

/// How requests of `HTTPClient` are repeated, besides what a `RetryPolicy` says.
public typealias HTTPClientRetryOptions = HTTPRequestRetryOptions<HTTPClientRequest>

/// Requests that wait for the network and are repeated until they succeed, as those of `URLSession` are.
///
/// No attempt starts while the network is away, attempts that an outage broke off are not charged, and the next one starts the
/// moment the network is back. Jobs to the same host and port share a gate, and what a server says about when to come back.
///
/// Times are the policy's: `RetryPolicy.attemptTimeout(_:)` limits an attempt, `giveUpAfter(elapsed:)` the whole, waiting included.
/// An attempt lasts until the body of its response has arrived. Without a timeout of the policy's it ends when the server is silent
/// for the client's `timeout.read`, which nobody sets but ``AsyncHTTPClient/HTTPClient/Configuration/leavingRetriesToBus()``; an
/// upload that gets no further has no other limit than the policy's.
/// An attempt is cancelled when this machine has lost the source address of the path for 5 s, unless the policy has another rule
/// (`RetryPolicy.interruptsAttempt(_:)`).
///
/// Cancelling the calling task cancels the request. Do not shut down a client while its jobs are pending: they fail.
extension HTTPClient {
    /// Makes a request, and again until it succeeds; its response is in memory.
    ///
    /// Each attempt sends the request's body. Those of bytes and of collections can be sent any number of times; one that streams
    /// can if its sequence can be iterated again, which an `AsyncStream` cannot. For others see
    /// ``AsyncHTTPClient/HTTPClient/upload(_:retrying:on:options:upTo:body:)``.
    ///
    /// - Parameters:
    ///   - request: what is sent, over `http` or `https`. What is not idempotent by its method is sent once; see
    ///     ``HTTPRequestRetryOptions/idempotency``.
    ///   - policy: when to try again, and when to give up.
    ///   - bus: where it waits for the network and for its turn.
    ///   - options: what becomes of statuses, what is sent, and what has to be reached.
    ///   - maxBytes: the longest body of a response that is taken. That of an error status is cut off there.
    /// - Returns: The response, whose body is in memory. It may be read once, as with any response of `HTTPClient`.
    /// - Throws: The client's error of the last attempt; ``HTTPClientStatusError`` if error statuses are thrown; `RetryError` and
    ///   `CancellationError` as `RetryBus.retry` does; `NIOTooManyBytesError` at once if the response is longer, and
    ///   `HTTPClientError.unsupportedScheme` if the URL is not HTTP's.
    public func execute(
        _ request: HTTPClientRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init(), upTo maxBytes: Int = 1 << 24
    ) async throws -> HTTPClientResponse {
        try await run(request, policy, options, on: bus, exchange: loading(upTo: maxBytes))
    }

    /// Uploads bytes, and tries again until that succeeds; each attempt sends all of them.
    ///
    /// They are handed over in small parts, so that the client's times count from when they have really been sent. A redirection
    /// that wants them again at another place is returned rather than followed.
    ///
    /// - Parameters:
    ///   - request: where to, over `http` or `https`; its own body is not sent. Its method should be one that may be repeated, such
    ///     as `PUT`; for others see ``HTTPRequestRetryOptions/idempotency``.
    ///   - bytes: the body.
    ///   - policy: when to try again, and when to give up.
    ///   - bus: where it waits for the network and for its turn.
    ///   - options: what becomes of statuses, what is sent, and what has to be reached.
    ///   - maxBytes: the longest body of a response that is taken. That of an error status is cut off there.
    /// - Returns: The response, whose body is in memory.
    /// - Throws: As ``AsyncHTTPClient/HTTPClient/execute(_:retrying:on:options:upTo:)``.
    public func upload(
        _ request: HTTPClientRequest, from bytes: ByteBuffer, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init(), upTo maxBytes: Int = 1 << 24
    ) async throws -> HTTPClientResponse {
        try await execute(request.carrying(bytes), retrying: policy, on: bus, options: options, upTo: maxBytes)
    }

    /// Uploads a file, and tries again until that succeeds; each attempt reads and sends it from the beginning.
    ///
    /// - Parameters:
    ///   - request: where to, over `http` or `https`; its own body is not sent. Its method should be one that may be repeated, such
    ///     as `PUT`; for others see ``HTTPRequestRetryOptions/idempotency``.
    ///   - file: what is sent, as it is when an attempt starts. It must not become shorter meanwhile.
    ///   - policy: when to try again, and when to give up.
    ///   - bus: where it waits for the network and for its turn.
    ///   - options: what becomes of statuses, what is sent, and what has to be reached.
    ///   - maxBytes: the longest body of a response that is taken. That of an error status is cut off there.
    /// - Returns: The response, whose body is in memory.
    /// - Throws: As ``AsyncHTTPClient/HTTPClient/execute(_:retrying:on:options:upTo:)``; what Foundation throws if the file cannot
    ///   be read, at once.
    public func upload(
        _ request: HTTPClientRequest, fromFile file: URL, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init(), upTo maxBytes: Int = 1 << 24
    ) async throws -> HTTPClientResponse {
        try await run(request, policy, options, on: bus, exchange: loading(file, upTo: maxBytes))
    }

    /// Uploads what a function makes for each attempt, and tries again until that succeeds.
    ///
    /// For bodies that stream from something that can be read once only. The function is called by the job's task after
    /// ``HTTPRequestRetryOptions/adapt``, with the attempt's timeout running. What it throws is an error of the attempt, before
    /// anything was sent: of the network if that was away or changed meanwhile, otherwise a passing one, unless the policy knows
    /// better.
    ///
    /// - Parameters:
    ///   - request: where to, over `http` or `https`; its own body is not sent. Its method should be one that may be repeated, such
    ///     as `PUT`; for others see ``HTTPRequestRetryOptions/idempotency``.
    ///   - policy: when to try again, and when to give up.
    ///   - bus: where it waits for the network and for its turn.
    ///   - options: what becomes of statuses, what is sent, and what has to be reached.
    ///   - maxBytes: the longest body of a response that is taken. That of an error status is cut off there.
    ///   - body: makes an attempt's body, from its beginning.
    /// - Returns: The response, whose body is in memory.
    /// - Throws: As ``AsyncHTTPClient/HTTPClient/execute(_:retrying:on:options:upTo:)``.
    public func upload(
        _ request: HTTPClientRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init(), upTo maxBytes: Int = 1 << 24,
        body: @escaping @Sendable (Attempt) async throws -> HTTPClientRequest.Body
    ) async throws -> HTTPClientResponse {
        try await execute(request, retrying: policy, on: bus, options: options.making(body), upTo: maxBytes)
    }

    /// Makes one attempt.
    private func exchange(
        _ request: HTTPClientRequest, upTo maxBytes: Int
    ) async throws -> HTTPExchange<Void, HTTPClientStatusError> {
        // As much as a buffer can have.
        let limit = min(max(0, maxBytes), Int(UInt32.max))
        var response = try await execute(request, deadline: .distantFuture)
        guard response.isSuccess else { return .refusal(try await HTTPClientStatusError(reading: response, upTo: limit)) }
        response.body = .bytes(try await response.body.collect(upTo: limit))
        return .value((), response)
    }

    /// Makes attempts whose response is kept in memory.
    ///
    /// - Parameter file: replaces the request's body, from its beginning in each attempt.
    func loading(
        _ file: URL? = nil, upTo maxBytes: Int
    ) -> @Sendable (HTTPClientRequest) async throws -> HTTPExchange<Void, HTTPClientStatusError> {
        { [self] request in
            var request = request
            if let file { request.body = try await .file(file) }
            return try await exchange(request, upTo: maxBytes)
        }
    }

    private func run(
        _ request: HTTPClientRequest, _ policy: RetryPolicy, _ options: HTTPClientRetryOptions, on bus: RetryBus,
        exchange: @escaping @Sendable (HTTPClientRequest) async throws -> HTTPExchange<Void, HTTPClientStatusError>
    ) async throws -> HTTPClientResponse {
        try request.checkScheme()
        return try await HTTPJob(request, policy, options).run(on: bus, exchange: exchange, body: { _ in }).1
    }
}

extension HTTPClientRequest {
    /// The same with a body that is sent in parts, any number of times.
    func carrying(_ bytes: ByteBuffer) -> HTTPClientRequest {
        var request = self
        request.body = .stream(ByteBufferParts(bytes: bytes), length: .known(Int64(bytes.readableBytes)))
        return request
    }
}

extension HTTPClientRetryOptions {
    /// The same with a body that is made for each attempt, after ``adapt``.
    func making(_ body: @escaping @Sendable (Attempt) async throws -> HTTPClientRequest.Body) -> HTTPClientRetryOptions {
        var options = self
        options.adapt = { [adapt] request, attempt in
            var request = try await adapt?(request, attempt) ?? request
            request.body = try await body(attempt)
            return request
        }
        return options
    }
}
#endif
