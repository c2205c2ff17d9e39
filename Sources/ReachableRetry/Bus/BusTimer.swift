internal import Synchronization

/// The one timer of a bus.
///
/// Whoever changes what the bus waits for sets it anew, outside the bus's lock. Of several threads one does it for all: so the
/// last word counts, whichever thread comes last.
final class AlarmClock: Sendable {
    private struct Guarded {
        var wanted = BusTime.never
        var revision: UInt64 = 0
        var armed = BusTime.never
        var isArming = false
        var generation: UInt64 = 0
        var takeBack: (@Sendable () -> Void)?
    }

    private let clock: BusClock
    private let guarded = Mutex(Guarded())

    init(_ clock: BusClock) { self.clock = clock }

    deinit { guarded.withLock { $0.takeBack }?() }

    /// The time that it is set to.
    var time: BusTime { guarded.withLock(\.armed) }

    /// Calls `ring` with the time that it was set to, once, at that time.
    ///
    /// Replaces what was set before by a lower revision; threads may come here in another order than they decided in.
    func set(to time: BusTime, revision: UInt64, _ ring: @escaping @Sendable (BusTime) -> Void) {
        guarded.withLock { guarded in
            guard revision > guarded.revision else { return }
            (guarded.wanted, guarded.revision) = (time, revision)
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
        guarded.withLock { guarded in
            guard !guarded.isArming, guarded.wanted != guarded.armed else { return nil }
            guarded.isArming = true
            guarded.generation += 1
            guarded.armed = guarded.wanted
            defer { guarded.takeBack = nil }
            return (guarded.takeBack, guarded.generation, guarded.wanted)
        }
    }

    private func finishStep(_ generation: UInt64, _ takeBack: (@Sendable () -> Void)?) {
        guarded.withLock { guarded in
            guarded.isArming = false
            // It may have rung already.
            if guarded.armed.isNever == false { guarded.takeBack = takeBack }
        }
    }

    /// Whether a time that came is the one that was wanted.
    private func hasRung(_ generation: UInt64) -> Bool {
        // What would have taken it back is released outside of the lock, and with it the clock's task.
        let (hasRung, _) = guarded.withLock { guarded -> (Bool, (@Sendable () -> Void)?) in
            guard guarded.generation == generation, !guarded.armed.isNever else { return (false, nil) }
            guarded.armed = .never
            guarded.wanted = .never
            defer { guarded.takeBack = nil }
            return (true, guarded.takeBack)
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
