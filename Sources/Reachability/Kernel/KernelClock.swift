internal import CNetlink

/// The clocks that the reader looks at: the kernel's (clock_gettime(2)).
package struct KernelClock: Sendable {
    /// How long the machine was suspended beside what the kernel knows of: a test's.
    // The clocks themselves are no closures: they are read between each event and its verdict.
    package var pretendedSuspension: (@Sendable () -> Duration)?

    /// The kernel's clocks.
    package init() {}

    /// Time since boot, suspension included (CLOCK_BOOTTIME).
    var bootTime: Duration {
        let time = Duration.nanoseconds(cnl_boot_time())
        guard let pretendedSuspension else { return time }
        return time.saturatingAdd(pretendedSuspension())
    }

    /// Time since boot without suspension (CLOCK_MONOTONIC).
    var monotonicTime: Duration { .nanoseconds(cnl_monotonic_time()) }

    /// Time since 1970-01-01T00:00:00Z (CLOCK_REALTIME).
    var wallTime: Duration { .nanoseconds(cnl_wall_time()) }

    /// How long the machine has been suspended since boot.
    var suspended: Duration { bootTime.saturatingSubtract(monotonicTime) }
}
