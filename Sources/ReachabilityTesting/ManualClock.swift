internal import Reachability
internal import Synchronization

/// A clock whose time passes only when told to: tests that wait for minutes take microseconds.
///
/// Everything that became due while time passed happens inside ``advance(by:)``, in the order of its time; what was due at the
/// same time happens in the order in which it was registered. Tasks that sleep are resumed there but run on their own
/// executors: use ``nextSleep()`` to meet them when they sleep again.
///
/// All members can be used from any thread. Nobody else's code runs while the clock holds its lock.
public final class ManualClock: Clock, Sendable {
    /// A point in the clock's time.
    public struct Instant: InstantProtocol {
        /// The time that passed since the clock's beginning.
        public var offset: Duration

        /// Makes a point in time.
        public init(offset: Duration = .zero) { self.offset = offset }

        /// The point a duration later; the last one that can be expressed if there is none.
        public func advanced(by duration: Duration) -> Instant { Instant(offset: offset.saturatingAdd(duration)) }

        /// How long after this point the other one is; negative if it is before.
        public func duration(to other: Instant) -> Duration { other.offset.saturatingSubtract(offset) }

        /// Whether the left point is before the right one.
        public static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    let state: Mutex<ManualClockState>

    /// Makes a clock that shows `now`.
    public init(now: Instant = Instant()) { state = Mutex(ManualClockState(now: now)) }

    /// The time that the clock shows.
    public var now: Instant { state.withLock { $0.now } }

    /// Attoseconds, since the clock counts exactly.
    public var minimumResolution: Duration { Duration(attoseconds: 1) }

    /// When something is due next, a timer or a sleeping task; `nil` if nothing is.
    ///
    /// In the past if it became due and nobody has let time pass since.
    public var nextDeadline: Instant? { state.withLock { $0.nextDeadline } }

    /// How many tasks sleep.
    public var sleepers: Int { state.withLock { $0.sleepers } }

    /// Suspends the task until the clock shows `deadline`; returns at once if it already does.
    ///
    /// The tolerance is ignored: the clock is exact.
    ///
    /// - Throws: `CancellationError` when the task is cancelled, at once and without a trace in the clock.
    public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
        try Task.checkCancellation()
        let key = state.withLock { $0.makeKey(deadline) }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let (resumed, witness) = state.withLock { $0.sleep(key, continuation) }
                resumed?.resume()
                witness?.resume(returning: deadline)
                // The handler may have come before there was anything to cancel. It runs after the task's flag is set, so that
                // one of the two sees the other.
                if Task.isCancelled { cancelSleep(key) }
            }
        } onCancel: {
            cancelSleep(key)
        }
    }

    private func cancelSleep(_ key: ManualClockState.Key) {
        state.withLock { $0.removeSleep(key) }?.resume(throwing: CancellationError())
    }

    /// Suspends until a task sleeps that no earlier call told of, and tells when it wants to wake up.
    ///
    /// The way to meet the code under test: after it returns, that code sleeps and an ``advance(by:)`` will wake it. Sleeps are
    /// told in the order in which they began, each once; those that ended untold are forgotten.
    ///
    /// - Returns: The point in time that the task sleeps until.
    /// - Throws: `CancellationError` when the calling task is cancelled.
    public func nextSleep() async throws -> Instant {
        try Task.checkCancellation()
        let id = state.withLock { $0.makeKey(.init()).order }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                if let deadline = state.withLock({ $0.witness(id, continuation) }) { continuation.resume(returning: deadline) }
                if Task.isCancelled { cancelWitness(id) }
            }
        } onCancel: {
            cancelWitness(id)
        }
    }

    private func cancelWitness(_ id: UInt64) {
        state.withLock { $0.witnesses.removeValue(forKey: id) }?.resume(throwing: CancellationError())
    }

    /// Lets time pass, and everything happen that becomes due on the way.
    ///
    /// The clock shows each thing's own time when it happens; what that schedules within the span happens too. Returns after all
    /// timers have run and all sleeping tasks have been resumed. A negative duration counts as zero: then what is due now happens.
    public func advance(by duration: Duration) { advance(to: now.advanced(by: max(duration, .zero))) }

    /// Lets time pass until the clock shows `target`, like ``advance(by:)``.
    ///
    /// A point in the past counts as now.
    public func advance(to target: Instant) {
        while let entry = state.withLock({ $0.popDue(by: target) }) { entry.fire() }
    }

    /// Lets time pass with nobody awake, as while a machine is suspended: what became due happens now, late.
    ///
    /// Before all of that `first` runs, when the clock already shows the new time.
    public func jump(by duration: Duration, first: () -> Void = {}) {
        state.withLock { $0.now = $0.now.advanced(by: max(duration, .zero)) }
        first()
        advance(by: .zero)
    }
}
