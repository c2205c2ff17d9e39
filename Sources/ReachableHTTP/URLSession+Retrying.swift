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
///
/// Cancelling the calling task cancels the session's task. Do not invalidate a session while its jobs are pending: Foundation stops
/// the program when a task is made of such a session.
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
        try await run(request, policy, options, on: bus) {
            try await HTTPExchange(data(for: $0))
        } body: {
            $0.data
        }
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
        try await run(request, policy, options, on: bus) {
            try await HTTPExchange(upload(for: $0, from: data))
        } body: {
            $0.data
        }
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
        try await run(request, policy, options, on: bus) {
            try await HTTPExchange(upload(for: $0, fromFile: file))
        } body: {
            $0.data
        }
    }

    func run<Body>(
        _ request: URLRequest, _ policy: RetryPolicy, _ options: HTTPRetryOptions, on bus: RetryBus,
        exchange: (URLRequest) async throws -> HTTPExchange<Body, HTTPStatusError>, body: (HTTPStatusError) throws -> Body
    ) async throws -> (Body, HTTPURLResponse) {
        guard request.isHTTP else { throw URLError(.unsupportedURL) }
        let timeout = configuration.timeoutIntervalForRequest
        return try await HTTPJob(request, policy, options).run(
            on: bus,
            exchange: { request in
                var request = request
                request.setTimeout(policy, timeout)
                return try await exchange(request)
            }, body: body)
    }
}
