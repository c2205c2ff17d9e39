/// Whose fault a failure was: that decides whether it is charged, and what is waited for.
public enum FailureClass: Hashable, Sendable {
    /// The network's: nobody was reached.
    ///
    /// Not charged while the policy waits for connectivity.
    case connectivity
    /// Something passing, on a path that is there: charged.
    case transient
    /// The server's, which may say how long to stay away: charged, and its delay is never undercut.
    case server(retryAfter: Duration?)
    /// Nobody's: another attempt would fail the same way, so there is none.
    case permanent
}
