/// The detection of floods, in which the reader lets events gather.
///
/// Pure.
///
/// Under load, wake-ups for every few datagrams dominate the cost. Network cards do the same (`adaptive-rx`, ethtool(8)).
package struct ReadCoalescing: Equatable, Sendable {
    /// The time for which events gather, and so the delay of a change within a flood.
    package static let pause: Duration = .microseconds(250)
    /// The least size of the receive buffer, in bytes: it has to hold the events of a pause.
    package static let leastBuffer = 200_000

    /// The least time over which the rate is measured.
    private static let window: Duration = .milliseconds(1)
    /// The number of datagrams within a window that make a flood.
    private static let limit = 64

    private var start: Duration = .zero
    private var count = 0
    /// True while events have to gather before the next read.
    package private(set) var isFlood = false

    package init() {}

    /// Counts read datagrams.
    package mutating func note(_ datagrams: Int, at now: Duration) {
        count += datagrams
        let elapsed = now.saturatingSubtract(start)
        if elapsed.isLess(than: Self.window) { return }
        isFlood = elapsed <= Self.window * (count / Self.limit)
        (start, count) = (now, 0)
    }
}
