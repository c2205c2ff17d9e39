#if AsyncHTTPClient
public import AsyncHTTPClient
public import Foundation
internal import FoundationNetworking
public import NIOCore
internal import NIOHTTP1
internal import NIOPosix
public import ReachableRetry

/// The options of a repeated request of `HTTPClient`.
public typealias HTTPClientRetryOptions = HTTPRequestRetryOptions<HTTPClientRequest>

/// Requests that wait for the network and are repeated until they succeed, like those of `URLSession`.
///
/// No attempt starts while the network is away, attempts that an outage interrupts are not charged, and the next one starts the
/// moment the network is back. Jobs to the same host and port share a gate and a server's `Retry-After`.
///
/// The policy sets the times: `RetryPolicy.attemptTimeout(_:)` limits an attempt, `giveUpAfter(elapsed:)` the whole, waiting
/// included. An attempt lasts until the body of its response has arrived. Without an attempt timeout it ends when the server is
/// silent for the client's `timeout.read`, which ``AsyncHTTPClient/HTTPClient/Configuration/leavingRetriesToBus()`` sets; only the
/// policy limits an upload that makes no progress. An attempt is cancelled when this machine has lost the path's source address for
/// 5 s, unless the policy has another rule (`RetryPolicy.interruptsAttempt(_:)`).
///
/// Cancelling the calling task cancels the request. Jobs fail if their client is shut down while they are pending.
extension HTTPClient {
    /// Makes a request, and repeats it until it succeeds; the response is in memory.
    ///
    /// Each attempt sends the request's body. A body of bytes or of a collection can be sent any number of times; a stream can if
    /// its sequence can be iterated again, which an `AsyncStream` cannot. For others see
    /// ``AsyncHTTPClient/HTTPClient/upload(_:retrying:on:options:upTo:body:)``.
    ///
    /// - Parameters:
    ///   - request: The request, over `http` or `https`. It is sent once if its method is not idempotent; see
    ///     ``HTTPRequestRetryOptions/idempotency``.
    ///   - policy: The rules for repeating and giving up.
    ///   - bus: The bus on which the request waits for the network and its turn.
    ///   - options: The handling of statuses, the changes to each attempt, and the job's place on the bus.
    ///   - maxBytes: The longest accepted body of a response. The body of an error status is cut off there.
    /// - Returns: The response, whose body is in memory. It can be read once, like that of any response of `HTTPClient`.
    /// - Throws: The client's error of the last attempt; ``HTTPClientStatusError`` if error statuses are thrown; `RetryError` and
    ///   `CancellationError` as `RetryBus.retry` does; `NIOTooManyBytesError` at once if the response is longer;
    ///   `HTTPClientError.unsupportedScheme` at once if the URL is not one of HTTP.
    public func execute(
        _ request: HTTPClientRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init(), upTo maxBytes: Int = 1 << 24
    ) async throws -> HTTPClientResponse {
        try await HTTPJob(request, policy, options).run(loading(upTo: maxBytes), on: bus).1
    }

    /// Uploads bytes, and tries again until that succeeds; each attempt sends all of them.
    ///
    /// The client gets them in small parts, so that its times count from when they were really sent. A redirect that asks for them
    /// at another place is returned and not followed.
    ///
    /// - Parameters:
    ///   - request: The request, over `http` or `https`; its own body is not sent. Prefer a method that may be repeated, such as
    ///     `PUT`; for others see ``HTTPRequestRetryOptions/idempotency``.
    ///   - bytes: The body.
    ///   - policy: The rules for repeating and giving up.
    ///   - bus: The bus on which the request waits for the network and its turn.
    ///   - options: The handling of statuses, the changes to each attempt, and the job's place on the bus.
    ///   - maxBytes: The longest accepted body of a response. The body of an error status is cut off there.
    /// - Returns: The response, whose body is in memory.
    /// - Throws: The same errors as ``AsyncHTTPClient/HTTPClient/execute(_:retrying:on:options:upTo:)``.
    public func upload(
        _ request: HTTPClientRequest, from bytes: ByteBuffer, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init(), upTo maxBytes: Int = 1 << 24
    ) async throws -> HTTPClientResponse {
        try await HTTPJob(request, policy, options).run(loading(.bytes(bytes), upTo: maxBytes), on: bus).1
    }

