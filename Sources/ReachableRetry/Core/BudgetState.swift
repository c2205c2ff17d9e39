/// What a retry budget knows, and how it decides.
///
/// Pure: it is told the time, and holds no lock. Numbers of tokens are integers, so that nothing drifts however often it is asked.
package protocol BudgetState: Sendable {
    /// An attempt reached a server and failed; `isFirst` if it is the first of its job that did.
    mutating func noteFailure(isFirst: Bool, at now: BusTime)

    /// Takes what another attempt costs.
    ///
    /// - Parameter afterTimeout: whether the attempt before took too long.
    /// - Returns: What ``noteSuccess(refund:at:)`` gives back if that attempt succeeds, zero or more; `nil` if there is to be none,
    ///   and then nothing was taken.
    mutating func takeRetry(afterTimeout: Bool, at now: BusTime) -> Int32?

    /// A job succeeded.
    ///
    /// - Parameter refund: what ``takeRetry(afterTimeout:at:)`` returned for the job last; `nil` if it took nothing.
    mutating func noteSuccess(refund: Int32?, at now: BusTime)
}

extension Double {
    /// The number in parts of which `unit` make one, rounded down.
    ///
    /// What is negative or no number counts as nothing, and what is greater than the greatest `Int32` as that.
    func parts(_ unit: Int32) -> Int64 {
        guard self > 0 else { return 0 }
        // 1.001 is a little less than that: what its binary form lacks must not cost it a whole part.
        return Int64(min(self, Double(Int32.max)) * Double(unit) * (1 + 0x1p-50))
    }
}

extension Int {
    /// The number, held between zero and the greatest `Int32`: sums and products of such numbers fit.
    var count: Int32 { Int32(clamping: Swift.max(0, self)) }
}
