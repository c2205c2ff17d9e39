public import Foundation
internal import FoundationNetworking
public import Reachability

/// Asks a web server whether the internet is really there, and finds captive portals.
///
/// ```swift
/// if let url = URL(string: "http://connectivity.example.com/check") {
///     configuration.validator = HTTPPathValidator(url: url, expectedBody: "ok")
/// }
/// ```
///
/// Each validation is one `GET` in a session for nothing else: without cookies, caches or credentials, and over a new connection,
/// which the server is asked to close (`Connection: close`). Redirects are not followed, and of the body no more is read than can
/// be expected. Ask a server of your own, or one whose owner invites that. Use `http`: a portal cannot answer in the place of an
/// `https` server, so there it only counts as failed. The server must not redirect by itself, to `https` for instance: that looks
/// like a portal.
///
/// | What comes | What it counts as |
/// |---|---|
/// | the expected status and body | `validated` |
/// | a redirect | `captivePortal` with the URL that it leads to, if that is one of HTTP |
/// | another status from 200 to 399, another body, or 511 (RFC 6585) | `captivePortal` with the URL that was asked for |
/// | another status, or no response | `failed`: a server in trouble is no portal |
///
/// A browser that opens the URL that was asked for gets the portal's page, too.
public struct HTTPPathValidator: PathValidator {
    private let url: URL
    private let expectedStatus: Int
    private let expectedBody: [UInt8]?
    private let timeout: TimeInterval

    /// Makes a validator; nothing is sent before a monitor calls it.
    ///
    /// - Parameters:
    ///   - url: what is asked for, over `http` or `https`.
    ///   - expectedStatus: the status of the right answer; `nil` for 200 if a body is expected, otherwise for 204, "no content".
    ///   - expectedBody: the body of the right answer, in UTF-8; white space around it does not count. `nil` for any: with a status
    ///     that portals use for their pages, such as 200, portals would go unseen. Of a redirect no body is looked at.
    ///   - timeout: how long the server may be silent, rounded up to whole seconds. How long the whole may take is limited by
    ///     `ReachabilityMonitor.Configuration.validationTimeout`.
    public init(url: URL, expectedStatus: Int? = nil, expectedBody: String? = nil, timeout: Duration = .seconds(10)) {
        self.url = url
        self.expectedStatus = expectedStatus ?? (expectedBody == nil ? 204 : 200)
        self.expectedBody = expectedBody.map { ProbeVerdict.trimmed($0.utf8) }
        // In milliseconds it has to fit an Int; an hour of silence is for ever.
        self.timeout = min(max((timeout / .seconds(1)).rounded(.up), 1), 3600)
    }

    /// Asks the server.
    ///
    /// - Returns: what came of it, `failed` included.
    /// - Throws: `CancellationError` when the task is cancelled; then the request is cancelled, too.
    public func validate(_ path: NetworkPath) async throws -> PathValidation {
        var request = URLRequest(url: url, cachePolicy: .reloadIgnoringLocalCacheData, timeoutInterval: timeout)
        guard url.isHTTP else { return .failed("\(url) is no URL of HTTP") }
        // What lies between is to ask the server, too, and to leave the body as it is.
        request.setValue("no-cache", forHTTPHeaderField: "Cache-Control")
        request.setValue("identity", forHTTPHeaderField: "Accept-Encoding")
        // The next validation has to find its own way: a connection that is left from this one may be dead, or pass by the portal.
        // Foundation has no setting for that; a server has to comply (RFC 9112, section 9.6), and what is cancelled is closed.
        request.setValue("close", forHTTPHeaderField: "Connection")
        let receiver = ProbeReceiver(ProbeVerdict(url: url.absoluteString, status: expectedStatus, body: expectedBody))
        do {
            return try await Self.session.run(receiver) { [request] in $0.dataTask(with: request) }
        } catch let error as URLError {
            try Task.checkCancellation()
            return .failed("no response from \(url): \(error.localizedDescription) (URLError \(error.code.rawValue))")
        }
    }

    /// A session that keeps nothing, for all validators.
    private static let session: TaskSession = {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.urlCache = nil
        configuration.httpCookieStorage = nil
        configuration.httpCookieAcceptPolicy = .never
        configuration.httpShouldSetCookies = false
        configuration.urlCredentialStorage = nil
        return TaskSession(configuration)
    }()
}