    /// Uploads a file, and tries again until that succeeds; each attempt reads and sends it from the beginning.
    ///
    /// - Parameters:
    ///   - request: The request, over `http` or `https`; its own body is not sent. Prefer a method that may be repeated, such as
    ///     `PUT`; for others see ``HTTPRequestRetryOptions/idempotency``.
    ///   - file: The file, which is opened when an attempt starts. It must not become shorter meanwhile.
    ///   - policy: The rules for repeating and giving up.
    ///   - bus: The bus on which the request waits for the network and its turn.
    ///   - options: The handling of statuses, the changes to each attempt, and the job's place on the bus.
    ///   - maxBytes: The longest accepted body of a response. The body of an error status is cut off there.
    /// - Returns: The response, whose body is in memory.
    /// - Throws: The same errors as ``AsyncHTTPClient/HTTPClient/execute(_:retrying:on:options:upTo:)``; `CocoaError` at once if
    ///   the file cannot be read.
    public func upload(
        _ request: HTTPClientRequest, fromFile file: URL, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init(), upTo maxBytes: Int = 1 << 24
    ) async throws -> HTTPClientResponse {
        try await HTTPJob(request, policy, options).run(loading(.file(file), upTo: maxBytes), on: bus).1
    }

    /// Uploads a body that a function makes for each attempt, and tries again until that succeeds.
    ///
    /// For bodies that stream from a source that can be read once. The job's task calls the function after
    /// ``HTTPRequestRetryOptions/adapt``, within the attempt's timeout. An error that it throws fails the attempt before anything
    /// was sent: it is the network's if the path changed or was gone meanwhile, and transient otherwise, unless the policy
    /// classifies it.
    ///
    /// - Parameters:
    ///   - request: The request, over `http` or `https`; its own body is not sent. Prefer a method that may be repeated, such as
    ///     `PUT`; for others see ``HTTPRequestRetryOptions/idempotency``.
    ///   - policy: The rules for repeating and giving up.
    ///   - bus: The bus on which the request waits for the network and its turn.
    ///   - options: The handling of statuses, the changes to each attempt, and the job's place on the bus.
    ///   - maxBytes: The longest accepted body of a response. The body of an error status is cut off there.
    ///   - body: A function that makes the whole body of an attempt.
    /// - Returns: The response, whose body is in memory.
    /// - Throws: The same errors as ``AsyncHTTPClient/HTTPClient/execute(_:retrying:on:options:upTo:)``.
    public func upload(
        _ request: HTTPClientRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init(), upTo maxBytes: Int = 1 << 24,
        body: @escaping @Sendable (Attempt) async throws -> HTTPClientRequest.Body
    ) async throws -> HTTPClientResponse {
        try await execute(request, retrying: policy, on: bus, options: options.making(body), upTo: maxBytes)
    }

    /// Downloads to a file, and tries again until that succeeds; continues after the bytes of earlier attempts if the server allows
    /// it.
    ///
    /// An attempt asks for the rest only under the same conditions as `URLSession.download(for:retrying:on:options:)`, and joins
    /// parts by the same rules. The request has `Accept-Encoding: identity` unless it sets another encoding.
    ///
    /// - Parameters:
    ///   - request: The request, over `http` or `https`.
    ///   - policy: The rules for repeating and giving up.
    ///   - bus: The bus on which the request waits for the network and its turn.
    ///   - options: The handling of statuses, the changes to each attempt, and the job's place on the bus.
    /// - Returns: A file, which the caller has to move or remove, and the last response that had a part of it, without its body:
    ///   its status is 206 if the download was resumed. With an error status the file has the first mebibyte of the response's
    ///   body.
    /// - Throws: The same errors as ``AsyncHTTPClient/HTTPClient/execute(_:retrying:on:options:upTo:)``, and leaves no file.
    ///   `URLError` if the last response does not fit the earlier ones. `CocoaError` at once if the file cannot be written.
    public func download(
        _ request: HTTPClientRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init()
    ) async throws -> (URL, HTTPClientResponse) {
        var (file, response) = try await HTTPJob(request, policy, options).run(downloading(options), on: bus)
        response.body = .init()
        return (file, response)
    }
}

