#if AsyncHTTPClient
public import AsyncHTTPClient
public import Foundation
public import NIOCore
public import ReachableRetry

/// Requests as values of `Job`, as those of `URLSession` are: kept, submitted without a caller, observed, repeated.
///
/// Each life is independent: it has an idempotency key and a file of its own. The parameters are those of the functions that return
/// a value; ``HTTPRequestRetryOptions/joining`` has no effect. A life ends with `HTTPClientError.unsupportedScheme` or
/// `.invalidURL` if the URL is not HTTP's. An error status that is repeated until the job gives up is thrown as
/// ``HTTPClientStatusError`` in any case, since a job that gave up has no value; ``HTTPRequestRetryOptions/errorStatuses`` decides
/// about those that are not repeated.
extension HTTPClient {
    /// Makes a job that makes a request: see ``AsyncHTTPClient/HTTPClient/execute(_:retrying:on:options:upTo:)``.
    public func job(
        for request: HTTPClientRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init(), upTo maxBytes: Int = 1 << 24
    ) -> Job<HTTPClientResponse> {
        job(request, policy, options, on: bus, exchange: loading(upTo: maxBytes))
    }

    /// Makes a job that uploads bytes: see ``AsyncHTTPClient/HTTPClient/upload(_:from:retrying:on:options:upTo:)``.
    public func uploadJob(
        for request: HTTPClientRequest, from bytes: ByteBuffer, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init(), upTo maxBytes: Int = 1 << 24
    ) -> Job<HTTPClientResponse> {
        job(request.carrying(bytes), policy, options, on: bus, exchange: loading(upTo: maxBytes))
    }

    /// Makes a job that uploads a file: see ``AsyncHTTPClient/HTTPClient/upload(_:fromFile:retrying:on:options:upTo:)``.
    ///
    /// The file is opened when an attempt starts.
    public func uploadJob(
        for request: HTTPClientRequest, fromFile file: URL, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init(), upTo maxBytes: Int = 1 << 24
    ) -> Job<HTTPClientResponse> {
        job(request, policy, options, on: bus, exchange: loading(file, upTo: maxBytes))
    }

    /// Makes a job that uploads the body that a function makes for each attempt: see
    /// ``AsyncHTTPClient/HTTPClient/upload(_:retrying:on:options:upTo:body:)``.
    public func uploadJob(
        for request: HTTPClientRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init(), upTo maxBytes: Int = 1 << 24,
        body: @escaping @Sendable (Attempt) async throws -> HTTPClientRequest.Body
    ) -> Job<HTTPClientResponse> {
        job(request, policy, options.making(body), on: bus, exchange: loading(upTo: maxBytes))
    }

    /// Makes a job that downloads to a file: see ``AsyncHTTPClient/HTTPClient/download(_:retrying:on:options:)``.
    ///
    /// The file is the caller's to move or to remove. Of a life that was submitted, the event `succeeded` brings it.
    public func downloadJob(
        for request: HTTPClientRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init()
    ) -> Job<(URL, HTTPClientResponse)> {
        job(request, policy, options, on: bus) { [self] job in
            let download = ClientDownload(options)
            return job.instance(
                exchange: { request in
                    let result = try await download.attempt(request, by: self)
                    guard case .value(let file, var response) = result else { return result }
                    download.keep()
                    response.body = .init()
                    return .value(file, response)
                },
                body: { refusal in
                    let file = try download.file.replaceAll(with: Array(refusal.body.readableBytesView))
                    download.keep()
                    return file
                }, value: { $0 })
        }
    }

    private func job(
        _ request: HTTPClientRequest, _ policy: RetryPolicy, _ options: HTTPClientRetryOptions, on bus: RetryBus,
        exchange: @escaping @Sendable (HTTPClientRequest) async throws -> HTTPExchange<Void, HTTPClientStatusError>
    ) -> Job<HTTPClientResponse> {
        job(request, policy, options, on: bus) { $0.instance(exchange: exchange, body: { _ in }, value: { $0.1 }) }
    }

    private func job<Value: Sendable>(
        _ request: HTTPClientRequest, _ policy: RetryPolicy, _ options: HTTPClientRetryOptions, on bus: RetryBus,
        _ instance: @escaping @Sendable (HTTPJob<HTTPClientRequest>) -> JobInstance<Value>
    ) -> Job<Value> {
        HTTPJob.job(request, policy, options, on: bus) { job in
            do {
                try request.checkScheme()
                return instance(job)
            } catch {
                return JobInstance(policy.giveUpOnErrors { _ in true }) { _ in throw error }
            }
        }
    }
}
#endif
