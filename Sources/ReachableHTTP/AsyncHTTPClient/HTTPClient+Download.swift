#if AsyncHTTPClient
public import AsyncHTTPClient
public import Foundation
internal import FoundationNetworking
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
public import ReachableRetry

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
    /// - Returns: A file in the temporary directory, which is the caller's to move or to remove, and the last attempt's response,
    ///   without its body: its status is 206 if the download was resumed. With an error status the file has the first mebibyte of
    ///   the response's body.
    /// - Throws: As ``AsyncHTTPClient/HTTPClient/execute(_:retrying:on:options:upTo:)``; then there is no file. `URLError` if the
    ///   last response does not fit what has arrived before it. What Foundation throws if the file cannot be written, at once.
    public func download(
        _ request: HTTPClientRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared,
        options: HTTPClientRetryOptions = .init()
    ) async throws -> (URL, HTTPClientResponse) {
        try await download(request, to: DownloadFile(), retrying: policy, on: bus, options: options)
    }

    /// The same to a file that is there; removes it on an error.
    func download(
        _ request: HTTPClientRequest, to file: DownloadFile, retrying policy: RetryPolicy, on bus: RetryBus,
        options: HTTPClientRetryOptions
    ) async throws -> (URL, HTTPClientResponse) {
        var partial = PartialDownload()
        do {
            var (location, response) = try await run(request, policy, options, on: bus) {
                try await receive($0, in: file, &partial)
            } body: {
                try file.replaceAll(with: Array($0.body.readableBytesView))
            }
            response.body = .init()
            return (location, response)
        } catch {
            file.remove()
            throw error
        }
    }

    /// Makes one attempt.
    private func receive(
        _ request: HTTPClientRequest, in file: DownloadFile, _ partial: inout PartialDownload
    ) async throws -> HTTPExchange<URL, HTTPClientStatusError> {
        var request = request
        request.resume(&partial)
        let response = try await execute(request, deadline: .distantFuture)
        let body = partial.begin(
            status: Int(response.status.code), header: { response.headers.first(name: $0) },
            length: response.headers.first(name: "Content-Length").flatMap { Int64($0) })
        switch body {
        case .refusal:
            return .refusal(try await HTTPClientStatusError(reading: response, upTo: DownloadFile.refusalLimit))
        case .mismatch: throw URLError(.badServerResponse)
        case .restart: try await Self.write(&partial) { try file.clear() }
        case .append: break
        }
        for try await part in response.body {
            try await Self.write(&partial) { try file.append(Array(part.readableBytesView)) }
            partial.receive(part.readableBytes)
        }
        // Less than was asked for, though whole by itself: the rest is for the next attempt.
        guard partial.isComplete else { throw HTTPClientError.remoteConnectionClosed }
        return .value(file.location, response)
    }

    /// Writes where blocking is allowed.
    private static func write(_ partial: inout PartialDownload, _ write: @escaping @Sendable () throws -> Void) async throws {
        do {
            try await NIOThreadPool.singleton.runIfActive(write)
        } catch {
            // If it was cancelled, nothing was written; otherwise what is on disk is no longer known.
            if !(error is CancellationError) { partial.discard() }
            throw error
        }
    }
}
#endif