extension HTTPClient.Configuration {
    /// Returns the configuration without what a bus does better.
    ///
    /// - A client repeats failed connections, with delays of its own, until `timeout.connect` is over. It does not know when the
    ///   network is back, and its attempts are neither counted nor charged. So
    ///   `connectionPool.retryConnectionEstablishment` is off: a connection that fails fails its attempt.
    /// - A client waits for an answer without a limit. So `timeout.read` is 60 s, as with `URLSession`, unless it is set.
    /// - A client takes bytes as sent that wait in the system, and ends an upload over a slow line when its time to read is over.
    ///   So the system takes 128 KiB more than the other side's window (TCP_NOTSENT_LOWAT, tcp(7)).
    /// - A client ends the process if a server answers with a status below 100 (`HTTP/1.1 000`). Connections refuse such a response
    ///   with `HTTPParserError.invalidStatus`: `http1_1ConnectionDebugInitializer` adds the check, after what it did before.
    ///
    /// ```swift
    /// let client = HTTPClient(configuration: HTTPClient.Configuration().leavingRetriesToBus())
    /// ```
    ///
    /// `HTTPClient.shared` does not have this configuration. Its requests can be repeated, but each failed connection takes 10 s,
    /// and a status below 100 ends the process.
    public func leavingRetriesToBus() -> HTTPClient.Configuration {
        var configuration = self
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.timeout.read = timeout.read ?? .seconds(60)
        configuration.http1_1ConnectionDebugInitializer = { [http1_1ConnectionDebugInitializer] channel in
            let earlier = http1_1ConnectionDebugInitializer?(channel) ?? channel.eventLoop.makeSucceededVoidFuture()
            return earlier.flatMap { channel.eventLoop.submit { try StatusCheck.add(to: channel) } }
                .flatMap { channel.setOption(.unsentLimit, value: 1 << 17) }
        }
        return configuration
    }
}

extension ChannelOption where Self == ChannelOptions.Types.SocketOption {
    /// The number of bytes that the system holds and has not sent: TCP_NOTSENT_LOWAT of linux/tcp.h.
    fileprivate static var unsentLimit: Self { .init(level: .tcp, name: .init(rawValue: 25)) }
}

/// Refuses a response whose status is below 100.
///
/// The client ignores such a head as that of an informational response, but the decoder does not: the client then meets an end
/// without a head, and stops the program (`HTTPRequestStateMachine.receivedHTTPResponseEnd`).
private final class StatusCheck: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias InboundOut = HTTPClientResponsePart

    private var hasRefused = false

    /// Adds the check behind the decoder of a connection.
    static func add(to channel: any Channel) throws {
        let pipeline = channel.pipeline.syncOperations
        let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPResponseDecoder>.self)
        try pipeline.addHandler(StatusCheck(), position: .after(decoder))
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .head(let head) = unwrapInboundIn(data), head.status.code < 100 {
            hasRefused = true
            context.fireErrorCaught(HTTPParserError.invalidStatus)
            context.close(promise: nil)
        }
        if !hasRefused { context.fireChannelRead(data) }
    }
}

