internal import CNetlink

/// The clocks that the reader looks at: the kernel's (clock_gettime(2)), or a test's.
package struct KernelClock: Sendable {
    /// Time since boot, suspension included (CLOCK_BOOTTIME).
    package var bootTime: @Sendable () -> Duration = { .nanoseconds(cnl_boot_time()) }
    /// Time since boot without suspension (CLOCK_MONOTONIC).
    package var monotonicTime: @Sendable () -> Duration = { .nanoseconds(cnl_monotonic_time()) }
    /// Time since 1970-01-01T00:00:00Z (CLOCK_REALTIME).
    package var wallTime: @Sendable () -> Duration = { .nanoseconds(cnl_wall_time()) }

    /// The kernel's clocks.
    package init() {}

    /// How long the machine has been suspended since boot.
    var suspended: Duration { bootTime().saturatingSubtract(monotonicTime()) }
}
