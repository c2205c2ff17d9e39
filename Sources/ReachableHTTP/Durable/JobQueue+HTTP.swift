internal import FoundationNetworking
public import Reachability
public import ReachableJobs
public import ReachableRetry

/// The kinds of durable jobs that `URLSession` carries out.
///
/// Register them before `JobQueue.run()`. A final status outside 200 to 299 fails the job with ``HTTPStatusError``. Methods,
/// statuses, errors and `Retry-After` are judged as for the requests of `URLSession`: see ``HTTPRetryClassifier``. A handler runs
/// when the server has carried out the request. If the handler throws, the attempt has failed and the job is sent again, or fails
/// at once if it must not be sent twice. After a crash a handler may run again for the same job.
extension JobQueue {
    /// Registers ``DurableRequest``.
    ///
    /// - Parameters:
    ///   - policy: Delays and limits, as for `registerJob(parameters:policy:conditions:maxConcurrent:upgrading:handler:)`.
    ///   - options: The session, the classification and the changes to each attempt.
    ///   - conditions: Conditions besides the scope.
    ///   - maxConcurrent: The most jobs of the kind that this worker holds at a time; `nil` sets no limit.
    ///   - handler: Gets the job, the response and the attempt.
    public func registerRequests(
        policy: RetryPolicy = .default, options: DurableHTTPOptions = .init(), conditions: [Condition] = [],
        maxConcurrent: Int? = nil,
        handler: @escaping @Sendable (DurableRequest, DurableResponse, DurableAttempt) async throws -> Void = { _, _, _ in }
    ) {
        let exchange = DurableExchange(options, policy)
        registerJob(
            parameters: DurableRequest.self, policy: exchange.policy, conditions: conditions, maxConcurrent: maxConcurrent
        ) { request, attempt in
            let response = try await exchange.load(
                request.common, attempt, request.body.map(URLSession.Upload.data) ?? .none)
            try await exchange.handle(request.common) { try await handler(request, response, attempt) }
        }
    }

    /// Registers ``DurableUpload``.
    ///
    /// - Parameters:
    ///   - policy: Delays and limits, as for `registerJob(parameters:policy:conditions:maxConcurrent:upgrading:handler:)`.
    ///   - options: The session, the classification and the changes to each attempt.
    ///   - conditions: Conditions besides the scope.
    ///   - maxConcurrent: The most jobs of the kind that this worker holds at a time; `nil` sets no limit.
    ///   - handler: Gets the job, the response and the attempt. Remove the file after the event `succeeded`, not here: a job
    ///     that runs again after a crash, and misses its file, fails.
    public func registerUploads(
        policy: RetryPolicy = .default, options: DurableHTTPOptions = .init(), conditions: [Condition] = [],
        maxConcurrent: Int? = nil,
        handler: @escaping @Sendable (DurableUpload, DurableResponse, DurableAttempt) async throws -> Void = { _, _, _ in }
    ) {
        let exchange = DurableExchange(options, policy)
        registerJob(
            parameters: DurableUpload.self, policy: exchange.policy, conditions: conditions, maxConcurrent: maxConcurrent
        ) { upload, attempt in
            let response = try await upload.send(attempt, exchange)
            try await exchange.handle(upload.common) { try await handler(upload, response, attempt) }
        }
    }

    /// Registers ``DurableDownload``.
    ///
    /// - Parameters:
    ///   - policy: Delays and limits, as for `registerJob(parameters:policy:conditions:maxConcurrent:upgrading:handler:)`.
    ///   - options: The session, the classification and the changes to each attempt.
    ///   - conditions: Conditions besides the scope.
    ///   - maxConcurrent: The most jobs of the kind that this worker holds at a time; `nil` sets no limit.
    ///   - handler: Gets the job, whose file is in place, the response without a body, and the attempt. If it throws, the next
    ///     attempt calls it again without another download.
    public func registerDownloads(
        policy: RetryPolicy = .default, options: DurableHTTPOptions = .init(), conditions: [Condition] = [],
        maxConcurrent: Int? = nil,
        handler: @escaping @Sendable (DurableDownload, DurableResponse, DurableAttempt) async throws -> Void = { _, _, _ in }
    ) {
        let exchange = DurableExchange(options, policy)
        registerJob(
            parameters: DurableDownload.self, policy: exchange.policy, conditions: conditions, maxConcurrent: maxConcurrent
        ) { download, attempt in
            let response = try await download.fetch(attempt, exchange)
            try await handler(download, response, attempt)
            download.removePartialFiles(of: attempt.id)
        }
    }
}
