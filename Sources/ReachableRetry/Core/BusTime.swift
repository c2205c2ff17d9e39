/// A moment on a bus's clock: nanoseconds since the bus was made.
///
/// Sums saturate at ``never``, 292 years later.
package struct BusTime: Hashable, Comparable, Sendable {
    package let nanoseconds: Int64

    package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    /// The moment a duration after the bus was made, rounded to the nearest nanosecond, halves up.
    ///
    /// Rounding up would have `.seconds(1.1)`, which is 96 attoseconds longer than it says, miss a clock that counts nanoseconds.
    package init(_ duration: Duration) {
        nanoseconds = Int64(clamping: Self.nanoseconds(duration))
    }

    private static func nanoseconds(_ duration: Duration) -> Int128 {
        // Not `components`, which traps for durations beyond 2^63 seconds.
        let (whole, rest) = duration.attoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
        return rest >= 500_000_000 ? whole + 1 : rest < -500_000_000 ? whole - 1 : whole
    }

    package static let start = BusTime(nanoseconds: 0)
    /// A moment that does not come.
    package static let never = BusTime(nanoseconds: .max)
    /// A moment that has passed.
    package static let past = BusTime(nanoseconds: .min)

    package var isNever: Bool { self == .never }

    /// The time since the bus was made.
    package var duration: Duration { .nanoseconds(nanoseconds) }

    package static func < (left: BusTime, right: BusTime) -> Bool { left.nanoseconds < right.nanoseconds }

    /// The moment a duration later; nothing is later than never.
    package static func + (time: BusTime, duration: Duration) -> BusTime {
        guard time != .never else { return .never }
        return BusTime(nanoseconds: Int64(clamping: Int128(time.nanoseconds) + nanoseconds(duration)))
    }

    /// How long after another moment this one is: at most 585 years, so that many such spans can be added up.
    package static func - (left: BusTime, right: BusTime) -> Duration {
        .nanoseconds(left.nanoseconds) - .nanoseconds(right.nanoseconds)
    }
}
