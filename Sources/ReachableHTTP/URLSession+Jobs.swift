public import Foundation
public import FoundationNetworking
public import ReachableRetry

/// Requests as values of `Job`: kept, submitted without a caller, observed, repeated.
///
/// ```swift
/// let upload = session.uploadJob(for: request, fromFile: photo, retrying: policy, on: bus)
///     .onEvent { print($0) }
/// try upload.submit()
/// ```
///
/// Each life is independent: it has an idempotency key and a file of its own. The parameters are those of the functions that return
/// a value; ``HTTPRequestRetryOptions/joining`` has no effect. A life ends with `URLError.unsupportedURL` if the URL is not HTTP's.
/// An error status that is repeated until the job gives up is thrown as ``HTTPStatusError`` in any case, since a job that gave up
/// has no value; ``HTTPRequestRetryOptions/errorStatuses`` decides about those that are not repeated.
extension URLSession {
    /// Makes a job that loads data: see ``data(for:retrying:on:options:)``.
    public func job(
        for request: URLRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared, options: HTTPRetryOptions = .init()
    ) -> Job<(Data, HTTPURLResponse)> {
        job(request, policy, options, on: bus, .none)
    }

    /// Makes a job that uploads data: see ``upload(for:from:retrying:on:options:)``.
    ///
    /// The data is in memory as long as the job is.
    public func uploadJob(
        for request: URLRequest, from data: Data, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPRetryOptions = .init()
    ) -> Job<(Data, HTTPURLResponse)> {
        job(request, policy, options, on: bus, .bytes(data))
    }

    /// Makes a job that uploads a file: see ``upload(for:fromFile:retrying:on:options:)``.
    ///
    /// The file is opened when an attempt starts.
    public func uploadJob(
        for request: URLRequest, fromFile file: URL, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPRetryOptions = .init()
    ) -> Job<(Data, HTTPURLResponse)> {
        job(request, policy, options, on: bus, .file(file))
    }

    /// Makes a job that downloads to a file: see ``download(for:retrying:on:options:)``.
    ///
    /// The file is the caller's to move or to remove. Of a life that was submitted, the event `succeeded` brings it.
    public func downloadJob(
        for request: URLRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared, options: HTTPRetryOptions = .init()
    ) -> Job<(URL, HTTPURLResponse)> {
        job(request, policy, options, on: bus) { [self] job in
            let download = Download(options)
            return job.instance(
                exchange: timed(policy) { request in
                    let result = try await download.attempt(request, for: self)
                    if case .value = result { download.keep() }
                    return result
                },
                body: { refusal in
                    let file = try download.file.replaceAll(with: refusal.data)
                    download.keep()
                    return file
                }, value: { $0 })
        }
    }

    private func job(
        _ request: URLRequest, _ policy: RetryPolicy, _ options: HTTPRetryOptions, on bus: RetryBus, _ body: Upload
    ) -> Job<(Data, HTTPURLResponse)> {
        job(request, policy, options, on: bus) { [self] in
            $0.instance(exchange: timed(policy, loading(body)), body: { $0.data }, value: { $0 })
        }
    }

    private func job<Body: Sendable>(
        _ request: URLRequest, _ policy: RetryPolicy, _ options: HTTPRetryOptions, on bus: RetryBus,
        _ instance: @escaping @Sendable (HTTPJob<URLRequest>) -> JobInstance<(Body, HTTPURLResponse)>
    ) -> Job<(Body, HTTPURLResponse)> {
        let isHTTP = request.isHTTP
        return HTTPJob.job(request, policy, options, on: bus) { job in
            guard isHTTP else {
                return JobInstance(policy.giveUpOnErrors { _ in true }) { _ in throw URLError(.unsupportedURL) }
            }
            return instance(job)
        }
    }
}
