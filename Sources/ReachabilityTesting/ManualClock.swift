internal import Reachability
internal import Synchronization

/// A clock whose time passes only when told to: tests that wait for minutes take microseconds.
///
/// Everything that became due while time passed happens inside ``advance(by:)``, in the order of its time; what was due at the
/// same time happens in the order in which it was registered. Tasks that sleep are resumed there but run on their own
/// executors: use ``nextSleep()`` to meet them when they sleep again.
///
/// Time is counted in whole nanoseconds. Instants and durations that the clock is given are rounded to the nearest one, so that
/// the error of `Duration.seconds(1.1)`, 96 attoseconds, delays nothing: after `advance(by: .seconds(0.1))` and
/// `advance(by: .seconds(0.2))` a sleep of `.seconds(0.3)` has ended, and `now.offset` is `.milliseconds(300)`.
///
/// All members can be used from any thread. The clock runs no code of its callers while it holds its lock.
public final class ManualClock: Clock, Sendable {
    /// A point in the clock's time.
    public struct Instant: InstantProtocol {
        /// The time that passed since the clock's beginning, in whole nanoseconds.
        public let offset: Duration

        /// Makes a point in time.
        ///
        /// - Parameter offset: The time since the clock's beginning; rounded to the nearest nanosecond, halves up.
        public init(offset: Duration = .zero) { self.offset = offset.inWholeNanoseconds }

        /// The point a duration later; the last one that can be expressed if there is none.
        public func advanced(by duration: Duration) -> Instant { Instant(offset: offset.saturatingAdd(duration)) }

        /// How long after this point the other one is; negative if it is before.
        public func duration(to other: Instant) -> Duration {
            other.offset.saturatingSubtract(offset).inWholeNanoseconds
        }

        /// Whether the left point is before the right one.
        public static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    let state: Mutex<ManualClockState>

    /// Makes a clock that shows `now`.
    public init(now: Instant = Instant()) { state = Mutex(ManualClockState(now: now)) }

    /// The time that the clock shows.
    public var now: Instant { state.withLock { $0.now } }

    /// One nanosecond.
    public var minimumResolution: Duration { .nanoseconds(1) }

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
                let (resumed, witness, counters) = state.withLock { state in
                    let (resumed, witness) = state.sleep(key, continuation)
                    return (resumed, witness, state.takeCounters())
                }
                for counter in counters { counter.resume() }
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
        let (sleep, counters) = state.withLock { ($0.removeSleep(key), $0.takeCounters()) }
        sleep?.resume(throwing: CancellationError())
        for counter in counters { counter.resume() }
    }

    /// Suspends until a number of tasks sleep; returns at once if they do.
    ///
    /// - Parameter count: The exact number of sleeping tasks, which ``sleepers`` tells.
    /// - Throws: `CancellationError` when the calling task is cancelled.
    public func untilSleepers(_ count: Int) async throws {
        try Task.checkCancellation()
        let id = state.withLock { $0.makeKey(.init()).order }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let hasThem = state.withLock { $0.count(id, count, continuation) }
                if hasThem { continuation.resume() }
                if Task.isCancelled { cancelCounter(id) }
            }
        } onCancel: {
            cancelCounter(id)
        }
    }

    private func cancelCounter(_ id: UInt64) {
        state.withLock { $0.counters.removeValue(forKey: id) }?.continuation.resume(throwing: CancellationError())
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
        while let (entry, counters) = state.withLock({ state in state.popDue(by: target).map { ($0, state.takeCounters()) } }) {
            entry.fire()
            for counter in counters { counter.resume() }
        }
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

extension Duration {
    /// The nearest whole number of nanoseconds, halves up; at the ends of the range the last one inside.
    fileprivate var inWholeNanoseconds: Duration {
        let nanosecond: Int128 = 1_000_000_000
        let (quotient, remainder) = attoseconds.quotientAndRemainder(dividingBy: nanosecond)
        // Floor division, so that halves go up on both sides of zero.
        let (floor, rest) = remainder < 0 ? (quotient - 1, remainder + nanosecond) : (quotient, remainder)
        let (rounded, overflow) = (rest * 2 >= nanosecond ? floor + 1 : floor).multipliedReportingOverflow(by: nanosecond)
        return Duration(attoseconds: overflow ? quotient * nanosecond : rounded)
    }
}
