public import ReachableRetry

extension RetryPolicy {
    /// How photos are sent: half a second, doubled up to a minute, with ten failures that are not the network's.
    ///
    /// What has lost its network, its login or its cheap way for two seconds is broken off, and begun anew when all is back.
    public static let photos = RetryPolicy(.exponential(initial: .milliseconds(500), maximum: .seconds(60)).jitter(.full))
        .giveUpAfter(maxAttempts: 10)
        .interruptsAttempt(.whenUnsatisfied(grace: .seconds(2)))
        .classify { error in
            guard let refusal = error as? Refusal else { return nil }
            switch refusal.status {
            case 401: return .transient  // somebody may log in
            case 429, 503: return .overload(retryAfter: refusal.retryAfter)
            case 408, 500...: return .server
            default: return .request
            }
        }
}
