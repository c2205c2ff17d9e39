#if AsyncHTTPClient
public import AsyncHTTPClient
public import Foundation
internal import FoundationNetworking
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
public import ReachableRetry
internal import Synchronization

extension HTTPClient {
    /// Downloads to a file, and tries again until that succeeds; goes on where the last attempt broke off, if the server allows it.
    ///
    /// An attempt asks for the rest only under the same conditions as `URLSession.download(for:retrying:on:options:)` does; a
    /// server that sends the whole all the same, or what does not fit, makes the download start anew. The body is asked for without
    /// an encoding (`Accept-Encoding: identity`), unless the request says otherwise.
    ///
    /// - Parameters:
    ///   - request: what to load, over `http` or `https`.
    ///   - policy: when to try again, and when to give up.
    ///   - bus: where it waits for the network and for its turn.
    ///   - options: what becomes of statuses, what is sent, and what has to be reached.
    /// - Returns: A file, which is the caller's to move or to remove, and the last attempt's response,
    ///   without its body: its status is 206 if the download was resumed. With an error status the file has the first mebibyte of
    ///   the response's body.
    /// - Throws: As ``AsyncHTTPClient/HTTPClient/execute(_:retrying:on:options:upTo:)``; then there is no file. `URLError` if the
    ///   last response does not fit what has arrived before it. What Foundation throws if the file cannot be written, at once.
    public func download(
        _ request: HTTPClientRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init()
    ) async throws -> (URL, HTTPClientResponse) {
        try request.checkScheme()
        let download = ClientDownload(options)
        var (location, response) = try await HTTPJob(request, policy, options).run(
            on: bus, exchange: { [self] in try await download.attempt($0, by: self) },
            body: { try download.file.replaceAll(with: Array($0.body.readableBytesView)) })
        download.keep()
        response.body = .init()
        return (location, response)
    }
}

/// One download over several attempts of `HTTPClient`.
///
/// Removes its file when it is deallocated, unless the file was handed over.
final class ClientDownload: Sendable {
    let file: DownloadFile
    private let options: HTTPClientRetryOptions
    private let partial = Mutex(PartialDownload())
    private let isKept = Mutex(false)

    init(_ options: HTTPClientRetryOptions) {
        file = DownloadFile(in: options.downloadDirectory)
        self.options = options
    }

    deinit { if !isKept.withLock({ $0 }) { file.remove() } }

    /// Hands the file over to the caller.
    func keep() { isKept.withLock { $0 = true } }

    /// Makes one attempt, of which one runs at a time.
    func attempt(
        _ request: HTTPClientRequest, by client: HTTPClient
    ) async throws -> HTTPExchange<URL, HTTPClientStatusError> {
        defer { file.close() }
        let length = try await NIOThreadPool.singleton.runIfActive { [file] in try file.open() }
        var partial = partial.withLock { $0 }
        defer { self.partial.withLock { $0 = partial } }
        // A file that waited long enough may have been tidied away.
        if length != partial.received { partial.discard() }
        return try await receive(request, by: client, &partial)
    }

    private func receive(
        _ request: HTTPClientRequest, by client: HTTPClient, _ partial: inout PartialDownload
    ) async throws -> HTTPExchange<URL, HTTPClientStatusError> {
        var request = request
        request.resume(&partial, options)
        let response = try await client.execute(request, deadline: .distantFuture)
        let body = partial.begin(
            status: Int(response.status.code), header: { response.headers.first(name: $0) },
            length: response.headers.first(name: "Content-Length").flatMap { Int64($0) })
        switch body {
        case .refusal:
            return .refusal(try await HTTPClientStatusError(reading: response, upTo: DownloadFile.refusalLimit))
        case .mismatch: throw URLError(.badServerResponse)
        case .restart: try await Self.write(&partial) { [file] in try file.clear() }
        case .append: break
        }
        for try await part in response.body {
            try await Self.write(&partial) { [file] in try file.append(Array(part.readableBytesView)) }
            partial.receive(part.readableBytes)
        }
        // Less than was asked for, though complete by itself: the rest is for the next attempt.
        guard partial.isComplete else { throw HTTPClientError.remoteConnectionClosed }
        return .value(file.location, response)
    }

    /// Writes where blocking is allowed.
    private static func write(_ partial: inout PartialDownload, _ write: @escaping @Sendable () throws -> Void) async throws {
        do {
            try await NIOThreadPool.singleton.runIfActive(write)
        } catch {
            // If it was cancelled, nothing was written; otherwise the file's contents are no longer known.
            if !(error is CancellationError) { partial.discard() }
            throw error
        }
    }
}
#endif
