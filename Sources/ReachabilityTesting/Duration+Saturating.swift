extension Duration {
    /// The longest duration that can be expressed.
    static let longest = Duration(attoseconds: .max)
    /// The most negative duration that can be expressed.
    static let shortest = Duration(attoseconds: .min)

    /// The sum, or the nearest duration that can be expressed; `+` would trap.
    func addingSaturated(_ other: Duration) -> Duration {
        let (sum, overflows) = attoseconds.addingReportingOverflow(other.attoseconds)
        guard overflows else { return Duration(attoseconds: sum) }
        return other < .zero ? .shortest : .longest
    }

    /// The difference, or the nearest duration that can be expressed; `-` would trap.
    func subtractingSaturated(_ other: Duration) -> Duration {
        let (difference, overflows) = attoseconds.subtractingReportingOverflow(other.attoseconds)
        guard overflows else { return Duration(attoseconds: difference) }
        return other > .zero ? .shortest : .longest
    }
}
