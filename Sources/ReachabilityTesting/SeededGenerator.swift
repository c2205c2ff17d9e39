/// A random number generator that gives the same numbers for the same seed, on every machine and in every version.
///
/// SplitMix64 by Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014), with the constants of
/// Stafford's variant 13. Good for tests and simulations; not for secrets. Print ``seed`` when a test fails.
public struct SeededGenerator: RandomNumberGenerator, Hashable, Sendable {
    /// The number that the sequence follows from.
    public let seed: UInt64
    private var state: UInt64

    /// Makes a generator.
    public init(seed: UInt64) {
        self.seed = seed
        state = seed
    }

    /// The next number of the sequence, uniform over all 64 bits.
    public mutating func next() -> UInt64 {
        // 2^64 divided by the golden ratio, odd: the state visits every value once.
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}

extension SeededGenerator: CustomStringConvertible {
    /// How to make the same sequence again.
    public var description: String { "SeededGenerator(seed: \(seed))" }
}
