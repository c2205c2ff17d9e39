internal import Reachability
internal import Synchronization

/// A clock that stands still until it is told to go on.
///
/// ```swift
/// let clock = ManualClock()
/// let sleeping = Task { try await clock.sleep(for: .seconds(60)) }
/// _ = await clock.nextSleep()          // the task sleeps now
/// clock.advance(by: .seconds(60))      // and now it is awake
/// ```
///
/// Safe to use from any thread. What falls due is fired by the caller of ``advance(by:)``, outside locks.
public final class ManualClock: Clock, Sendable {
    /// A moment: the time since the clock was made.
    public struct Instant: InstantProtocol, Sendable {
        /// The time since the clock was made.
        public var offset: Duration

        /// Makes an instant.
        public init(offset: Duration = .zero) { self.offset = offset }

        /// The instant that is later by a duration; it saturates.
        public func advanced(by duration: Duration) -> Instant { Instant(offset: offset.saturatingAdd(duration)) }
        /// How much later another instant is.
        public func duration(to other: Instant) -> Duration { other.offset.saturatingSubtract(offset) }
        /// Orders instants by time.
        public static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private let state = Mutex(TimerState())

    /// Makes a clock that shows zero.
    public init() {}

    /// The time that the clock shows.
    public var now: Instant { state.withLock(\.now) }

    /// Zero: every instant can be told from every other.
    public var minimumResolution: Duration { .zero }

    /// How many tasks sleep on the clock.
    public var sleepers: Int { state.withLock(\.sleepers) }

    /// Suspends until the clock shows the deadline; not at all if it has passed.
    ///
    /// - Throws: `CancellationError` when the task is cancelled.
    public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
        let id = state.withLock { $0.makeID() }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                let outcome = state.withLock { state -> TimerState.SleepOutcome in
                    state.addSleeper(id, deadline, continuation)
                }
                outcome.perform(continuation)
            }
        } onCancel: {
            let sleeper = state.withLock { $0.cancelSleeper(id) }
            sleeper?.resume(throwing: CancellationError())
        }
    }

    /// Waits until a task sleeps whose sleep no earlier call has returned, and returns its deadline.
    ///
    /// The rendezvous that makes sleeping in tests unnecessary: after it the task under test is asleep. If the waiting task is
    /// cancelled, it returns the time now.
    public func nextSleep() async -> Instant {
        let id = state.withLock { $0.makeID() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let known = state.withLock { $0.awaitSleep(id, continuation) }
                if let known { continuation.resume(returning: known) }
            }
        } onCancel: {
            let (waiter, now) = state.withLock { ($0.cancelWaiter(id), $0.now) }
            waiter?.resume(returning: now)
        }
    }

    /// Moves the time on and fires everything that falls due, in the order of time; what is due at the same time, in the order in
    /// which it was asked for.
    ///
    /// While something fires the clock shows the time it was due.
    ///
    /// Negative durations count as zero.
    public func advance(by duration: Duration) { advance(to: now.advanced(by: max(.zero, duration))) }

    /// Moves the time on to an instant; see ``advance(by:)``.
    public func advance(to instant: Instant) {
        while let due = state.withLock({ $0.takeDue(until: instant) }) { due.fire() }
    }

    // MARK: - For sources

    /// Moves the time on as a suspension does: nothing fires in between, and what fell due fires afterwards, at the new time.
    package func jump(by duration: Duration) {
        state.withLock { $0.jump(by: max(.zero, duration)) }
    }

    /// Calls back when the clock reaches an instant, on the thread of whoever moves it.
    ///
    /// Returns a number to cancel it with.
    package func schedule(at instant: Instant, _ action: @escaping @Sendable () -> Void) -> UInt64 {
        state.withLock { $0.addTimer(instant, action) }
    }

    /// Cancels what ``schedule(at:_:)`` returned; one that has fired is ignored.
    package func cancel(_ id: UInt64) {
        // Released outside the lock: the closure may own anything.
        _ = state.withLock { $0.removeTimer(id) }
    }
}
