/// How fast a bus lets jobs go when the network is back.
///
/// More are to come.
public struct ReleasePolicy: Hashable, Sendable {
    enum Kind: Hashable, Sendable {
        case immediate
    }

    let kind: Kind

    /// All at once.
    ///
    /// Failures of the network on a path that is there are followed by the job's own backoff.
    public static let immediate = ReleasePolicy(kind: .immediate)
}
