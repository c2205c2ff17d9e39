public import Foundation
public import FoundationNetworking
public import ReachableRetry

/// Requests that wait for the network and are repeated until they succeed.
///
/// What `URLSessionConfiguration.waitsForConnectivity` does on Apple's systems, and more: no attempt starts while the network is
/// away, attempts that an outage broke off are not charged, and the next one starts the moment the network is back. Jobs to the
/// same host and port share a gate, and what a server says about when to come back.
///
/// Times are the policy's: `RetryPolicy.attemptTimeout(_:)` limits an attempt, `giveUpAfter(elapsed:)` the whole, waiting included,
/// both exactly. Without the former an attempt ends when the server is silent for the request's `timeoutInterval`, rounded up to
/// whole seconds. `timeoutIntervalForResource` has no effect on Linux.
/// An attempt is cancelled when this machine has lost the source address of the path for 5 s, unless the policy has another rule
/// (`RetryPolicy.interruptsAttempt(_:)`).
///
/// The attempts run in a companion of the session, which is made with its first job and lives as long as the session: with the
/// same configuration, and so the same cookies, cache and credentials. The session's delegate is asked about challenges and
/// redirects, on its own queue, and hears nothing else. Invalidating the session has no effect on its jobs. Use one session for
/// many requests: each has connections of its own.
///
/// A 401 or 407 is an answer like others, unless the delegate has credentials for `Basic`: Foundation knows no other method.
/// Cancelling the calling task cancels the attempt.
extension URLSession {
    /// Loads data, and tries again until that succeeds.
    ///
    /// - Parameters:
    ///   - request: what to load, over `http` or `https`.
    ///   - policy: when to try again, and when to give up.
    ///   - bus: where it waits for the network and for its turn.
    ///   - options: what becomes of statuses, what is sent, and what has to be reached.
    /// - Returns: The body and the response.
    /// - Throws: `URLError` of the last attempt; ``HTTPStatusError`` if error statuses are thrown; `RetryError` and
    ///   `CancellationError` as `RetryBus.retry` does; `URLError.unsupportedURL` at once if the URL is not HTTP's.
    public func data(
        for request: URLRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared, options: HTTPRetryOptions = .init()
    ) async throws -> (Data, HTTPURLResponse) {
        try await load(request, policy, options, on: bus, exchange: loading(.none))
    }

    /// Uploads data, and tries again until that succeeds; each attempt sends all of it.
    ///
    /// - Parameters:
    ///   - request: where to, over `http` or `https`. Its method should be one that may be repeated, such as `PUT`; for others see
    ///     ``HTTPRequestRetryOptions/idempotency``.
    ///   - data: the body.
    ///   - policy: when to try again, and when to give up.
    ///   - bus: where it waits for the network and for its turn.
    ///   - options: what becomes of statuses, what is sent, and what has to be reached.
    /// - Returns: The response's body and the response.
    /// - Throws: As ``data(for:retrying:on:options:)``.
    public func upload(
        for request: URLRequest, from data: Data, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPRetryOptions = .init()
    ) async throws -> (Data, HTTPURLResponse) {
        try await load(request, policy, options, on: bus, exchange: loading(.bytes(data)))
    }

    /// Uploads a file, and tries again until that succeeds; each attempt reads and sends it from the beginning.
    ///
    /// - Parameters:
    ///   - request: where to, over `http` or `https`. Its method should be one that may be repeated, such as `PUT`; for others see
    ///     ``HTTPRequestRetryOptions/idempotency``.
    ///   - file: what is sent, as it is when an attempt starts.
    ///   - policy: when to try again, and when to give up.
    ///   - bus: where it waits for the network and for its turn.
    ///   - options: what becomes of statuses, what is sent, and what has to be reached.
    /// - Returns: The response's body and the response.
    /// - Throws: As ``data(for:retrying:on:options:)``.
    public func upload(
        for request: URLRequest, fromFile file: URL, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPRetryOptions = .init()
    ) async throws -> (Data, HTTPURLResponse) {
        try await load(request, policy, options, on: bus, exchange: loading(.file(file)))
    }

    /// The body of a request.
    enum Upload: Sendable {
        case none
        case bytes(Data)
        case file(URL)
    }

    /// Makes attempts whose response is kept in memory.
    func loading(_ body: Upload) -> @Sendable (URLRequest) async throws -> HTTPExchange<Data, HTTPStatusError> {
        { [self] request in
            // Of a file that cannot be opened Foundation tells nothing: the request would be silent until it times out.
            if case .file(let file) = body { try openUpload(file).close() }
            return try await TaskSession.companion(of: self).run(DataReceiver(), for: self) { session in
                switch body {
                case .none: session.dataTask(with: request)
                case .bytes(let data): session.uploadTask(with: request, from: data)
                case .file(let file): session.uploadTask(with: request, fromFile: file)
                }
            }
        }
    }

    func load(
        _ request: URLRequest, _ policy: RetryPolicy, _ options: HTTPRetryOptions, on bus: RetryBus,
        exchange: @escaping @Sendable (URLRequest) async throws -> HTTPExchange<Data, HTTPStatusError>
    ) async throws -> (Data, HTTPURLResponse) {
        guard request.isHTTP else { throw URLError(.unsupportedURL) }
        return try await HTTPJob(request, policy, options).run(
            on: bus, exchange: timed(policy, exchange), body: { $0.data })
    }

    /// Sets the timeout of each request.
    func timed<Body>(
        _ policy: RetryPolicy, _ exchange: @escaping @Sendable (URLRequest) async throws -> HTTPExchange<Body, HTTPStatusError>
    ) -> @Sendable (URLRequest) async throws -> HTTPExchange<Body, HTTPStatusError> {
        let timeout = configuration.timeoutIntervalForRequest
        return { request in
            var request = request
            request.setTimeout(policy, timeout)
            return try await exchange(request)
        }
    }
}
