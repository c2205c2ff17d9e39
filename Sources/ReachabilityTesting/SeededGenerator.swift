internal import ReachableRetry

/// A random number generator that produces the same numbers for the same seed, on every machine and in every version.
///
/// It is SplitMix64 by Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014), with the
/// constants of Stafford's variant 13. Use it for tests and simulations, not for secrets. Print ``seed`` when a test fails.
public struct SeededGenerator: RandomNumberGenerator, Hashable, Sendable {
    /// The seed of the sequence.
    public let seed: UInt64
    private var generator: SplitMix64

    /// Makes a generator.
    public init(seed: UInt64) {
        self.seed = seed
        generator = SplitMix64(seed: seed)
    }

    /// Returns the next number, uniform over all 64 bits.
    public mutating func next() -> UInt64 { generator.next() }
}

extension SeededGenerator: CustomStringConvertible {
    /// The expression that makes the same sequence again.
    public var description: String { "SeededGenerator(seed: \(seed))" }
}
