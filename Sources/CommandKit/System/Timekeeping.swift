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

/// The next time at which an actor has something to do; a later call replaces an earlier one.
package struct WakeUp {
    private var task: Task<Void, Never>?

    /// Creates one that is not set.
    package init() {}

    /// Calls the action after a time, once, unless it is set again or cancelled before.
    package mutating func set(
        after time: Duration, on clock: any Clock<Duration>, _ action: @escaping @Sendable () async -> Void
    ) {
        task?.cancel()
        let sleep = Self.sleep(on: clock, for: time)
        task = Task {
            // A cancelled sleep throws.
            guard (try? await sleep()) != nil else { return }
            await action()
        }
    }

    /// Returns a sleep that ends a time after this call, however late it begins.
    private static func sleep(on clock: some Clock<Duration>, for time: Duration) -> @Sendable () async throws -> Void {
        let deadline = clock.now.advanced(by: time)
        return { try await clock.sleep(until: deadline, tolerance: nil) }
    }

    /// Cancels the call.
    package mutating func cancel() {
        task?.cancel()
        task = nil
    }
}
