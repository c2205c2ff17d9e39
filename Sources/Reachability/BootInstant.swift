/// An instant on a source's clock: the time since boot, suspension included (CLOCK_BOOTTIME, clock_gettime(2)).
///
/// Instants of different machines, or of different boots, cannot be compared.
public struct BootInstant: InstantProtocol, CustomStringConvertible {
    /// The time from boot to the instant.
    public var sinceBoot: Duration

    /// Makes the instant that lies the given time after boot.
    public init(sinceBoot: Duration) { self.sinceBoot = sinceBoot }

    /// Returns the instant that lies a duration later; the sum saturates.
    public func advanced(by duration: Duration) -> BootInstant { BootInstant(sinceBoot: sinceBoot.saturatingAdd(duration)) }

    /// Returns the time from this instant to another one; the difference saturates.
    public func duration(to other: BootInstant) -> Duration { other.sinceBoot.saturatingSubtract(sinceBoot) }

    /// Returns whether an instant is earlier than another one.
    public static func < (left: BootInstant, right: BootInstant) -> Bool { left.sinceBoot < right.sinceBoot }

    /// The time since boot, as `Duration` describes it.
    public var description: String { "\(sinceBoot)" }
}
