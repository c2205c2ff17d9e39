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
        #if AsyncHTTPClient
        if let fault = error.clientFault { return fault }
        #endif
        return error.code == .unknown ? fault(ofText: error.localizedDescription) : ConnectionFault(error.errorCode)
    }

    /// Translates an error whose code is "unknown", as it is for all but a refusal, by libcurl's text.
    private static func fault(ofText text: String) -> ConnectionFault {
        func begins(_ words: String...) -> Bool { words.contains { text.hasPrefix($0) } }
        let unknown = URLError.Code.unknown.rawValue
        if begins("Failed to connect to ") { return ConnectionFault(unknown, systemError: shortage, wasSent: false) }
        // lib/vtls: the server's certificate.
        if begins("SSL certificate problem", "SSL: no alternative", "SSL: certificate subject", "SSL: unable to obtain common name")
        {
            return ConnectionFault(URLError.Code.serverCertificateUntrusted.rawValue)
        }
        // The handshake, with OpenSSL. An alert after it comes with the words of reading.
        if begins("OpenSSL SSL_connect: ", "OpenSSL/", "error:", "TLS connect error: ") {
            return ConnectionFault(URLError.Code.secureConnectionFailed.rawValue, wasSent: false)
        }
        // lib/http_proxy.c, or cf-h1-proxy.c: the way to the server.
        if begins("CONNECT tunnel failed, response ", "Received HTTP code ") {
            let isRefused = ["403", "407"].contains { text.contains(" \($0)") }
            return isRefused ? ConnectionFault(nil) : ConnectionFault(URLError.Code.badServerResponse.rawValue, wasSent: false)
        }
        if begins("Proxy CONNECT aborted") { return ConnectionFault(URLError.Code.networkConnectionLost.rawValue, wasSent: false) }
        return ConnectionFault(unknown)
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

    /// Adds the headers that the request does not have.
    mutating func addHeaders(_ headers: [String: String]) {
        for (name, value) in headers where header(name) == nil { setHeader(name, value) }
    }

    /// The words of the header `Authorization` for a user and a password (RFC 7617).
    static func basicAuthorization(_ user: String?, _ password: String?) -> String {
        "Basic " + Data("\(user ?? ""):\(password ?? "")".utf8).base64EncodedString()
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

extension URLSessionConfiguration {
    /// The headers of all requests.
    var ownHeaders: [String: String] {
        (httpAdditionalHeaders ?? [:]).reduce(into: [:]) { headers, header in
            if let name = header.key as? String { headers[name] = "\(header.value)" }
        }
    }
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
