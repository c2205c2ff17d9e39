/// What came of looking up a host's addresses.
public enum HostAnswer: Hashable, Sendable {
    /// Its addresses.
    case addresses([IPAddress])
    /// There is no such host, or it has no addresses.
    case notFound
    /// It could not be looked up now, for a reason that may pass, such as that no name server answers.
    case failed
}
