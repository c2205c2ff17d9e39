public import Foundation
public import FoundationNetworking
public import ReachableRetry

/// Requests that wait for the network and are repeated until they succeed.
///
/// No attempt starts while the network is away, attempts that an outage interrupts are not charged, and the next one starts the
/// moment the network is back. Jobs to the same host and port share a gate and a server's `Retry-After`.
///
/// The policy sets the times, exactly: `RetryPolicy.attemptTimeout(_:)` limits an attempt, `giveUpAfter(elapsed:)` the whole,
/// waiting included. Without an attempt timeout, an attempt ends when the server is silent for the request's `timeoutInterval`,
/// rounded up to whole seconds. `timeoutIntervalForResource` has no effect on Linux. An attempt is cancelled when this machine has
/// lost the path's source address for 5 s, unless the policy has another rule (`RetryPolicy.interruptsAttempt(_:)`).
///
/// The attempts run in a companion of the session, which is created with its first job and lives as long as the session. It has the
/// same configuration, with cookies and credentials, but no cache: responses that you have stored in the session's `URLCache` are
/// not used. The session's delegate handles challenges and redirects, on its own queue, and gets no other calls. Invalidating the
/// session does not affect its jobs. Use one session for many requests: each session has its own connections.
///
/// A redirect to another origin (scheme, host and port) leaves `Authorization`, `Cookie` and `Proxy-Authorization` out, also those
/// of the configuration's `httpAdditionalHeaders`, as RFC 9110, section 15.4, asks; Foundation alone would send them.
///
/// A 401 or 407 is an answer like others, unless the delegate has credentials for `Basic`: Foundation supports no other method.
/// Cancelling the calling task cancels the attempt.
extension URLSession {
    /// Loads data, and tries again until that succeeds.
    ///
    /// - Parameters:
    ///   - request: The request, over `http` or `https`.
    ///   - policy: The rules for repeating and giving up.
    ///   - bus: The bus on which the request waits for the network and its turn.
    ///   - options: The handling of statuses, the changes to each attempt, and the job's place on the bus.
    /// - Returns: The body and the response.
    /// - Throws: `URLError` of the last attempt; ``HTTPStatusError`` if error statuses are thrown; `RetryError` and
    ///   `CancellationError` as `RetryBus.retry` does; `URLError.unsupportedURL` at once if the URL is not one of HTTP.
    public func data(
        for request: URLRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared, options: HTTPRetryOptions = .init()
    ) async throws -> (Data, HTTPURLResponse) {
        try await HTTPJob(request, policy, options).run(loading(.none, policy, options), on: bus)
    }

    /// Uploads data, and tries again until that succeeds; each attempt sends all of it.
    ///
    /// - Parameters:
    ///   - request: The request, over `http` or `https`. Prefer a method that may be repeated, such as `PUT`; for others see
    ///     ``HTTPRequestRetryOptions/idempotency``.
    ///   - data: The body.
    ///   - policy: The rules for repeating and giving up.
    ///   - bus: The bus on which the request waits for the network and its turn.
    ///   - options: The handling of statuses, the changes to each attempt, and the job's place on the bus.
    /// - Returns: The response's body and the response.
    /// - Throws: The same errors as ``data(for:retrying:on:options:)``.
    public func upload(
        for request: URLRequest, from data: Data, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPRetryOptions = .init()
    ) async throws -> (Data, HTTPURLResponse) {
        try await HTTPJob(request, policy, options).run(loading(.data(data), policy, options), on: bus)
    }

    /// Uploads a file, and tries again until that succeeds; each attempt reads and sends it from the beginning.
    ///
    /// - Parameters:
    ///   - request: The request, over `http` or `https`. Prefer a method that may be repeated, such as `PUT`; for others see
    ///     ``HTTPRequestRetryOptions/idempotency``.
    ///   - file: The file, which is opened when an attempt starts.
    ///   - policy: The rules for repeating and giving up.
    ///   - bus: The bus on which the request waits for the network and its turn.
    ///   - options: The handling of statuses, the changes to each attempt, and the job's place on the bus.
    /// - Returns: The response's body and the response.
    /// - Throws: The same errors as ``data(for:retrying:on:options:)``; `CocoaError` at once if the file cannot be read.
    public func upload(
        for request: URLRequest, fromFile file: URL, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPRetryOptions = .init()
    ) async throws -> (Data, HTTPURLResponse) {
        try await HTTPJob(request, policy, options).run(loading(.file(file), policy, options), on: bus)
    }

