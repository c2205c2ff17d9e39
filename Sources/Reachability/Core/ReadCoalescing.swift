/// Tells when events come so fast that the reader does better to let them gather.
///
/// Pure.
///
/// Who keeps up with a flood is woken for every few datagrams, and then waking up is most of the work. Network cards help
/// themselves in the same way (`adaptive-rx`, ethtool(8)).
package struct ReadCoalescing: Equatable, Sendable {
    /// How long events gather: what a change in the middle of a flood may come later for it.
    package static let pause: Duration = .microseconds(250)
    /// The least receive buffer that this is done with, in bytes: what comes in a pause has to find room.
    package static let leastBuffer = 200_000

    /// The rate is counted over at least so long.
    private static let window: Duration = .milliseconds(1)
    /// So many datagrams within a window are a flood.
    private static let limit = 64

    private var start: Duration = .zero
    private var count = 0
    /// Whether events are to gather before the next ones are read.
    package private(set) var isFlood = false

    package init() {}

    /// Counts datagrams that were read.
    package mutating func note(_ datagrams: Int, at now: Duration) {
        count += datagrams
        let elapsed = now.saturatingSubtract(start)
        if elapsed.isLess(than: Self.window) { return }
        isFlood = elapsed <= Self.window * (count / Self.limit)
        (start, count) = (now, 0)
    }
}
