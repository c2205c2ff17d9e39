/// A condition at one moment, as the bus sees it.
package struct Level: Hashable, Sendable {
    /// Whether jobs may go on.
    package var isSatisfied: Bool
    /// How often it became so, or changed so much that waiting makes no sense.
    package var epoch: UInt64
    /// Whether this is how it stays.
    package var isFinished: Bool
    /// Whether anybody has looked yet.
    package var isKnown: Bool
    /// If true, it changed so often that only interactive jobs rely on it yet.
    package var isUnsteady = false
    /// Counts the evaluations that the monitor has told of.
    package var evaluation: UInt64 = 0

    package init(isSatisfied: Bool, epoch: UInt64 = 0, isFinished: Bool = false, isKnown: Bool = true) {
        self.isSatisfied = isSatisfied
        self.epoch = epoch
        self.isFinished = isFinished
        self.isKnown = isKnown
    }
}
