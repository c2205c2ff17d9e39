/// Notices that the machine was suspended: CLOCK_BOOTTIME has moved on and CLOCK_MONOTONIC has not.
///
/// Pure.
package struct Suspension: Equatable, Sendable {
    /// Less than this is no suspension but the time between two readings.
    private static let least: Duration = .seconds(1)

    private var known: Duration

    /// - Parameter total: how long the machine has been suspended since boot.
    package init(total: Duration) { known = total }

    /// How long the machine was suspended since this was last called, if it was.
    package mutating func note(total: Duration) -> Duration? {
        let since = total.saturatingSubtract(known)
        if known.isLess(than: total) { known = total }
        return since.isLess(than: Self.least) ? nil : since
    }
}
