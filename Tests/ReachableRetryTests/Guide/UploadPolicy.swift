import Foundation
import ReachableRetry

extension RetryPolicy {
    static let upload = RetryPolicy.default
        .classify { error in
            guard let refusal = error as? Refusal else { return nil }
            switch refusal.status {
            case 429, 503: return .overload(retryAfter: refusal.retryAfter)
            case 408, 500...: return .server
            case 401: return .transient  // the user may log in
            default: return .request
            }
        }
        .errno { error in
            switch error {
            case let error as POSIXError: error.code.rawValue
            case URLError.cannotFindHost: EHOSTUNREACH
            case URLError.cannotConnectToHost: ECONNREFUSED
            default: nil
            }
        }
}
