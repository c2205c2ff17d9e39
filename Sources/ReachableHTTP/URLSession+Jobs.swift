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
/// Each life is independent: it has its own idempotency key and file. The parameters are those of the functions that return a
/// value; ``HTTPRequestRetryOptions/joining`` has no effect. A life ends with `URLError.unsupportedURL` if the URL is not one of
/// HTTP. A job that gives up after a repeated error status throws it as ``HTTPStatusError`` in any case, because it has no value;
/// ``HTTPRequestRetryOptions/errorStatuses`` applies to statuses that are not repeated.
extension URLSession {
    /// Makes a job that loads data: see ``data(for:retrying:on:options:)``.
    public func job(
        for request: URLRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared, options: HTTPRetryOptions = .init()
    ) -> Job<(Data, HTTPURLResponse)> {
        job(request, policy, options, on: bus) { [self] in loading(.none, policy, options) }
    }

    /// Makes a job that uploads data: see ``upload(for:from:retrying:on:options:)``.
    ///
    /// The job keeps the data in memory.
    public func uploadJob(
        for request: URLRequest, from data: Data, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPRetryOptions = .init()
    ) -> Job<(Data, HTTPURLResponse)> {
        job(request, policy, options, on: bus) { [self] in loading(.data(data), policy, options) }
    }

    /// Makes a job that uploads a file: see ``upload(for:fromFile:retrying:on:options:)``.
    ///
    /// The file is opened when an attempt starts.
    public func uploadJob(
        for request: URLRequest, fromFile file: URL, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPRetryOptions = .init()
    ) -> Job<(Data, HTTPURLResponse)> {
        job(request, policy, options, on: bus) { [self] in loading(.file(file), policy, options) }
    }

    /// Makes a job that downloads to a file: see ``download(for:retrying:on:options:)``.
    ///
    /// The caller has to move or remove the file. The event `succeeded` of a submitted life has it.
    public func downloadJob(
        for request: URLRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared, options: HTTPRetryOptions = .init()
    ) -> Job<(URL, HTTPURLResponse)> {
        job(request, policy, options, on: bus) { [self] in downloading(policy, options) }
    }

    private func job<Body: Sendable>(
        _ request: URLRequest, _ policy: RetryPolicy, _ options: HTTPRetryOptions, on bus: RetryBus,
        _ transfer: @escaping @Sendable () -> HTTPTransfer<URLRequest, Body>
    ) -> Job<(Body, HTTPURLResponse)> {
        HTTPJob.job(request, policy, options, on: bus, value: { $0 }, transfer: transfer)
    }
}
