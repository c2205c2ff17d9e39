internal import Glibc
internal import Synchronization

/// Records the traffic between a monitor and its source, which ``RecordedNetwork`` replays.
///
/// ```swift
/// let file = try RecordingFile(creating: "home.reach")
/// let recorder = NetworkRecorder(KernelNetwork()) { try file.write($0) }
/// let monitor = ReachabilityMonitor(recorder)
/// try await monitor.run()
/// ```
///
/// It saves every batch, dump and lookup with its answer, in the order and form in which the monitor saw them
/// (docs/recording.md). A separate thread calls the sink serially; the source's thread never waits for it. Entries beyond
/// the buffer's limit are dropped, counted, and marked in the recording. An error of the sink ends the recording, not the
/// monitoring.
///
/// Requests before and after the run are answered but not recorded. Safe to use from any thread.
package final class NetworkRecorder: NetworkSource, FilteringSource, HostAnswering, ClockedSource, TaskRunningSource,
    UnderlaySource
{
    /// The progress of a recording.
    package struct Progress: Sendable {
        /// The number of bytes that the sink has taken.
        package var bytesWritten: UInt64
        /// The number of dropped entries.
        package var entriesLost: UInt64
        /// The error of the sink that ended the recording.
        package var failure: (any Error)?
    }

    /// The current or last batch.
    private struct Delivery {
        var now: Duration = .zero
        var wallTime: Duration = .zero
        /// The thread that delivers it; `nil` after the delivery.
        var thread: pthread_t?
    }

    private let source: any NetworkSource
    private let scopes: [Scope]
    private let writer: RecordingWriter
    private let delivery = Mutex(Delivery())
    private let hasRun = Atomic(false)

    /// Creates a source that records another one.
    ///
    /// - Parameters:
    ///   - source: the source to record.
    ///   - scopes: the watched scopes, saved for the replay.
    ///   - bufferLimit: the maximum number of bytes that wait for the sink.
    ///   - sink: takes the next bytes of the recording, and returns when they are saved.
    package init(
        _ source: some NetworkSource, scopes: [Scope] = [.internet], bufferLimit: Int = 4 << 20,
        to sink: @escaping @Sendable ([UInt8]) throws -> Void
    ) {
        self.source = source
        self.scopes = scopes
        writer = RecordingWriter(limit: bufferLimit, sink: sink)
    }

    /// The progress of the recording.
    package var progress: Progress { writer.progress }

    /// Runs the source and records it.
    ///
    /// Can be called once.
    ///
    /// - Throws: the source's error, after the sink has taken everything; ``ReachabilityError`` if the recorder was run before.
    package func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
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
    package func wake() { source.wake() }

    /// Passes the watched addresses to the source.
    package func watch(_ addresses: Set<IPAddress>) { (source as? any FilteringSource)?.watch(addresses) }

    /// Starts a host lookup by the source; the answer is an event.
    package func resolve(_ host: String) { (source as? any HostResolving)?.resolve(host) }

    /// Returns the source's answers without recording them.
    package func answers(for hosts: [String], within limit: Duration?) -> [HostAnswer] {
        (source as? any HostAnswering)?.answers(for: hosts, within: limit) ?? hosts.map { _ in .failed(.notAsked) }
    }

    /// `true` if the source looks up names.
    package var resolvesHosts: Bool { source.answersHosts }

    /// The clock of the source.
    package var sourceClock: (any Clock<Duration>)? { (source as? any ClockedSource)?.sourceClock }

    /// Makes the source run the tasks that wait for its thread.
    package func runTasks() { (source as? any TaskRunningSource)?.runTasks() }

    /// Returns the source's links and addresses.
    package func interfaces() throws(ReachabilityError) -> [NetworkInterface] {
        let result = Result { () throws(ReachabilityError) in try source.interfaces() }
        record { .interfaces(.init(result, isForBatch: $0)) }
        return try result.get()
    }

    /// Returns the source's answers to lookups.
    package func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] {
        let answers = source.routes(to: queries)
        for (query, answer) in zip(queries, answers) {
            record { .route(query, .init(answer, isForBatch: $0)) }
        }
        return answers
    }

    package func inspect(_ inspection: Inspection) throws(ReachabilityError) -> UInt32? {
        let source = try underlaySource()
        let result = Result { () throws(ReachabilityError) in try source.inspect(inspection) }
        record { .inspection(inspection, .init(result, isForBatch: $0)) }
        return try result.get()
    }

    package func links(_ indices: [UInt32]) throws(ReachabilityError) -> [NetworkInterface] {
        let source = try underlaySource()
        let result = Result { () throws(ReachabilityError) in try source.links(indices) }
        record { .links(indices, .init(result, isForBatch: $0)) }
        return try result.get()
    }

    package func watch(gateways: Set<IPAddress>) { (source as? any UnderlaySource)?.watch(gateways: gateways) }

    /// Returns the source if it answers questions about underlays.
    private func underlaySource() throws(ReachabilityError) -> any UnderlaySource {
        guard let source = source as? any UnderlaySource else {
            throw ReachabilityError(.requestFailed, errno: EOPNOTSUPP, operation: "RTM_GETLINK")
        }
        return source
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

    /// Returns the error that the replay throws.
    private static func ending(_ error: any Error) -> ReachabilityError? {
        if error is CancellationError { return nil }
        return error as? ReachabilityError ?? ReachabilityError(.requestFailed, operation: "\(error)")
    }
}

