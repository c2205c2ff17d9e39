import Glibc
package import Reachability

/// A time on both clocks: that of transitions, and that of people.
package struct Moment: Hashable, Sendable {
    /// The time since boot, suspension included.
    package var at: BootInstant
    /// The time since 1970-01-01T00:00:00Z.
    package var wallTime: Duration

    /// Creates it.
    package init(at: BootInstant, wallTime: Duration) { (self.at, self.wallTime) = (at, wallTime) }

    /// The present time (clock_gettime(2)).
    package static var now: Moment {
        Moment(at: BootInstant(sinceBoot: read(CLOCK_BOOTTIME)), wallTime: read(CLOCK_REALTIME))
    }

    private static func read(_ clock: clockid_t) -> Duration {
        var time = timespec()
        clock_gettime(clock, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }
}

/// The beginning of a scope's present status, from transition to transition.
package struct StatusClock: Sendable {
    /// The time since which the status has lasted; `nil` before the first transition.
    package private(set) var since: BootInstant?
    /// False if the status may be older: of a baseline, or behind lost transitions.
    package private(set) var isExact = false

    /// Creates it, before the first transition.
    package init() {}

    /// Takes a transition.
    ///
    /// - Parameter hasGap: True if transitions before this one were lost.
    /// - Returns: The time since the status changed before, or since the baseline; `nil` for a baseline and after a gap.
    package mutating func elapsed(before transition: Transition, hasGap: Bool = false) -> Duration? {
        let elapsed = transition.isBaseline || hasGap ? nil : since.map { max(.zero, $0.duration(to: transition.at)) }
        let isChange = transition.previous?.status != transition.current.status
        if isChange || hasGap || since == nil { (since, isExact) = (transition.at, isChange && !transition.isBaseline) }
        return elapsed
    }
}

/// The time since its creation, by any clock.
package struct Stopwatch: Sendable {
    /// Returns the time since the creation.
    package let elapsed: @Sendable () -> Duration
    /// Sleeps until a time since the creation; throws if the task is cancelled.
    package let sleep: @Sendable (_ time: Duration) async throws -> Void

    /// Starts it.
    package init(_ clock: some Clock<Duration>) {
        let start = clock.now
        elapsed = { start.duration(to: clock.now) }
        sleep = { time in try await clock.sleep(until: start.advanced(by: time), tolerance: nil) }
    }
}

/// The next call of an actor by a clock; a later setting replaces an earlier one.
package struct ActorTimer {
    private var task: Task<Void, Never>?

    /// Creates one that is not set.
    package init() {}

    /// Calls the action after a time, once, unless it is set again or cancelled before.
    package mutating func set(
        after time: Duration, on clock: any Clock<Duration>, _ action: @escaping @Sendable () async -> Void
    ) {
        set(Stopwatch(clock), at: time, action)
    }

    /// Calls the action at a time of a stopwatch, as above.
    package mutating func set(_ stopwatch: Stopwatch, at time: Duration, _ action: @escaping @Sendable () async -> Void) {
        task?.cancel()
        task = Task {
            // A cancelled sleep throws.
            guard (try? await stopwatch.sleep(time)) != nil else { return }
            await action()
        }
    }

    /// Cancels the call.
    package mutating func cancel() {
        task?.cancel()
        task = nil
    }
}
