internal import Reachability

extension Duration {
    /// The duration times a factor; what is negative or no number counts as nothing, and the product saturates.
    ///
    /// A Double has 53 bits: up to 52 days the product is right to a nanosecond.
    func scaled(by factor: Double) -> Duration {
        guard self > .zero, factor > 0 else { return .zero }
        if factor == 1 { return self }
        let attoseconds = Double(attoseconds) * factor
        // 2^127 is the first that does not fit.
        guard attoseconds < 0x1p127 else { return .longest }
        return Duration(attoseconds: Int128(attoseconds))
    }
}
