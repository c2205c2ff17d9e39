internal import Synchronization

/// The one timer of a bus.
///
/// Whoever changes what the bus waits for sets it anew, outside the bus's lock. Of several threads one does it for all: so the
/// last word counts, whichever thread comes last.
final class BusTimer: Sendable {
    private struct State {
        var wanted = BusTime.never
        var revision: UInt64 = 0
        var armed = BusTime.never
        var isArming = false
        var generation: UInt64 = 0
        var takeBack: (@Sendable () -> Void)?
    }

    private let clock: BusClock
    private let state = Mutex(State())

    init(_ clock: BusClock) { self.clock = clock }

    deinit { state.withLock { $0.takeBack }?() }

    /// The time that it is set to.
    var time: BusTime { state.withLock(\.armed) }

    /// Calls `ring` with the time that it was set to, once, at that time.
    ///
    /// Replaces what was set before by a lower revision; threads may come here in another order than they decided in.
    func set(to time: BusTime, revision: UInt64, _ ring: @escaping @Sendable (BusTime) -> Void) {
        state.withLock { state in
            guard revision > state.revision else { return }
            (state.wanted, state.revision) = (time, revision)
        }
        while let (old, generation, time) = nextStep() {
            old?()
            guard !time.isNever else {
                finishStep(generation, nil)
                continue
            }
            let takeBack = clock.schedule(time) { [weak self] in
                if self?.hasRung(generation) == true { ring(time) }
            }
            finishStep(generation, takeBack)
        }
    }

    /// What is left to do, or `nil` if nothing is or another thread does it.
    private func nextStep() -> ((@Sendable () -> Void)?, UInt64, BusTime)? {
        state.withLock { state in
            guard !state.isArming, state.wanted != state.armed else { return nil }
            state.isArming = true
            state.generation += 1
            state.armed = state.wanted
            defer { state.takeBack = nil }
            return (state.takeBack, state.generation, state.wanted)
        }
    }

    private func finishStep(_ generation: UInt64, _ takeBack: (@Sendable () -> Void)?) {
        state.withLock { state in
            state.isArming = false
            // It may have rung already.
            if state.armed.isNever == false { state.takeBack = takeBack }
        }
    }

    /// Whether a time that came is the one that was wanted.
    private func hasRung(_ generation: UInt64) -> Bool {
        // What would have taken it back is released outside of the lock, and with it the clock's task.
        let (hasRung, _) = state.withLock { state -> (Bool, (@Sendable () -> Void)?) in
            guard state.generation == generation, !state.armed.isNever else { return (false, nil) }
            state.armed = .never
            state.wanted = .never
            defer { state.takeBack = nil }
            return (true, state.takeBack)
        }
        return hasRung
    }
}

/// A clock that can call back by itself: a bus on a test's clock fires inside the call that lets time pass.
package protocol SchedulingClock<Duration>: Clock {
    /// Calls `action` when the clock shows `deadline`; returns what takes that back.
    func callBack(at deadline: Instant, _ action: @escaping @Sendable () -> Void) -> @Sendable () -> Void
}

/// A clock of any type, that counts from the moment when the bus was made.
struct BusClock: Sendable {
    let now: @Sendable () -> BusTime
    /// Calls back at a time; returns what takes that back.
    let schedule: @Sendable (BusTime, @escaping @Sendable () -> Void) -> @Sendable () -> Void

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
