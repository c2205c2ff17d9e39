#if AsyncHTTPClient
public import AsyncHTTPClient
public import Foundation
public import NIOCore
public import ReachableRetry

/// Requests as values of `Job`: kept, submitted without a caller, observed, repeated.
///
/// Each life is independent: it has its own idempotency key and file. The parameters are those of the functions that return a
/// value; ``HTTPRequestRetryOptions/joining`` has no effect. A life ends with `HTTPClientError.unsupportedScheme` or `.invalidURL`
/// if the URL is not one of HTTP. A job that gives up after a repeated error status throws it as ``HTTPClientStatusError`` in any
/// case, because it has no value; ``HTTPRequestRetryOptions/errorStatuses`` applies to statuses that are not repeated.
extension HTTPClient {
    /// Makes a job that makes a request: see ``AsyncHTTPClient/HTTPClient/execute(_:retrying:on:options:upTo:)``.
    public func job(
        for request: HTTPClientRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init(), upTo maxBytes: Int = 1 << 24
    ) -> Job<HTTPClientResponse> {
        job(request, policy, options, on: bus, loading(upTo: maxBytes))
    }

    /// Makes a job that uploads bytes: see ``AsyncHTTPClient/HTTPClient/upload(_:from:retrying:on:options:upTo:)``.
    public func uploadJob(
        for request: HTTPClientRequest, from bytes: ByteBuffer, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init(), upTo maxBytes: Int = 1 << 24
    ) -> Job<HTTPClientResponse> {
        job(request, policy, options, on: bus, loading(.bytes(bytes), upTo: maxBytes))
    }

    /// Makes a job that uploads a file: see ``AsyncHTTPClient/HTTPClient/upload(_:fromFile:retrying:on:options:upTo:)``.
    ///
    /// The file is opened when an attempt starts.
    public func uploadJob(
        for request: HTTPClientRequest, fromFile file: URL, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init(), upTo maxBytes: Int = 1 << 24
    ) -> Job<HTTPClientResponse> {
        job(request, policy, options, on: bus, loading(.file(file), upTo: maxBytes))
    }

    /// Makes a job that uploads the body that a function makes for each attempt: see
    /// ``AsyncHTTPClient/HTTPClient/upload(_:retrying:on:options:upTo:body:)``.
    public func uploadJob(
        for request: HTTPClientRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init(), upTo maxBytes: Int = 1 << 24,
        body: @escaping @Sendable (Attempt) async throws -> HTTPClientRequest.Body
    ) -> Job<HTTPClientResponse> {
        job(request, policy, options.making(body), on: bus, loading(upTo: maxBytes))
    }

    /// Makes a job that downloads to a file: see ``AsyncHTTPClient/HTTPClient/download(_:retrying:on:options:)``.
    ///
    /// The caller has to move or remove the file. The event `succeeded` of a submitted life has it.
    public func downloadJob(
        for request: HTTPClientRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init()
    ) -> Job<(URL, HTTPClientResponse)> {
        HTTPJob.job(request, policy, options, on: bus, value: { $0 }, transfer: { [self] in downloading(options) })
    }

    private func job(
        _ request: HTTPClientRequest, _ policy: RetryPolicy, _ options: HTTPClientRetryOptions, on bus: RetryBus,
        _ transfer: HTTPTransfer<HTTPClientRequest, Void>
    ) -> Job<HTTPClientResponse> {
        HTTPJob.job(request, policy, options, on: bus, value: { $0.1 }, transfer: { transfer })
    }
}
#endif
