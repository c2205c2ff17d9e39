/// The detection of suspensions: CLOCK_BOOTTIME moves on, CLOCK_MONOTONIC does not.
///
/// Pure.
package struct Suspension: Equatable, Sendable {
    /// The least length of a suspension; less is the time between two readings.
    private static let least: Duration = .seconds(1)

    private var known: Duration

    /// - Parameter total: the time that the machine was suspended since boot.
    package init(total: Duration) { known = total }

    /// Returns the length of a suspension since the last call; `nil` if there was none.
    package mutating func note(total: Duration) -> Duration? {
        let since = total.saturatingSubtract(known)
        if known.isLess(than: total) { known = total }
        return since.isLess(than: Self.least) ? nil : since
    }
}
