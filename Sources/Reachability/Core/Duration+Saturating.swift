extension Duration {
    /// The longest duration that can be written.
    package static let longest = Duration(attoseconds: .max)

    /// In nanoseconds, or the nearest number that can be written.
    var clampedNanoseconds: Int64 { Int64(clamping: attoseconds / 1_000_000_000) }

    /// Whether this is less than another: what `<` says, without a call into the standard library.
    ///
    /// For what is done with each event: the first call of another library after a rest costs more than many that follow.
    func isLess(than other: Duration) -> Bool { attoseconds < other.attoseconds }

    /// The sum, or the nearest duration that can be written: a configured duration may be anything.
    package func saturatingAdd(_ other: Duration) -> Duration {
        let (sum, overflow) = attoseconds.addingReportingOverflow(other.attoseconds)
        guard overflow else { return Duration(attoseconds: sum) }
        return Duration(attoseconds: other.attoseconds < 0 ? .min : .max)
    }

    /// The difference, or the nearest duration that can be written.
    package func saturatingSubtract(_ other: Duration) -> Duration {
        let (difference, overflow) = attoseconds.subtractingReportingOverflow(other.attoseconds)
        guard overflow else { return Duration(attoseconds: difference) }
        return Duration(attoseconds: other.attoseconds < 0 ? .max : .min)
    }
}
