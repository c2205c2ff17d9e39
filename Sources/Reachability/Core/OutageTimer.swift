/// Measures outages that listeners are told of, from the loss itself on.
struct OutageTimer: Sendable {
    private var lostAt: Duration?

    /// Takes in what one of a scope's streams is told; returns how long the outage was that this ends.
    ///
    /// A loss goes to the raw stream first, and to the damped one if it lasts. One that the monitor did not see is not measured.
    mutating func note(_ kinds: Transition.Kinds, isRaw: Bool, at now: Duration) -> Duration? {
        if isRaw {
            if kinds.contains(.offline) { lostAt = now }
            return nil
        }
        guard kinds.contains(.online), let start = lostAt else { return nil }
        lostAt = nil
        return now.saturatingSubtract(start)
    }
}
