/// A change that the simulated machine cannot make, as ip(8) would refuse it.
public struct SimulationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What was wrong, and what there is instead.
    public var description: String

    init(_ description: String) { self.description = description }
}
