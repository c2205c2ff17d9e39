internal import Foundation
internal import FoundationNetworking
internal import ReachableRetry

extension URLRequest {
    static let idempotencyKey = "Idempotency-Key"

    /// The server that it goes to, as host and port: what jobs to the same one share a gate by.
    var destination: String? {
        guard let url, let host = url.host()?.lowercased(), !host.isEmpty else { return nil }
        let port = url.port ?? (url.scheme?.lowercased() == "https" ? 443 : 80)
        return host.contains(":") && !host.hasPrefix("[") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }

    /// Whether it is a request of HTTP.
    var isHTTP: Bool { url?.isHTTP == true }

    mutating func add(_ idempotency: HTTPIdempotency) {
        switch idempotency.kind {
        case .method, .assured: return
        case .generated:
            guard value(forHTTPHeaderField: Self.idempotencyKey) == nil else { return }
            setValue(UUID().uuidString, forHTTPHeaderField: Self.idempotencyKey)
        case .given(let key): setValue(key, forHTTPHeaderField: Self.idempotencyKey)
        }
    }

    /// Sets how long the server may be silent, in whole seconds: of other numbers Foundation cuts off the fraction, and a request
    /// with half a second fails at once.
    ///
    /// With a timeout of the policy's own, which is exact, this one is longer and does not interfere. Otherwise it is the
    /// request's, or the session's if the request has the default.
    mutating func setTimeout(_ policy: RetryPolicy, _ session: TimeInterval) {
        let own = timeoutInterval == Self.defaultTimeout ? session : timeoutInterval
        let attempt = policy.rules.attemptTimeout.map { $0 / .seconds(1) + 1 } ?? 0
        let longest = max(own.isNaN ? Self.defaultTimeout : own, attempt)
        // In milliseconds it has to fit an Int; a century is for ever.
        timeoutInterval = min(max(longest.rounded(.up), 1), 3_155_760_000)
    }

    /// What a request has of which nobody has set it.
    private static let defaultTimeout: TimeInterval = 60
}

extension URL {
    /// Whether it is one of HTTP.
    var isHTTP: Bool { ["http", "https"].contains(scheme?.lowercased()) }
}