/// Passes entries to a sink on its own thread: callers never wait for the sink.
private final class RecordingWriter: Sendable {
    private enum Phase {
        case idle
        /// Entries are added.
        case open
        /// The last entry was added.
        case finished
        /// The sink failed; later entries are ignored.
        case failed(any Error)
    }

    private struct State {
        var buffer: RecordingBuffer
        var phase = Phase.idle

        var isOpen: Bool { if case .open = phase { true } else { false } }
        var isFinished: Bool { if case .finished = phase { true } else { false } }
    }

    private let state: Mutex<State>
    private let sink: @Sendable ([UInt8]) throws -> Void
    private let wakeUp = EventFD()

    init(limit: Int, sink: @escaping @Sendable ([UInt8]) throws -> Void) {
        state = Mutex(State(buffer: RecordingBuffer(limit: limit)))
        self.sink = sink
    }

    var progress: NetworkRecorder.Progress {
        state.withLock { state in
            var failure: (any Error)?
            if case .failed(let error) = state.phase { failure = error }
            return NetworkRecorder.Progress(
                bytesWritten: state.buffer.written, entriesLost: state.buffer.lost, failure: failure)
        }
    }

    /// Starts the recording with the bytes before all entries.
    func open(_ preamble: [UInt8]) throws(ReachabilityError) {
        guard wakeUp.descriptor >= 0 else {
            throw ReachabilityError(.resourcesExhausted, errno: -wakeUp.descriptor, operation: "eventfd()")
        }
        state.withLock { state in
            state.buffer.appendPreamble(preamble)
            state.phase = .open
        }
        wakeUp.signal()
    }

    /// Adds an entry.
    ///
    /// The thread wakes at the next ``flush()``, or earlier if the buffer fills: a wake-up costs more than everything else.
    func append(_ entry: RecordingEntry) {
        // Encoded outside the lock, and only while recording.
        guard state.withLock(\.isOpen) else { return }
        let bytes = entry.bytes
        let isFilling = state.withLock { state in
            if state.isOpen { state.buffer.append(entry, bytes) }
            return state.buffer.isFilling
        }
        if isFilling { wakeUp.signal() }
    }

    /// Makes the thread write the buffer.
    func flush() { wakeUp.signal() }

    /// Adds the last entry.
    ///
    /// ``run()`` returns when it is written.
    func finish(_ entry: RecordingEntry) {
        state.withLock { state in
            guard state.isOpen else { return }
            state.buffer.finish(entry)
            state.phase = .finished
        }
        wakeUp.signal()
    }

    /// Writes until the last entry is written or the sink fails.
    func run() async {
        do {
            try await SystemThread.run { [self] () throws(ReachabilityError) in writeAll() }
        } catch {
            fail(error)
        }
    }

    private func writeAll() {
        while true {
            let (bytes, isFinished) = state.withLock { ($0.buffer.take(), $0.isFinished) }
            if !bytes.isEmpty {
                do { try sink(bytes) } catch { return fail(error) }
                continue
            }
            if isFinished { return }
            var request = pollfd(fd: wakeUp.descriptor, events: Int16(POLLIN), revents: 0)
            _ = poll(&request, 1, -1)
            wakeUp.clear()
        }
    }

    private func fail(_ error: any Error) {
        state.withLock { $0.phase = .failed(error) }
    }
}
