import Foundation
import ReachableRetry

extension RetryPolicy {
    static let upload = RetryPolicy.default
        .classify { error in
            guard let refusal = error as? Refusal else { return nil }
            switch refusal.status {
            case 408, 429, 500...: return .server(retryAfter: refusal.retryAfter)
            case 401: return .transient  // somebody may log in
            default: return .permanent
            }
        }
        .systemErrors { error in
            switch error {
            case let error as POSIXError: error.code.rawValue
            case URLError.cannotFindHost: EAI_AGAIN
            case URLError.cannotConnectToHost: ECONNREFUSED
            default: nil
            }
        }
}
