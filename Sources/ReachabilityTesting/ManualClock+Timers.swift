internal import Synchronization

extension ManualClock {
    /// Names something scheduled.
    public struct Timer: Hashable, Sendable {
        let key: ManualClockState.Key

        /// When it is due.
        public var deadline: Instant { key.deadline }
    }

    /// Has something done when the clock shows `deadline`: by the thread that lets time pass, inside ``advance(by:)``.
    ///
    /// What is due already is done by the next `advance`, even one by zero.
    public func schedule(at deadline: Instant, _ action: @escaping @Sendable () -> Void) -> Timer {
        Timer(key: state.withLock { $0.schedule(deadline, action) })
    }

    /// Takes back something scheduled.
    ///
    /// - Returns: Whether it will not happen; `false` if it has happened, is happening on another thread, or was taken back before.
    @discardableResult
    public func cancel(_ timer: Timer) -> Bool {
        state.withLock { $0.remove(timer.key) } != nil
    }
}
