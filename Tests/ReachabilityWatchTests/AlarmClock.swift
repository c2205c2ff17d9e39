import Synchronization

/// A clock that stands still until a test lets the time of everybody run out.
final class AlarmClock: Clock {
    struct Instant: InstantProtocol {
        var offset: Duration

        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private let (alarms, alarm) = AsyncStream.makeStream(of: Void.self)

    var now: Instant { Instant(offset: .zero) }
    var minimumResolution: Duration { .nanoseconds(1) }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        for await _ in alarms { return }
        throw CancellationError()
    }

    /// Ends the sleep of one sleeper, present or future.
    func ring() { alarm.yield() }
}
