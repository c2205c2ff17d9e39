import CBench
import Synchronization

/// The stamps that this process shares with the driver.
final class Stamps: Sendable {
    // The memory is mapped as long as the process lives; what is written to it at the same time is atomic.
    private nonisolated(unsafe) let stamps = bench_stamps_inherited()

    /// Something was heard.
    func stamp() { bench_stamp(stamps) }

    /// A verdict was heard; it counts if it is not the last one.
    func note(_ isSatisfied: Bool) {
        let view = isSatisfied ? BENCH_VIEW_REACHABLE : BENCH_VIEW_NONE
        guard view != bench_get_view(stamps) else { return }
        bench_set_view(stamps, view)
        bench_stamp(stamps)
    }
}