    /// Downloads to a file, and tries again until that succeeds; continues after the bytes of earlier attempts if the server allows
    /// it.
    ///
    /// An attempt asks for the rest only (`Range`, `If-Range`) if the method is `GET`, the caller set no range, and the server
    /// named the representation by a strong entity tag or, without any tag, by a date of last modification at least one minute
    /// before its response. A part is joined if it has the same tag or date. The download starts again if the server sends the
    /// whole, because it has changed or does not support ranges, and if the answer does not fit. If the server limits the length of
    /// parts, the attempt asks for the next one. The whole is there if the size that the server named has arrived, or without one
    /// if the response to a request for the whole has ended in good order, or if a 416 names the number of bytes that have arrived.
    /// An encoding would make positions meaningless: the request has `Accept-Encoding: identity` unless it sets another one.
    ///
    /// The first attempt creates the file. It is open only while an attempt runs: waiting downloads hold no descriptors. For the
    /// directory, resumption and encoding see ``HTTPRequestRetryOptions``.
    ///
    /// - Parameters:
    ///   - request: The request, over `http` or `https`.
    ///   - policy: The rules for repeating and giving up.
    ///   - bus: The bus on which the request waits for the network and its turn.
    ///   - options: The handling of statuses, the changes to each attempt, and the job's place on the bus.
    /// - Returns: A file, which the caller has to move or remove, and the last response that had a part of it: its status is 206 if
    ///   the download was resumed. With an error status the file has the first mebibyte of the response's body.
    /// - Throws: The same errors as ``data(for:retrying:on:options:)``, and leaves no file. `CocoaError` at once if the file cannot
    ///   be written; `POSIXError` of the last attempt if the system is short of descriptors or memory.
    public func download(
        for request: URLRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared, options: HTTPRetryOptions = .init()
    ) async throws -> (URL, HTTPURLResponse) {
        try await HTTPJob(request, policy, options).run(downloading(policy, options), on: bus)
    }
}

extension URLSession {
    /// The body of a request.
    enum Upload: Sendable {
        case none
        case data(Data)
        /// A file, which each attempt opens.
        case file(URL)
        case openFile(FileHandle, length: Int)

        /// Returns the body of one attempt.
        ///
        /// - Throws: The errors of ``openUpload(_:)``.
        func stream() throws -> UploadStream? {
            switch self {
            case .none: return nil
            case .data(let data): return UploadStream(.data(data))
            case .openFile(let file, let length): return UploadStream(.file(file, length: length))
            case .file(let location):
                let (file, length) = try openUpload(location)
                return UploadStream(.file(file, length: length))
            }
        }
    }

    /// Returns a transfer whose response is kept in memory.
    func loading(_ upload: Upload, _ policy: RetryPolicy, _ options: HTTPRetryOptions) -> HTTPTransfer<URLRequest, Data> {
        timed(policy) { [self] request, attempt in
            var (request, receiver) = (request, DataReceiver())
            if let body = try upload.stream() { request.attach(body, for: self) }
            return try await run(request, options.sendRule, attempt, &receiver)
        } body: {
            $0.data
        }
    }

    /// Returns a transfer that writes the response to a file.
    func downloading(_ policy: RetryPolicy, _ options: HTTPRetryOptions) -> HTTPTransfer<URLRequest, URL> {
        let download = Download(in: options.downloadDirectory)
        return timed(policy) { [self] request, attempt in
            let result = try await download.attempt(request, options, in: self, attempt)
            if case .value = result { download.handOver() }
            return result
        } body: {
            try download.handOver($0.data)
        }
    }

    /// Sets the timeout of each attempt's request.
    private func timed<Body>(
        _ policy: RetryPolicy,
        exchange: @escaping @Sendable (URLRequest, Attempt) async throws -> HTTPExchange<Body, HTTPStatusError>,
        body: @escaping @Sendable (HTTPStatusError) throws -> Body
    ) -> HTTPTransfer<URLRequest, Body> {
        let timeout = configuration.timeoutIntervalForRequest
        return HTTPTransfer(
            exchange: { request, attempt in
                var request = request
                request.setTimeout(policy, timeout)
                return try await exchange(request, attempt)
            }, body: body)
    }
}

/// A receiver that keeps the body in memory.
private struct DataReceiver: TaskReceiver {
    private var body = Data()

    mutating func receive(_ response: HTTPURLResponse?) -> HTTPExchange<Data, HTTPStatusError>? {
        body = Data()
        return nil
    }

    mutating func receive(_ data: Data) -> HTTPExchange<Data, HTTPStatusError>? {
        body += data
        return nil
    }

    func end(_ response: HTTPURLResponse?) throws -> HTTPExchange<Data, HTTPStatusError> {
        guard let response else { throw URLError(.badServerResponse) }
        guard 200...299 ~= response.statusCode else { return .errorResponse(HTTPStatusError(response: response, data: body)) }
        return .value(body, response)
    }
}
