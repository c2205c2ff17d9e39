import Reachability

/// Finds holes in the numbering of a stream: what its listener was too slow for.
struct SequenceCheck {
    private var last: UInt64?

    /// How many transitions are missing between the one before and this one.
    mutating func missed(before transition: Transition) -> UInt64 {
        defer { last = transition.sequence }
        guard let last, !transition.isBaseline, transition.sequence > last else { return 0 }
        return transition.sequence - last - 1
    }
}
