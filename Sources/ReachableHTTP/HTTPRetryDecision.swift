public import ReachableRetry

/// A classifier's judgement of a failure.
public enum HTTPRetryDecision: Hashable, Sendable {
    /// Another attempt may help.
    ///
    /// The fault is known by the response or the error; the bus judges an error in the light of what the network did meanwhile.
    case retry
    /// Another attempt may help, and this is the fault, as with `RetryPolicy.classify(_:)`.
    ///
    /// `server`, `overload` and `request` say that the server answered, and are never overruled by what the network did meanwhile.
    case retryAs(AttemptFailure.Fault)
    /// Another attempt may help, and the bus is to judge as if the system had reported this error: an `errno`, or one of
    /// getaddrinfo(3)'s, which are negative.
    ///
    /// See `RetryPolicy.errno(for:)`: a refused connection is the server's fault, unless the network was lost meanwhile.
    case retryAsSystemError(Int32)
    /// Another attempt would not help, or must not be made.
    case doNotRetry
    /// The next classifier is to decide; if nobody decides, there is no other attempt.
    case noOpinion
}
