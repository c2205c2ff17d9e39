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
