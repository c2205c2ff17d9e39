internal import Foundation
internal import FoundationNetworking
internal import Glibc
internal import ReachableRetry

extension URLRequest: RepeatableRequest {
    typealias Refusal = HTTPStatusError

    var verb: String { httpMethod ?? "GET" }

    var destination: String? { url?.destination }

    func field(_ name: String) -> String? { value(forHTTPHeaderField: name) }

    mutating func setField(_ name: String, _ value: String) { setValue(value, forHTTPHeaderField: name) }

    static func fault(of error: any Error) -> ConnectionFault {
        // This machine is short of something: a file could not be opened.
        if let error = error as? POSIXError { return ConnectionFault(unsent: error) }
        guard let error = error as? URLError else { return ConnectionFault(nil) }
        // Foundation calls all but a refusal unknown; libcurl's words tell that there was no connection.
        guard error.code == .unknown, error.localizedDescription.hasPrefix("Failed to connect to ") else {
            return ConnectionFault(error.errorCode)
        }
        return ConnectionFault(error.errorCode, systemError: Self.shortage, wasSent: false)
    }

    /// The system's error if it has no descriptor left for a connection, which Foundation does not tell; otherwise `nil`.
    private static var shortage: Int32? {
        let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
        guard descriptor < 0 else {
            close(descriptor)
            return nil
        }
        return [EMFILE, ENFILE, ENOMEM].contains(errno) ? errno : nil
    }

    /// Whether it is a request of HTTP.
    var isHTTP: Bool { url?.isHTTP == true }

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

extension HTTPStatusError: ErrorResponse {
    var fields: [String: String] {
        response.allHeaderFields.reduce(into: [:]) { fields, field in
            if let name = field.key as? String, let value = field.value as? String { fields[name] = value }
        }
    }
}

extension ConnectionFault {
    /// Makes a fault of an error that no client reports, but a file that was opened for the attempt: nothing was sent.
    init(unsent error: POSIXError) {
        self.init(systemError: error.code.rawValue)
        wasSent = false
    }
}
