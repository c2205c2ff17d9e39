import CoreMetrics
import Dispatch
import Logging
import Reachability
import ReachabilityTesting
import ReachableRetry
import Synchronization
import Testing

/// A blocking logger delays neither listeners nor timers, and its queue is bounded.
@Suite(.timeLimit(.minutes(10))) struct BlockedLoggerTests {
    /// Blocks in its first line until a test releases it.
    private final class Blocking: LogHandler, Sendable {
        private let state = Mutex((lines: [String](), isBlocked: true))
        let (entered, enter) = AsyncStream.makeStream(of: Void.self)
        private let isOpen = DispatchSemaphore(value: 0)

        var lines: [String] { state.withLock(\.lines) }
        func open() { isOpen.signal() }

        subscript(metadataKey _: String) -> Logger.Metadata.Value? {
            get { nil }
            set {}
        }
        var metadata: Logger.Metadata {
            get { [:] }
            set {}
        }
        var logLevel: Logger.Level {
            get { .trace }
            set {}
        }

        func log(event: LogEvent) {
            let isFirst = state.withLock { state in
                state.lines.append("\(event.message) \(event.metadata?["retry.dropped"] ?? "")")
                defer { state.isBlocked = false }
                return state.isBlocked
            }
            guard isFirst else { return }
            enter.yield()
            isOpen.wait()
        }
    }

    @Test func listenersAndTimersDoNotWaitForIt() async throws {
        let handler = Blocking()
        let clock = ManualClock()
        var configuration = RetryBus.Configuration()
        configuration.logger = Logger(label: "test") { _ in handler }
        configuration.bufferedEvents = 100_000
        let bus = RetryBus(ReachabilityMonitor(), configuration: configuration, clock: clock)
        let events = bus.events
        // The main thread blocks in the logger while its attempt runs: the threads of the pool are needed.
        let first = Task { @MainActor in
            try await bus.retry(
                RetryPolicy(.constant(.seconds(5))).giveUpAfter(elapsed: .seconds(60)), options: JobOptions(id: "first")
            ) { attempt in
                if attempt.number == 1 { throw CancellationError() }
            }
        }
        for await _ in handler.entered { break }
        #expect(bus.nextWakeUp == .seconds(60), "the timer of the job is armed before the event is published")
        for _ in 0..<5000 { try await bus.retry { _ in } }
        var received = 0
        for await event in events where event.job != "first" {
            received += 1
            if received == 10_000 { break }
        }
        handler.open()
        try await bus.parked("first")
        #expect(bus.nextWakeUp == .seconds(5))
        clock.advance(by: .seconds(5))
        try await first.value
        await bus.shutdown(drain: nil)
        let lines = handler.lines
        #expect(lines.count < 4200, "\(lines.count)")
        #expect(lines.contains { $0.hasPrefix("events of jobs were not logged") && !$0.hasSuffix(" ") })
    }
}

/// Blocking metrics delay no listener, and count the events that they were too slow for.
@Suite(.timeLimit(.minutes(10))) struct BlockedMetricsTests {
    /// Counts, and blocks at the first count until a test releases it.
    private final class Blocking: MetricsFactory, Sendable {
        private let counts = Mutex<[String: Int64]>([:])
        let (entered, enter) = AsyncStream.makeStream(of: Void.self)
        private let isOpen = DispatchSemaphore(value: 0)

        func count(_ label: String) -> Int64 { counts.withLock { $0[label] ?? 0 } }
        func open() { isOpen.signal() }

        private final class Counting: CounterHandler, Sendable {
            let label: String
            let factory: Blocking
            init(_ label: String, _ factory: Blocking) { (self.label, self.factory) = (label, factory) }
            func increment(by amount: Int64) { factory.add(amount, to: label) }
            func reset() {}
        }

        private func add(_ amount: Int64, to label: String) {
            let isFirst = counts.withLock { counts in
                defer { counts[label, default: 0] += amount }
                return counts.isEmpty
            }
            guard isFirst else { return }
            enter.yield()
            isOpen.wait()
        }

        func makeCounter(label: String, dimensions _: [(String, String)]) -> any CounterHandler { Counting(label, self) }
        func makeRecorder(label _: String, dimensions _: [(String, String)], aggregate _: Bool) -> any RecorderHandler {
            NOOPMetricsHandler.instance
        }
        func makeTimer(label _: String, dimensions _: [(String, String)]) -> any TimerHandler { NOOPMetricsHandler.instance }
        func destroyCounter(_: any CounterHandler) {}
        func destroyRecorder(_: any RecorderHandler) {}
        func destroyTimer(_: any TimerHandler) {}
    }

    @Test func droppedEventsAreCounted() async throws {
        let metrics = Blocking()
        var configuration = RetryBus.Configuration()
        configuration.metrics = metrics
        configuration.bufferedEvents = 100_000
        let bus = RetryBus(ReachabilityMonitor(), configuration: configuration, clock: ManualClock())
        let events = bus.events
        // The main thread blocks in the metrics: the threads of the pool are needed.
        let first = Task { @MainActor in try await bus.retry(options: JobOptions(id: "first")) { _ in } }
        for await _ in metrics.entered { break }
        for _ in 0..<5000 { try await bus.retry { _ in } }
        var received = 0
        for await event in events where event.job != "first" {
            received += 1
            if received == 10_000 { break }
        }
        metrics.open()
        try await first.value
        await bus.shutdown(drain: nil)
        let (dropped, counted) = (metrics.count("retry.metrics.dropped"), metrics.count("retry.succeeded"))
        #expect(dropped > 5000 && counted > 2000 && counted < 3000, "\(dropped) dropped, \(counted) counted")
    }
}
