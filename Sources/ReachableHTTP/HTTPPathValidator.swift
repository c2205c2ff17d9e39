public import Foundation
internal import FoundationNetworking
public import Reachability

/// A validator that asks a web server whether the internet is reachable, and finds captive portals.
///
/// ```swift
/// if let url = URL(string: "http://connectivity.example.com/check") {
///     configuration.validator = HTTPPathValidator(url: url, expectedBody: "ok")
/// }
/// ```
///
/// Each validation is one `GET` over a new connection, without cookies, caches or credentials. Redirects are not followed, and no
/// more of the body is read than the expected one can have. Use a server of your own, or one whose owner allows it. Use `http`: a
/// portal cannot answer for an `https` server, so that such a validation only fails. The server itself must not redirect, for
/// example to `https`: that looks like a portal.
///
/// | Response | Result |
/// |---|---|
/// | the expected status and body | `validated` |
/// | a redirect | `captivePortal` with the redirect's target if that is a URL of HTTP |
/// | another status from 200 to 399, another body, or 511 (RFC 6585) | `captivePortal` with the validator's URL |
/// | another status, or no response | `failed` |
///
/// A browser that opens the validator's URL shows the portal's page, too.
public struct HTTPPathValidator: PathValidator {
    private let url: URL
    private let expectedStatus: Int
    private let expectedBody: [UInt8]?
    private let timeout: TimeInterval

    /// Creates a validator; it sends nothing before a monitor calls it.
    ///
    /// - Parameters:
    ///   - url: The URL to request, over `http` or `https`.
    ///   - expectedStatus: The expected status; `nil` for 200 if a body is expected, otherwise for 204, "no content".
    ///   - expectedBody: The expected body in UTF-8, apart from white space around it; `nil` for any. A status that portals use for
    ///     their pages, such as 200, finds no portals without a body. The bodies of redirects are not compared.
    ///   - timeout: The longest silence of the server, rounded up to whole seconds.
    ///     `ReachabilityMonitor.Configuration.validationTimeout` limits the whole validation.
    public init(url: URL, expectedStatus: Int? = nil, expectedBody: String? = nil, timeout: Duration = .seconds(10)) {
        self.url = url
        self.expectedStatus = expectedStatus ?? (expectedBody == nil ? 204 : 200)
        self.expectedBody = expectedBody.map { ProbeVerdict.trimmed($0.utf8) }
        // Foundation counts milliseconds in an Int: at most an hour.
        self.timeout = min(max((timeout / .seconds(1)).rounded(.up), 1), 3600)
    }

    /// Sends the request and returns the result, `failed` included.
    ///
    /// - Throws: `CancellationError` when the task is cancelled, which also cancels the request.
    public func validate(_ path: NetworkPath) async throws -> PathValidation {
        var request = URLRequest(url: url, timeoutInterval: timeout)
        guard url.isHTTP else { return .failed("\(url) is no URL of HTTP") }
        // Proxies have to ask the server, too, and to leave the body as it is.
        request.setValue("no-cache", forHTTPHeaderField: "Cache-Control")
        request.setValue("identity", forHTTPHeaderField: "Accept-Encoding")
        // A connection of an earlier validation may be dead, or bypass the portal. Foundation cannot close it: the server has to
        // comply (RFC 9112, section 9.6), and cancelled connections are closed.
        request.setValue("close", forHTTPHeaderField: "Connection")
        var verdict = ProbeVerdict(url: url.absoluteString, status: expectedStatus, body: expectedBody)
        do {
            return try await Self.session.run(request, &verdict)
        } catch let error as URLError {
            try Task.checkCancellation()
            return .failed("no response from \(url): \(error.localizedDescription) (URLError \(error.code.rawValue))")
        }
    }

    /// The session of all validators, which stores nothing.
    private static let session: TaskSession = {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpCookieStorage = nil
        configuration.httpCookieAcceptPolicy = .never
        configuration.httpShouldSetCookies = false
        configuration.urlCredentialStorage = nil
        return TaskSession(configuration)
    }()
}

/// The verdict about the part of a probe's response that has arrived.
struct ProbeVerdict: Sendable {
    private let url: String
    private let expectedStatus: Int
    private let expectedBody: [UInt8]?
    private var body: [UInt8] = []
    private var hasHead = false

    /// The number of bytes of white space that are tolerated around the expected body.
    private static let slack = 1024

    /// Creates a verdict before anything has arrived.
    ///
    /// - Parameters:
    ///   - url: The URL of the probe.
    ///   - status: The expected status.
    ///   - body: The expected body without white space around it; `nil` for any. The bodies of redirects are not compared.
    init(url: String, status: Int, body: [UInt8]?) {
        (self.url, expectedStatus, expectedBody) = (url, status, 300...399 ~= status ? nil : body)
    }

    /// Handles the response's head; returns the verdict unless it depends on the body.
    ///
    /// - Parameters:
    ///   - status: The response's status.
    ///   - location: The target of a redirect, as an absolute URL of HTTP.
    mutating func begin(status: Int, location: String?) -> PathValidation? {
        hasHead = true
        if status == expectedStatus { return expectedBody == nil ? .validated : nil }
        return switch status {
        case 300...399: .captivePortal(location ?? url)
        case 200...299, 511: .captivePortal(url)
        default: .failed("\(url) answered with status \(status)")
        }
    }

    /// Handles a part of the body; returns the verdict if there is more than expected.
    mutating func receive(_ data: some Collection<UInt8>) -> PathValidation? {
        let limit = (expectedBody?.count ?? 0) + Self.slack
        body += data.prefix(limit + 1 - body.count)
        return body.count > limit ? .captivePortal(url) : nil
    }

    /// Returns the verdict about the whole response.
    func end() -> PathValidation {
        guard hasHead else { return .failed("\(url) sent no response of HTTP") }
        return expectedBody == nil || Self.trimmed(body) == expectedBody ? .validated : .captivePortal(url)
    }

    /// Removes the white space around a body.
    static func trimmed(_ bytes: some BidirectionalCollection<UInt8>) -> [UInt8] {
        func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || 0x09...0x0D ~= byte }
        guard let last = bytes.lastIndex(where: { !isSpace($0) }) else { return [] }
        return Array(bytes[...last].drop(while: isSpace))
    }
}

extension ProbeVerdict: TaskReceiver {
    mutating func receive(_ response: HTTPURLResponse?) -> PathValidation? {
        guard let response else { return nil }
        let location = response.value(forHTTPHeaderField: "Location").flatMap { URL(string: $0, relativeTo: response.url) }
        // A portal may name any URL, and a user may open it.
        let page = location.flatMap { $0.isHTTP ? $0.absoluteString : nil }
        return begin(status: response.statusCode, location: page)
    }

    /// Ends the probe: no redirect is followed, and an expected one needs no body.
    mutating func redirect(_ response: HTTPURLResponse) -> PathValidation? { receive(response) ?? end() }

    /// Handles the head again: Foundation reports a redirect without a target only at its end.
    mutating func end(_ response: HTTPURLResponse?) -> PathValidation { receive(response) ?? end() }
}
