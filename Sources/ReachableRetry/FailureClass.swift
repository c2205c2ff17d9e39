/// Whose fault a failure was: that decides whether it is charged, and what is waited for.
public enum FailureClass: Hashable, Sendable {
    /// The network's: nobody was reached.
    ///
    /// Not charged while the policy waits for connectivity and the monitor sees the network.
    case connectivity
    /// Something passing, on a path that is there: charged.
    ///
    /// If the path changed or was gone during the attempt, it counts as ``connectivity``.
    case transient
    /// The server's, which may say how long to stay away: charged, whatever the network did meanwhile.
    ///
    /// `retryAfter` counts from the failure, and no reconnect undercuts it; below zero it counts as zero. The next attempt
    /// also waits for the backoff. `nil` leaves it at that.
    case server(retryAfter: Duration?)
    /// Nobody's: another attempt would fail the same way, so there is none.
    ///
    /// The job gives up and throws the error.
    case permanent
}
