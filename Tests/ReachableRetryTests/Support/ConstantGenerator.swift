/// A generator that gives the same number for ever, and counts how often it is asked.
struct ConstantGenerator: RandomNumberGenerator {
    let value: UInt64
    private(set) var draws = 0

    init(_ value: UInt64) { self.value = value }

    /// The least chance: 0.
    static var least: ConstantGenerator { ConstantGenerator(0) }
    /// Chance 1/2, exactly.
    static var half: ConstantGenerator { ConstantGenerator(1 << 63) }
    /// The greatest chance: the last before 1.
    static var greatest: ConstantGenerator { ConstantGenerator(.max) }

    mutating func next() -> UInt64 {
        draws += 1
        return value
    }
}