extension HTTPClientRetryOptions {
    /// Returns the options with a body that is made for each attempt, after ``adapt``.
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

// MARK: - Transfers

extension HTTPClient {
    /// Returns a transfer whose response is kept in memory.
    ///
    /// - Parameters:
    ///   - upload: The body of each attempt; `nil` sends the request's own.
    ///   - maxBytes: The longest accepted body of a response.
    func loading(_ upload: ClientUpload? = nil, upTo maxBytes: Int) -> HTTPTransfer<HTTPClientRequest, Void> {
        // A buffer has at most 4 GiB.
        let limit = min(max(0, maxBytes), Int(UInt32.max))
        return HTTPTransfer { [self] request, attempt in
            try await exchange(request, attempt) { request in
                let isBegun = Flag()
                var request = request
                if let upload { request.body = try await upload.body(for: self, isBegun) }
                var response: HTTPClientResponse
                do {
                    response = try await execute(request, deadline: .distantFuture)
                } catch {
                    throw upload?.isEmpty != false || isBegun.isSet ? error : Unsent(error: error)
                }
                guard 200...299 ~= response.status.code else {
                    return .errorResponse(try await HTTPClientStatusError(reading: response, upTo: limit))
                }
                response.body = .bytes(try await response.body.collect(upTo: limit))
                return .value((), response)
            }
        } body: { _ in
        }
    }

    /// Returns a transfer that writes the response to a file.
    func downloading(_ options: HTTPClientRetryOptions) -> HTTPTransfer<HTTPClientRequest, URL> {
        let download = Download(in: options.downloadDirectory)
        return HTTPTransfer { [self] request, attempt in
            let result = try await exchange(request, attempt) { request in
                try await download.attempt(request, options, by: self, attempt)
            }
            if case .value = result { download.handOver() }
            return result
        } body: {
            try download.handOver(Array($0.body.readableBytesView))
        }
    }
}

extension Download {
    /// Makes one attempt.
    fileprivate func attempt(
        _ request: HTTPClientRequest, _ options: HTTPClientRetryOptions, by client: HTTPClient, _ attempt: Attempt
    ) async throws -> HTTPExchange<URL, HTTPClientStatusError> {
        defer { close() }
        var partial = try await NIOThreadPool.singleton.runIfActive { [self] in try open() }
        attempt.reportProgress(kept: partial.kept)
        defer { keep(partial) }
        do {
            while true {
                let received = partial.received
                var request = request
                request.resume(&partial, options)
                let response = try await client.execute(request, deadline: .distantFuture)
                if let end = try await receive(response, &partial, attempt) { return end }
                // The server limits the length of parts.
                guard partial.received > received else { throw HTTPClientError.remoteConnectionClosed }
            }
        } catch {
            attempt.reportProgress(kept: partial.kept)
            throw error
        }
    }

    /// Receives a response; returns `nil` if it ended in good order before the whole was there.
    private func receive(
        _ response: HTTPClientResponse, _ partial: inout PartialDownload, _ attempt: Attempt
    ) async throws -> HTTPExchange<URL, HTTPClientStatusError>? {
        let body = partial.begin(
            status: Int(response.status.code), header: { response.headers.first(name: $0) },
            length: response.headers.first(name: "Content-Length").flatMap { Int64($0) })
        switch body {
        case .errorResponse:
            return .errorResponse(try await HTTPClientStatusError(reading: response, upTo: Self.errorBodyLimit))
        case .mismatch: throw URLError(.badServerResponse)
        case .complete: return .value(location, self.response as? HTTPClientResponse ?? response)
        case .restart: try await write(&partial) { try $0.clear() }
        case .append: break
        }
        var head = response
        head.body = .init()
        self.response = head
        for try await part in response.body {
            // More than was announced: nothing that came with it can be believed.
            guard partial.accepts(part.readableBytes) else {
                partial.discard()
                throw URLError(.badServerResponse)
            }
            try await write(&partial) { try $0.append(Array(part.readableBytesView)) }
            partial.receive(part.readableBytes)
            attempt.report(partial, after: part.readableBytes)
        }
        return partial.isComplete ? .value(location, head) : nil
    }

    /// Writes on a thread that may block.
    private func write(_ partial: inout PartialDownload, _ write: @escaping @Sendable (Download) throws -> Void) async throws {
        do {
            try await NIOThreadPool.singleton.runIfActive { [self] in try write(self) }
        } catch {
            // A cancelled call has written nothing; otherwise the file's contents are no longer known.
            if !(error is CancellationError) { partial.discard() }
            throw error
        }
    }
}
#endif
