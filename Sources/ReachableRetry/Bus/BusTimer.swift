internal import Reachability
internal import Synchronization

/// The one timer of a bus.
///
/// Each change of the bus sets it outside of the bus's lock. One thread at a time arms the clock; the others leave their time to
/// it, so the latest revision counts whatever the order of the threads.
package final class BusTimer: Sendable {
    private struct State {
        var wanted = BusTime.never
        var revision: UInt64 = 0
        var armed = BusTime.never
        /// The turn to arm the clock.
        var turn = PublishingTurn()
        var generation: UInt64 = 0
        var cancelCallback: (@Sendable () -> Void)?
    }

    private let clock: BusClock
    private let state = Mutex(State())

    package init(_ clock: BusClock) { self.clock = clock }

    deinit { state.withLock { $0.cancelCallback }?() }

    /// The time that the timer is set to.
    var time: BusTime { state.withLock(\.armed) }

    /// Sets the timer: calls `fire` once at a time, with that time.
    ///
    /// Replaces an earlier revision. Threads may call in another order than that of their changes.
    package func set(to time: BusTime, revision: UInt64, _ fire: @escaping @Sendable (BusTime) -> Void) {
        state.withLock { state in
            guard revision > state.revision else { return }
            (state.wanted, state.revision) = (time, revision)
        }
        var made: (@Sendable () -> Void)?
        var isContinuing = false
        while let (old, generation, time) = nextStep(isContinuing: isContinuing, made) {
            isContinuing = true
            old?()
            made = nil
            guard !time.isNever else { continue }
            made = clock.schedule(time) { [weak self] in
                if self?.hasFired(generation) == true { fire(time) }
            }
        }
    }

    /// Returns the next arming; `nil` if there is none, or if another thread is arming.
    ///
    /// - Parameter made: Cancels the callback of the step before.
    private func nextStep(
        isContinuing: Bool, _ made: (@Sendable () -> Void)?
    ) -> ((@Sendable () -> Void)?, UInt64, BusTime)? {
        state.withLock { state in
            // The timer may have fired already.
            if let made, !state.armed.isNever { state.cancelCallback = made }
            guard state.turn.take(isContinuing: isContinuing, hasWork: state.wanted != state.armed) else { return nil }
            state.generation += 1
            state.armed = state.wanted
            defer { state.cancelCallback = nil }
            return (state.cancelCallback, state.generation, state.wanted)
        }
    }

    /// Returns true if the timer that fires is the one that is set, and unsets it.
    private func hasFired(_ generation: UInt64) -> Bool {
        // The cancellation closure is released outside of the lock, and the clock's task with it.
        let (hasFired, _) = state.withLock { state -> (Bool, (@Sendable () -> Void)?) in
            guard state.generation == generation, !state.armed.isNever else { return (false, nil) }
            state.armed = .never
            state.wanted = .never
            defer { state.cancelCallback = nil }
            return (true, state.cancelCallback)
        }
        return hasFired
    }
}

/// A clock with callbacks: a bus on a test's clock fires inside the call that advances it.
package protocol SchedulingClock<Duration>: Clock {
    /// Calls `action` when the clock reaches `deadline`; returns a closure that cancels the call.
    func callBack(at deadline: Instant, _ action: @escaping @Sendable () -> Void) -> @Sendable () -> Void

    /// Equal for clocks that show the same time.
    var identity: ObjectIdentifier { get }
}

/// A clock of any type, counted from the creation of the bus.
package struct BusClock: Sendable {
    package let now: @Sendable () -> BusTime
    /// Calls back at a time; returns a closure that cancels the call.
    package let schedule: @Sendable (BusTime, @escaping @Sendable () -> Void) -> @Sendable () -> Void

    init(_ clock: some Clock<Duration>) {
        if let clock = clock as? any SchedulingClock<Duration> {
            self.init(scheduling: clock)
        } else {
            self.init(sleeping: clock)
        }
    }

    private init(scheduling clock: some SchedulingClock<Duration>) {
        let start = clock.now
        now = { BusTime(start.duration(to: clock.now)) }
        schedule = { time, action in clock.callBack(at: start.advanced(by: time.duration), action) }
    }

    private init(sleeping clock: some Clock<Duration>) {
        let start = clock.now
        now = { BusTime(start.duration(to: clock.now)) }
        schedule = { time, action in
            let sleeping = Task.detached {
                do { try await clock.sleep(until: start.advanced(by: time.duration), tolerance: nil) } catch { return }
                action()
            }
            return { sleeping.cancel() }
        }
    }
}
