internal import CNetlink

/// The kernel's clocks (clock_gettime(2)).
enum KernelClock {
    /// Time since boot, suspension included.
    static var now: Duration { .nanoseconds(cnl_boot_time()) }
    /// Time since 1970-01-01T00:00:00Z.
    static var wallTime: Duration { .nanoseconds(cnl_wall_time()) }
    /// How long the machine has been suspended since boot.
    static var suspended: Duration { .nanoseconds(cnl_boot_time() - cnl_monotonic_time()) }

    /// A duration in nanoseconds, or the nearest number that can be written.
    static func nanoseconds(_ duration: Duration) -> Int64 {
        Int64(clamping: duration.attoseconds / 1_000_000_000)
    }
}

/// Notices that the machine was suspended: CLOCK_BOOTTIME has moved and CLOCK_MONOTONIC has not.
struct Suspension {
    /// Less than this is no suspension but the time between two readings.
    private static let least: Duration = .seconds(1)

    private var known = KernelClock.suspended

    /// How long the machine was suspended since the last call, if it was.
    mutating func check() -> Duration? {
        let total = KernelClock.suspended
        defer { known = max(known, total) }
        let since = total - known
        return since >= Self.least ? since : nil
    }
}
