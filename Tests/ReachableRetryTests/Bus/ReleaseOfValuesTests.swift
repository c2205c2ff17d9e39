import Reachability
import ReachabilityTesting
import ReachableRetry
import Synchronization
import TestSupport
import Testing

/// The bus releases values of its callers outside of its lock, because a `deinit` may use the bus.
@Suite(.timeLimit(.minutes(10))) struct ReleaseOfValuesTests {
    /// Uses the bus in its `deinit`.
    private final class BusUser: Error {
        private let bus: RetryBus
        private let count: Counter

        init(_ bus: RetryBus, _ count: Counter) { (self.bus, self.count) = (bus, count) }

        deinit {
            _ = bus.pending
            count.add()
        }
    }

    @Test func errorsAreReleasedOutsideOfTheLock() async throws {
        let bus = RetryBus(ReachabilityMonitor())
        let count = Counter()
        try await bus.retry(RetryPolicy(.immediate)) { attempt in
            if attempt.number < 5 { throw BusUser(bus, count) }
        }
        _ = try? await bus.retry(RetryPolicy(.immediate).giveUpAfter(maxAttempts: 2)) { _ in throw BusUser(bus, count) }
        #expect(count.value == 6)
    }

    @Test(arguments: [true, false]) func closuresAreReleasedOutsideOfTheLock(detached: Bool) async throws {
        try await Scenario(online: false).run { scenario in
            let bus = scenario.bus
            let count = Counter()
            func submit(_ id: JobID) throws {
                let (held, used) = (BusUser(bus, count), BusUser(bus, count))
                let policy = RetryPolicy(.immediate).giveUpOnErrors { _ in withExtendedLifetime(used) { false } }
                try bus.job(policy, options: JobOptions(id: id)) { _ in _ = held }.onEvent { _ in _ = used }.submit(
                    detached: detached)
            }
            try submit("cancelled")
            try submit("shut down")
            bus.cancel("cancelled")
            await bus.shutdown(drain: .zero)
            #expect(bus.pending.isEmpty)
        }
    }

    @Test func unreadEventsAreReleasedOutsideOfTheLock() async throws {
        let bus = RetryBus(ReachabilityMonitor())
        let count = Counter()
        do {
            let events = bus.events
            _ = try? await bus.retry(RetryPolicy(.immediate).giveUpAfter(maxAttempts: 2)) { _ in throw BusUser(bus, count) }
            withExtendedLifetime(events) {}
        }
        await bus.shutdown(drain: nil)
        #expect(count.value == 2)
    }

    /// A clock that a test sets, even backwards.
    private struct CrookedClock: Clock {
        final class Hand: Sendable {
            let offset = Mutex(Duration.zero)
        }

        let hand = Hand()
        var now: ManualClock.Instant { .init(offset: hand.offset.withLock { $0 }) }
        var minimumResolution: Duration { .nanoseconds(1) }

        func sleep(until deadline: ManualClock.Instant, tolerance: Duration?) async throws {
            let (never, _) = AsyncStream.makeStream(of: Void.self)
            for await _ in never {}
            throw CancellationError()
        }
    }

    @Test func busTimeNeverRunsBackwards() async throws {
        let clock = CrookedClock()
        let bus = RetryBus(ReachabilityMonitor(), clock: clock)
        let events = bus.events
        for seconds in [5, 3, 9, 1] {
            clock.hand.offset.withLock { $0 = .seconds(seconds) }
            try await bus.retry { _ in }
        }
        await bus.shutdown(drain: nil)
        var times: [Duration] = []
        for await event in events { times.append(event.at) }
        #expect(times == [5, 5, 5, 5, 9, 9, 9, 9].map { .seconds($0) })
    }
}
