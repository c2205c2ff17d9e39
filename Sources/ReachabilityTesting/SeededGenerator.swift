internal import ReachableRetry

/// A random number generator that gives the same numbers for the same seed, on every machine and in every version.
///
/// SplitMix64 by Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014), with the constants of
/// Stafford's variant 13. Good for tests and simulations; not for secrets. Print ``seed`` when a test fails.
public struct SeededGenerator: RandomNumberGenerator, Hashable, Sendable {
    /// The number that the sequence follows from.
    public let seed: UInt64
    private var generator: SplitMix64

    /// Makes a generator.
    public init(seed: UInt64) {
        self.seed = seed
        generator = SplitMix64(seed: seed)
    }

    /// The next number of the sequence, uniform over all 64 bits.
    public mutating func next() -> UInt64 { generator.next() }
}

extension SeededGenerator: CustomStringConvertible {
    /// How to make the same sequence again.
    public var description: String { "SeededGenerator(seed: \(seed))" }
}
