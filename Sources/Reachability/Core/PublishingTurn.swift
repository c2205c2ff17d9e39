/// The turn to publish changes, which one thread has at a time.
///
/// Pure; its owner keeps it under the lock of the changes. A thread that made a change takes the turn, or leaves the change to the
/// thread that has it. So changes are published in order, and outside of the lock.
package struct PublishingTurn: Sendable {
    private var isTaken = false

    package init() {}

    /// Takes or keeps the turn if there is work, and gives it back otherwise; returns `true` if the caller has to do the work.
    ///
    /// - Parameters:
    ///   - isContinuing: true if the caller has the turn and has done the work of its last call.
    ///   - hasWork: true if there are changes to publish.
    package mutating func take(isContinuing: Bool, hasWork: Bool) -> Bool {
        guard isContinuing || !isTaken else { return false }
        isTaken = hasWork
        return hasWork
    }
}
