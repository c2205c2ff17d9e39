internal import ReachableRetry

/// The pause between the loss of a connection and the next attempt: a fleet that loses its broker does not come back at once.
///
/// The backoff of failed attempts is the retry bus's; this one is for connections that were made and lost.
struct ReconnectDelay: Sendable {
    /// The longest first pause.
    static let shortest = Duration.seconds(1)
    /// The longest pause.
    static let longest = Duration.seconds(5)
    /// The length of a connection after which the next loss counts as the first.
    static let stable = Duration.seconds(60)

    private(set) var limit = Self.shortest
    private var generator: SplitMix64

    init(seed: UInt64) { generator = SplitMix64(seed: seed) }

    /// Returns the pause after a connection of a length: even between zero and a limit, which doubles with each short one.
    mutating func next(after length: Duration) -> Duration {
        if length >= Self.stable { limit = Self.shortest }
        defer { limit = min(limit * 2, Self.longest) }
        return limit * Double.random(in: 0...1, using: &generator)
    }
}
