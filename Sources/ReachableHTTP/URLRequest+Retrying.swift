internal import Foundation
internal import FoundationNetworking
internal import Glibc
internal import ReachableRetry

extension URLRequest: RepeatableRequest {
    typealias StatusError = HTTPStatusError

    var methodName: String { httpMethod ?? "GET" }

    var destination: String? { url?.destination }

    func header(_ name: String) -> String? { value(forHTTPHeaderField: name) }

    mutating func setHeader(_ name: String, _ value: String) { setValue(value, forHTTPHeaderField: name) }

    func checkURL() throws {
        guard url?.isHTTP == true else { throw URLError(.unsupportedURL) }
    }

    static func fault(of error: any Error) -> ConnectionFault {
        // A shortage: a file could not be opened.
        if let error = error as? POSIXError { return ConnectionFault(unsent: error) }
        guard let error = error as? URLError else { return ConnectionFault(nil) }
        // Foundation's code is "unknown" for all but a refusal; libcurl's text shows that there was no connection.
        guard error.code == .unknown, error.localizedDescription.hasPrefix("Failed to connect to ") else {
            return ConnectionFault(error.errorCode)
        }
        return ConnectionFault(error.errorCode, systemError: Self.shortage, wasSent: false)
    }

    /// The system's error if the process can open no further descriptor, which Foundation does not report; otherwise `nil`.
    private static var shortage: Int32? {
        let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
        guard descriptor < 0 else {
            close(descriptor)
            return nil
        }
        return [EMFILE, ENFILE, ENOMEM].contains(errno) ? errno : nil
    }

    /// Sets the longest silence of the server, in whole seconds.
    ///
    /// Foundation cuts off fractions: a request with 0.5 s fails at once. The policy's attempt timeout is exact; with one, this
    /// time is longer and does not interfere. Otherwise it is the request's, or the session's if the request has the default.
    mutating func setTimeout(_ policy: RetryPolicy, _ session: TimeInterval) {
        let own = timeoutInterval == Self.defaultTimeout ? session : timeoutInterval
        let attempt = policy.rules.attemptTimeout.map { $0 / .seconds(1) + 1 } ?? 0
        let longest = max(own.isNaN ? Self.defaultTimeout : own, attempt)
        // Foundation counts milliseconds in an Int: at most a century.
        timeoutInterval = min(max(longest.rounded(.up), 1), 3_155_760_000)
    }

    /// The request without what belongs to another origin: Foundation keeps it in a redirect (RFC 9110, section 15.4).
    var withoutCredentials: URLRequest {
        var request = self
        for name in ["Authorization", "Cookie", "Proxy-Authorization"] { request.setValue(nil, forHTTPHeaderField: name) }
        return request
    }

    /// The timeout of a request that sets none, in seconds.
    private static let defaultTimeout: TimeInterval = 60
}

extension URL {
    /// `true` if the scheme is one of HTTP.
    var isHTTP: Bool { ["http", "https"].contains(scheme?.lowercased()) }

    /// The scheme, host and port of the server (RFC 6454).
    var origin: String? { destination.map { "\(scheme?.lowercased() ?? "")://\($0)" } }

    /// The host and port of the server.
    var destination: String? {
        guard let host = host()?.lowercased(), !host.isEmpty else { return nil }
        let port = port ?? (scheme?.lowercased() == "https" ? 443 : 80)
        return host.contains(":") && !host.hasPrefix("[") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}

extension ConnectionFault {
    /// Creates a fault from an error of opening a file for the attempt: nothing was sent.
    init(unsent error: POSIXError) { self.init(systemError: error.code.rawValue, isConnecting: true) }
}
