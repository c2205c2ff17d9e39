internal import ReachableRetry

/// A hash of 64 bits that is the same on all machines, in all builds and runs, as that of `Hasher` is not.
///
/// FNV-1a, whose low bits alone are even enough; SplitMix64 spreads them over all.
enum StableHash {
    static func of(_ text: String) -> UInt64 {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        var generator = SplitMix64(seed: hash)
        return generator.next()
    }
}
