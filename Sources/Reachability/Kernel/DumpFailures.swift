internal import Synchronization

/// Counts the dumps that failed one after the other.
///
/// Safe to use from any thread.
final class DumpFailures: Sendable {
    private let count = Atomic(0)

    /// How many dumps failed since the last that did not.
    var inARow: Int { count.load(ordering: .relaxed) }

    /// Makes a dump and counts how it ends.
    func counting<Dump>(_ dump: () throws(ReachabilityError) -> Dump) throws(ReachabilityError) -> Dump {
        do {
            let result = try dump()
            count.store(0, ordering: .relaxed)
            return result
        } catch {
            count.wrappingAdd(1, ordering: .relaxed)
            throw error
        }
    }
}
