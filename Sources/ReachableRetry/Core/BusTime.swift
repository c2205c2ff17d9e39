/// A time on a bus's clock: nanoseconds since the bus was created.
///
/// Sums saturate at ``never``, 292 years later.
package struct BusTime: Hashable, Comparable, Sendable {
    package let nanoseconds: Int64

    package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    /// Creates a time from the duration since the bus's creation, rounded to the nearest nanosecond, halves up.
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
    /// A time that is never reached.
    package static let never = BusTime(nanoseconds: .max)
    /// A time before all others.
    package static let past = BusTime(nanoseconds: .min)

    package var isNever: Bool { self == .never }

    /// The duration since the bus was created.
    package var duration: Duration { .nanoseconds(nanoseconds) }

    package static func < (left: BusTime, right: BusTime) -> Bool { left.nanoseconds < right.nanoseconds }

    /// Returns the time after a duration, saturating at ``never``.
    package static func + (time: BusTime, duration: Duration) -> BusTime {
        guard time != .never else { return .never }
        return BusTime(nanoseconds: Int64(clamping: Int128(time.nanoseconds) + nanoseconds(duration)))
    }

    /// Returns the duration between two times: at most 585 years, so that sums of many do not overflow.
    package static func - (left: BusTime, right: BusTime) -> Duration {
        .nanoseconds(left.nanoseconds) - .nanoseconds(right.nanoseconds)
    }
}
