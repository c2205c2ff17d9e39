public import Foundation
public import FoundationNetworking
public import ReachableRetry

extension URLSession {
    /// Downloads to a file, and tries again until that succeeds; goes on where the last attempt broke off, if the server allows it.
    ///
    /// An attempt asks for the rest only (`Range`, `If-Range`) if the method is `GET`, the caller asked for no range, and the
    /// server has named the representation by a strong entity tag or, without any tag, by a date of last modification that lies a
    /// minute before its response. A server that sends the whole all the same, because it has changed or because it knows no
    /// ranges, makes the download start anew; so does one whose answer does not fit. So that positions have a meaning, the body is
    /// asked for without an encoding (`Accept-Encoding: identity`), unless the request says otherwise.
    ///
    /// The file is made when the first attempt starts, and is open only while one runs: waiting downloads hold no descriptors. For
    /// the directory, resumption and encoding see ``HTTPRequestRetryOptions``.
    ///
    /// - Parameters:
    ///   - request: what to load, over `http` or `https`.
    ///   - policy: when to try again, and when to give up.
    ///   - bus: where it waits for the network and for its turn.
    ///   - options: what becomes of statuses, what is sent, and what has to be reached.
    /// - Returns: A file, which is the caller's to move or to remove, and the last attempt's response:
    ///   its status is 206 if the download was resumed. With an error status the file has the first mebibyte of the response's
    ///   body.
    /// - Throws: As ``data(for:retrying:on:options:)``; then there is no file. `CocoaError` if the file cannot be written, at once;
    ///   `POSIXError` of the last attempt if the system is short of descriptors or memory.
    public func download(
        for request: URLRequest, retrying policy: RetryPolicy, on bus: RetryBus = .shared, options: HTTPRetryOptions = .init()
    ) async throws -> (URL, HTTPURLResponse) {
        guard request.isHTTP else { throw URLError(.unsupportedURL) }
        let download = Download(options)
        let result = try await HTTPJob(request, policy, options).run(
            on: bus, exchange: timed(policy) { [self] in try await download.attempt($0, for: self) },
            body: { try download.file.replaceAll(with: $0.data) })
        download.keep()
        return result
    }
}
