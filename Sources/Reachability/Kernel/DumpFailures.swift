internal import Synchronization

/// Counts the dumps that failed, and those that were interrupted, one after the other.
///
/// Safe to use from any thread.
final class DumpFailures: Sendable {
    /// How often an interrupted dump is made again before it is taken as it is.
    private static let restartLimit = 5

    private let failures = Atomic(0)
    private let interruptions = Atomic(0)

    /// The number of dumps that failed since the last that did not.
    var inARow: Int { failures.load(ordering: .relaxed) }

    /// Makes a dump and counts how it ends.
    ///
    /// - Parameter dump: makes the dump; its parameter is true if an interrupted one is to be taken as it is.
    func counting<Dump>(_ dump: (_ isLast: Bool) throws(ReachabilityError) -> Dump) throws(ReachabilityError) -> Dump {
        do {
            let result = try dump(interruptions.load(ordering: .relaxed) >= Self.restartLimit)
            failures.store(0, ordering: .relaxed)
            interruptions.store(0, ordering: .relaxed)
            return result
        } catch {
            if error.code == .interrupted {
                interruptions.wrappingAdd(1, ordering: .relaxed)
            } else {
                failures.wrappingAdd(1, ordering: .relaxed)
            }
            throw error
        }
    }
}
