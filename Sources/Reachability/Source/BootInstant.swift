/// An instant on a source's clock: the time since boot, suspension included (CLOCK_BOOTTIME, clock_gettime(2)).
///
/// Instants of different machines, or of different boots, cannot be compared.
public struct BootInstant: InstantProtocol, CustomStringConvertible {
    /// The time from boot to the instant.
    public var sinceBoot: Duration

    /// Makes the instant that lies the given time after boot.
    public init(sinceBoot: Duration) { self.sinceBoot = sinceBoot }

    /// Returns the instant that lies a duration later; the sum saturates.
    public func advanced(by duration: Duration) -> BootInstant { BootInstant(sinceBoot: sinceBoot.saturatingAdd(duration)) }

    /// Returns the time from this instant to another one; the difference saturates.
    public func duration(to other: BootInstant) -> Duration { other.sinceBoot.saturatingSubtract(sinceBoot) }

    /// Returns true if an instant is earlier than another one.
    public static func < (left: BootInstant, right: BootInstant) -> Bool { left.sinceBoot < right.sinceBoot }

    /// The time since boot, as `Duration` describes it.
    public var description: String { "\(sinceBoot)" }
}

extension Duration {
    /// The longest duration.
    package static let longest = Duration(attoseconds: .max)

    /// The number of nanoseconds, clamped to the range of the type.
    var clampedNanoseconds: Int64 { Int64(clamping: attoseconds / 1_000_000_000) }

    /// Returns the result of `<` without a call into the standard library.
    ///
    /// For work on every event: the first call into another library after a rest costs more than many that follow.
    func isLess(than other: Duration) -> Bool { attoseconds < other.attoseconds }

    /// Returns the sum, clamped to the range of the type: a configured duration may have any value.
    package func saturatingAdd(_ other: Duration) -> Duration {
        let (sum, overflow) = attoseconds.addingReportingOverflow(other.attoseconds)
        guard overflow else { return Duration(attoseconds: sum) }
        return Duration(attoseconds: other.attoseconds < 0 ? .min : .max)
    }

    /// Returns the difference, clamped to the range of the type.
    package func saturatingSubtract(_ other: Duration) -> Duration {
        let (difference, overflow) = attoseconds.subtractingReportingOverflow(other.attoseconds)
        guard overflow else { return Duration(attoseconds: difference) }
        return Duration(attoseconds: other.attoseconds < 0 ? .max : .min)
    }
}

extension Duration {
    /// Returns the earlier of two times, or the only one.
    static func earlier(_ one: Duration?, _ other: Duration?) -> Duration? {
        guard let one, let other else { return one ?? other }
        return min(one, other)
    }
}

extension Duration {
    /// The duration as text: `250 ms`, `3.2 s`, `3 h 1 min`.
    ///
    /// Rounded up, so that a remaining time is never zero.
    package var words: String {
        let (whole, rest) = attoseconds.quotientAndRemainder(dividingBy: 1_000_000_000_000_000)
        let milliseconds = whole + (rest > 0 ? 1 : 0)
        guard milliseconds >= 1000 else { return "\(milliseconds) ms" }
        if milliseconds >= 3_600_000 {
            let minutes = milliseconds / 60_000 + (milliseconds % 60_000 > 0 ? 1 : 0)
            return "\(minutes / 60) h" + (minutes % 60 == 0 ? "" : " \(minutes % 60) min")
        }
        let tenths = milliseconds / 100 + (milliseconds % 100 > 0 ? 1 : 0)
        return tenths % 10 == 0 ? "\(tenths / 10) s" : "\(tenths / 10).\(tenths % 10) s"
    }
}
