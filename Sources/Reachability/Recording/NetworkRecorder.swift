internal import Glibc
internal import Synchronization

/// Records what passes between a monitor and its source, so that it can be replayed by ``RecordedNetwork``.
///
/// ```swift
/// let file = try RecordingFile(creating: "home.reach")
/// let recorder = NetworkRecorder(KernelNetwork()) { try file.write($0) }
/// let monitor = ReachabilityMonitor(recorder)
/// try await monitor.run()
/// ```
///
/// It writes each batch, each dump and each look-up with its answer, in their order and as the monitor saw them
/// (docs/recording.md). The sink is called by a thread of its own, one call after the other; the source's thread never
/// waits for it. What comes faster than the sink takes it is dropped beyond the buffer's limit, counted, and marked in the
/// recording. A sink that fails ends the recording, not the monitoring.
///
/// What is asked before or after the run is answered and not recorded. Safe to use from any thread.
public final class NetworkRecorder: NetworkSource, FilteringSource, HostAnswering, TaskRunningSource {
    /// How far a recording has come.
    public struct Progress: Sendable {
        /// How many bytes the sink has taken.
        public var bytesWritten: UInt64
        /// How many entries were dropped.
        public var entriesLost: UInt64
        /// The sink's error that ended the recording, if there was one.
        public var failure: (any Error)?
    }

    /// The batch that is being delivered, or was last.
    private struct Delivery {
        var now: Duration = .zero
        var wallTime: Duration = .zero
        /// The thread that delivers it.
        var thread: pthread_t?
    }

    private let source: any NetworkSource
    private let scopes: [Scope]
    private let writer: RecordingWriter
    private let delivery = Mutex(Delivery())
    private let hasRun = Atomic(false)

    /// Makes a source that records another one.
    ///
    /// - Parameters:
    ///   - source: what is recorded.
    ///   - scopes: what is watched meanwhile, noted for those who replay the recording.
    ///   - bufferLimit: how many bytes may wait for the sink.
    ///   - sink: takes the next bytes of the recording, and returns when they are safe.
    public init(
        _ source: some NetworkSource, scopes: [Scope] = [.internet], bufferLimit: Int = 4 << 20,
        to sink: @escaping @Sendable ([UInt8]) throws -> Void
    ) {
        self.source = source
        self.scopes = scopes
        writer = RecordingWriter(limit: bufferLimit, sink: sink)
    }

    /// How far the recording has come.
    public var progress: Progress { writer.progress }

    /// Runs the source and records it; once.
    ///
    /// - Throws: what the source throws, after the sink has taken everything; ``ReachabilityError`` if the recorder was run before.
    public func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
        guard !hasRun.exchange(true, ordering: .acquiringAndReleasing) else {
            throw ReachabilityError(.alreadyRun, operation: "NetworkRecorder.run(deliver:)")
        }
        let session = RecordingEntry(.session(scopes: scopes), now: .zero, wallTime: .zero)
        try writer.open(RecordingFormat.header + (session.bytes ?? []))
        async let writing: Void = writer.run()
        do {
            try await source.run { [self] in pass($0, to: deliver) }
        } catch {
            finish(Self.ending(error))
            await writing
            throw error
        }
        finish(nil)
        await writing
    }

    /// Wakes the source.
    public func wake() { source.wake() }

    /// Tells the source which addresses are asked about.
    public func watch(_ addresses: Set<IPAddress>) { (source as? any FilteringSource)?.watch(addresses) }

    /// Has the source look a host up; the answer is an event.
    public func resolve(_ host: String) { (source as? any HostResolving)?.resolve(host) }

    /// Returns the source's answers, which are not recorded.
    package func answers(for hosts: [String], within limit: Duration?) -> [HostAnswer] {
        (source as? any HostAnswering)?.answers(for: hosts, within: limit) ?? hosts.map { _ in .failed(.notAsked) }
    }

    /// If false, the source looks up no names.
    package var resolvesHosts: Bool { source.answersHosts }

    /// Lets the source run the tasks that wait for its thread.
    package func runTasks() { (source as? any TaskRunningSource)?.runTasks() }

    /// The source's links and addresses.
    public func interfaces() throws(ReachabilityError) -> [NetworkInterface] {
        let result = Result { () throws(ReachabilityError) in try source.interfaces() }
        record { .interfaces(.init(result, isForBatch: $0)) }
        return try result.get()
    }

    /// Returns the source's answers to lookups.
    public func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] {
        let answers = source.routes(to: queries)
        for (query, answer) in zip(queries, answers) {
            record { .route(query, .init(answer, isForBatch: $0)) }
        }
        return answers
    }

    private func pass(_ batch: NetworkEventBatch, to deliver: (NetworkEventBatch) -> Duration?) -> Duration? {
        delivery.withLock { $0 = Delivery(now: batch.now.sinceBoot, wallTime: batch.wallTime, thread: pthread_self()) }
        writer.append(RecordingEntry(.batch(batch), now: batch.now.sinceBoot, wallTime: batch.wallTime))
        let pause = deliver(batch)
        delivery.withLock { $0.thread = nil }
        writer.flush()
        return pause
    }

    private func record(_ content: (_ isForBatch: Bool) -> RecordingEntry.Content) {
        let delivery = delivery.withLock(\.self)
        let isForBatch = delivery.thread.map { pthread_equal($0, pthread_self()) != 0 } ?? false
        writer.append(RecordingEntry(content(isForBatch), now: delivery.now, wallTime: delivery.wallTime))
        if !isForBatch { writer.flush() }
    }

    private func finish(_ error: ReachabilityError?) {
        let delivery = delivery.withLock(\.self)
        writer.finish(RecordingEntry(.end(error), now: delivery.now, wallTime: delivery.wallTime))
    }

    /// The error that a monitor is told of.
    private static func ending(_ error: any Error) -> ReachabilityError? {
        if error is CancellationError { return nil }
        return error as? ReachabilityError ?? ReachabilityError(.requestFailed, operation: "\(error)")
    }
}
