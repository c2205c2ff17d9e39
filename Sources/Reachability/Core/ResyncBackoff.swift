/// When to dump links and addresses after losses: at once after the first, then at a slowing pace as long as losses go on.
///
/// Pure.
///
/// A machine that is flooded loses events all the time, and a dump for each loss would keep it busy with nothing else.
package struct ResyncBackoff: Equatable, Sendable {
    private static let first: Duration = .milliseconds(50)
    private static let last: Duration = .seconds(5)

    /// Whether events were lost since the last dump, so that the table of interfaces may be wrong.
    package private(set) var isPending = false
    private var earliest: Duration?
    private var pause = first

    package init() {}

    /// When the next dump is due; `nil` if nothing was lost since the last one.
    package var due: Duration? { isPending ? earliest ?? .zero : nil }

    package func isDue(at now: Duration) -> Bool { due.map { $0 <= now } ?? false }

    package mutating func noteLoss(at now: Duration) {
        // The pause after the last dump has passed without a loss: the flood is over.
        if !isPending, earliest.map({ $0 <= now }) ?? true { pause = Self.first }
        isPending = true
    }

    /// Notes a dump, made for whatever reason.
    package mutating func noteDump(at now: Duration) {
        guard isPending else { return }
        isPending = false
        earliest = now.saturatingAdd(pause)
        pause = min(pause * 2, Self.last)
    }
}
