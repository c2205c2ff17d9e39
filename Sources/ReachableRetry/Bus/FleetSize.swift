internal import Synchronization

/// The number of machines that lose and regain the same servers together.
///
/// A thousand machines whose first jobs try a server in the same instant are too many for it. A bus that knows their number
/// (``RetryBus/Configuration/fleetSize``) spreads: after an edge the first job to each destination waits for a random time of up to
/// 5 ms for each other machine, at most 5 s, and with more than 20 machines the number of its attempts at a time grows slowly.
/// Interactive jobs and ``RetryBus/retryNow(_:ignoringServerDelays:)`` do not wait.
///
/// A member of a fleet has one that follows the nodes that it sees. One object serves any number of buses. Thread-safe.
public final class FleetSize: Sendable {
    private let number: Atomic<Int>

    /// Creates a size; numbers below 1 count as 1, a machine alone.
    public init(_ count: Int = 1) { number = Atomic(max(1, count)) }

    /// The number of machines, this one included.
    public var count: Int { number.load(ordering: .relaxed) }

    /// Changes the number, from the next edge on; numbers below 1 count as 1.
    public func update(_ count: Int) { number.store(max(1, count), ordering: .relaxed) }
}
