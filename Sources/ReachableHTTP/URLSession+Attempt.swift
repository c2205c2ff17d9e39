public import Foundation
public import FoundationNetworking
internal import ReachableRetry

/// Single attempts, for operations and handlers that a policy repeats: see `RetryPolicy.classifyingHTTP(_:isIdempotent:)`.
///
/// In contrast to the functions of `URLSession`, an error status is thrown as ``HTTPStatusError``, a 401 ends the attempt, a file
/// that cannot be opened is an error at once, and errors do not show the URL, which may hold secrets. The process runs a limited
/// number of attempts at a time: see ``HTTPRequestRetryOptions/maxConcurrentPerDestination``.
///
/// The attempt ends when the server is silent for the request's `timeoutInterval`; a policy's `attemptTimeout(_:)` and
/// cancellation of the task end it earlier.
extension URLSession {
    /// Loads data once.
    ///
    /// - Returns: The body and the response, whose status is from 200 to 299.
    /// - Throws: ``HTTPStatusError`` for other statuses; `URLError`, also for a URL that is not one of HTTP; `POSIXError` if the
    ///   process is short of descriptors; `CancellationError`.
    public func attempt(_ request: URLRequest) async throws -> (Data, HTTPURLResponse) { try await attempt(request, .none) }

    /// Uploads data once.
    ///
    /// - Returns: The response's body and the response, whose status is from 200 to 299.
    /// - Throws: The same errors as ``attempt(_:)``.
    public func attempt(_ request: URLRequest, from data: Data) async throws -> (Data, HTTPURLResponse) {
        try await attempt(request, .data(data))
    }

    /// Uploads a file once; its contents are never in memory as a whole.
    ///
    /// - Returns: The response's body and the response, whose status is from 200 to 299.
    /// - Throws: The same errors as ``attempt(_:)``; `CocoaError` if the file cannot be read.
    public func attempt(_ request: URLRequest, fromFile file: URL) async throws -> (Data, HTTPURLResponse) {
        try await attempt(request, .file(file))
    }

    private func attempt(_ request: URLRequest, _ upload: Upload) async throws -> (Data, HTTPURLResponse) {
        try request.checkURL()
        try DescriptorShare.process.take()
        defer { DescriptorShare.process.giveBack() }
        do {
            switch try await loading(upload, .default, HTTPRetryOptions()).exchange(request, Attempt()) {
            case .value(let body, let response): return (body, response)
            case .errorResponse(let response): throw response
            }
        } catch {
            if Task.isCancelled { throw CancellationError() }
            let error = Unsent.unwrap(error).0
            throw (error as? URLError)?.withoutURL ?? error
        }
    }
}

extension URLError {
    /// The error with its reason in its text, where Foundation prints `(null)`.
    var explained: URLError {
        var information = errorUserInfo
        var reason = localizedDescription
        // `_EasyHandle.setCookies`, `_ParsedResponseHeader`: text that is not UTF-8 ends the transfer there.
        if reason == "Failed writing header" {
            reason = "a header of the response is not UTF-8, which Foundation does not read; next: make the request by HTTPClient"
            information[NSLocalizedDescriptionKey] = reason
        }
        information[NSLocalizedFailureReasonErrorKey] = reason
        return URLError(code, userInfo: information)
    }

    /// The error without the URL of the request, which may hold a password or a token: stores and logs keep its text.
    var withoutURL: URLError {
        var information = errorUserInfo.filter { $0.value is ConnectionFault }
        for key in [NSLocalizedDescriptionKey, NSLocalizedFailureReasonErrorKey] { information[key] = localizedDescription }
        return URLError(code, userInfo: information)
    }
}
