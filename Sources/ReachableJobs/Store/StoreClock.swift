internal import FoundationEssentials

/// An instant on a store's clock, in nanoseconds since the store was created.
///
/// The clock never runs back, whatever happens to the wall clock: see ``StoreClock``.
package struct StoreInstant: InstantProtocol {
    package var nanoseconds: Int64

    package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    /// Returns the instant that lies a duration later; the sum saturates.
    package func advanced(by duration: Duration) -> StoreInstant {
        StoreInstant(nanoseconds: nanoseconds.addingClamped(duration.nanoseconds))
    }

    /// Returns the time from this instant to another one; the difference saturates.
    package func duration(to other: StoreInstant) -> Duration {
        .nanoseconds(other.nanoseconds.subtractingClamped(nanoseconds))
    }

    package static func < (left: StoreInstant, right: StoreInstant) -> Bool { left.nanoseconds < right.nanoseconds }
}

extension Duration {
    /// The number of whole nanoseconds, clamped to the range of the type.
    package var nanoseconds: Int64 { Int64(clamping: attoseconds / 1_000_000_000) }
}

extension Int64 {
    func addingClamped(_ other: Int64) -> Int64 { Int64(clamping: Int128(self) + Int128(other)) }

    func subtractingClamped(_ other: Int64) -> Int64 { Int64(clamping: Int128(self) - Int128(other)) }
}

/// The clock of a store on one machine: boot time within a boot, wall time from one boot to the next.
///
/// Pure: each reading is an argument. Within a boot only CLOCK_BOOTTIME counts, so that a step of the wall clock moves no
/// deadline. After a reboot the clock goes on by the wall time since the newest stored reading, and so it does if the boot clock is
/// behind that reading, in a machine that was restored from a snapshot. It stands still if the wall clock is behind, too, or before
/// 2020, as on a board without a battery that has not learned the time yet.
package struct StoreClock: Hashable, Sendable {
    package struct Reading: Hashable, Sendable {
        /// The identity of the boot (/proc/sys/kernel/random/boot_id, random(4)).
        var bootID: String
        /// The nanoseconds since boot, suspension included (CLOCK_BOOTTIME, clock_gettime(2)).
        var boot: Int64
        /// The nanoseconds since 1970 on the wall clock.
        var wall: Int64

        var date: Date { Date(timeIntervalSince1970: Double(wall) / 1e9) }
    }

    /// The nanoseconds since 1970 of 2020-01-01, before which a wall clock is not believed.
    private static let earliestWall: Int64 = 1_577_836_800_000_000_000

    /// The newest reading, which stores keep beside the time.
    private(set) var bootID: String
    private(set) var boot: Int64
    private(set) var newestWall: Int64
    private(set) var instant: Int64

    /// Moves the clock to a reading, and returns its time.
    ///
    /// Stores write the clock with their heartbeats and their durable transactions.
    mutating func advance(to reading: Reading) -> StoreInstant {
        let isBelievable = reading.wall >= Self.earliestWall
        if goesOn(with: reading) {
            instant = instant.addingClamped(reading.boot.subtractingClamped(boot))
            boot = reading.boot
        } else {
            if isBelievable, newestWall > 0 {
                instant = instant.addingClamped(max(0, reading.wall.subtractingClamped(newestWall)))
            }
            (bootID, boot) = (reading.bootID, reading.boot)
        }
        if isBelievable { newestWall = max(newestWall, reading.wall) }
        return StoreInstant(nanoseconds: instant)
    }

    /// True if the boot clock tells the time since the newest stored reading.
    func goesOn(with reading: Reading) -> Bool { reading.bootID == bootID && reading.boot >= boot }
}

extension StoreClock {
    init(_ reading: Reading) {
        let wall = reading.wall >= Self.earliestWall ? reading.wall : 0
        self.init(bootID: reading.bootID, boot: reading.boot, newestWall: wall, instant: 0)
    }
}
