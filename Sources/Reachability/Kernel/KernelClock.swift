internal import CNetlink

/// The kernel's clocks (clock_gettime(2)).
package struct KernelClock: Sendable {
    /// The suspended time that a test adds to the kernel's.
    // The clocks themselves are no closures: they are read between each event and its verdict.
    package var pretendedSuspension: (@Sendable () -> Duration)?

    /// Creates a reader of the kernel's clocks.
    package init() {}

    /// The time since boot, suspension included (CLOCK_BOOTTIME).
    var bootTime: Duration {
        let time = Duration.nanoseconds(cnl_boot_time())
        guard let pretendedSuspension else { return time }
        return time.saturatingAdd(pretendedSuspension())
    }

    /// The time since boot without suspension (CLOCK_MONOTONIC).
    var monotonicTime: Duration { .nanoseconds(cnl_monotonic_time()) }

    /// The time since 1970-01-01T00:00:00Z (CLOCK_REALTIME).
    var wallTime: Duration { .nanoseconds(cnl_wall_time()) }

    /// The total time since boot in which the machine was suspended.
    var suspended: Duration { bootTime.saturatingSubtract(monotonicTime) }
}

/// A timer that becomes readable when the time of day is set: by a user, or at the end of a suspension (timerfd_create(2)).
///
/// Owned by one thread.
struct ClockChangeTimer: ~Copyable {
    /// The descriptor; negative if there is none.
    ///
    /// The next batch then reveals a suspension.
    let descriptor = cnl_clock_change_timer_open()

    deinit {
        if descriptor >= 0 { cnl_close_descriptor(descriptor) }
    }

    /// Makes the descriptor unreadable until the next change.
    borrowing func clear() {
        if descriptor >= 0 { cnl_clear(descriptor) }
    }
}
