package import ReachableRetry

/// One moment on this machine's two clocks.
package struct FleetInstant: Hashable, Sendable {
    /// The time that passes, for delays.
    package var time: BusTime
    /// The time that people read, since 1970-01-01T00:00:00Z; it may be wrong, and may step.
    package var wall: Duration

    package init(time: BusTime, wall: Duration) { (self.time, self.wall) = (time, wall) }

    /// The wall time in whole seconds, as words carry it; times before 1970 count as 1970.
    package var seconds: UInt64 { Self.seconds(wall) }

    /// Returns whole seconds, clamped to the numbers of words.
    static func seconds(_ duration: Duration) -> UInt64 {
        // Not `components`, which traps for durations beyond 2^63 seconds.
        min(UInt64(clamping: duration.attoseconds / 1_000_000_000_000_000_000), WordCoding.largestNumber)
    }
}
