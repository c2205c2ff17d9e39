public import ReachableRetry

/// What a classifier makes of a failure.
public enum HTTPRetryOpinion: Hashable, Sendable {
    /// Another attempt may help, and this is whose fault it was.
    ///
    /// `FailureClass.server` is never overruled by what the network did meanwhile: right for a response, which a server must have
    /// sent, and wrong for an error of a connection.
    case retry(FailureClass)
    /// Another attempt may help, and the bus is to judge as if the system had reported this error: an `errno`, or one of
    /// getaddrinfo(3)'s, which are negative.
    ///
    /// See `RetryPolicy.systemErrors(_:)`: a refused connection is the server's fault, unless the network was lost meanwhile.
    case retryAsSystemError(Int32)
    /// Another attempt would not help, or must not be made.
    case doNotRetry
    /// The next classifier is to decide; if nobody decides, there is no other attempt.
    case noOpinion
}
