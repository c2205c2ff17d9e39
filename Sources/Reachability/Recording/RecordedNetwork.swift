internal import Glibc
internal import Synchronization

/// Replays a recording: a monitor that runs on it goes through the same transitions as the one that was recorded, at the same
/// times, without network or privilege.
///
/// ```swift
/// let network = try RecordedNetwork(contentsOf: "home.reach")
/// let monitor = ReachabilityMonitor(network)
/// let transitions = monitor.transitions
/// try await monitor.run()
/// for await transition in transitions { print(transition.at, transition.cause) }
/// ```
///
/// Time comes from the recording. Questions are answered as they were at the batch that is being delivered; one that was asked
/// before, but not then, with the last answer; one that was not asked before with ``ReachabilityError/Code/notRecorded``. The
/// same transitions follow if the monitor has the same configuration and watches the same ``scopes``. A listener that is slower
/// than the replay loses what does not fit its buffer: see ``ReachabilityMonitor/Configuration/bufferedTransitions``.
///
/// Files of rtmon(8) can be read too. They hold events but no look-ups, so that no verdict follows from them: see ``hasAnswers``.
///
/// Safe to use from any thread.
public final class RecordedNetwork: HostResolving {
    private struct Guarded {
        /// Gone while somebody replays, and after that.
        var reader: ReplayReader?
        var report: RecordingReport
        var state: ReplayState
        /// The thread that delivers.
        var deliverer: pthread_t?

        /// Whether the calling thread is within `deliver`: then the monitor asks because of the batch.
        var isDelivering: Bool { deliverer.map { pthread_equal($0, pthread_self()) != 0 } ?? false }
    }

    /// What was watched while the recording was made, by its recorder's account; empty if that does not say.
    public let scopes: [Scope]
    /// Whether it holds the answers to dumps and look-ups, and not events alone.
    public let hasAnswers: Bool
    private let pace: ReplayPace
    private let guarded: Mutex<Guarded>

    /// Makes a source from a function that reads the recording piece by piece.
    ///
    /// - Parameters:
    ///   - pace: how fast batches follow each other.
    ///   - read: returns the next bytes, none at the end; one call after the other, the first ones before this returns.
    /// - Throws: ``ReachabilityError`` if it is no recording, or cannot be read.
    public convenience init(
        pace: ReplayPace = .unlimited, reading read: @escaping @Sendable () throws -> [UInt8]
    ) throws(ReachabilityError) {
        self.init(try ReplayReader(reading: read), pace)
    }

    /// Makes a source from a file, which is read as the replay goes on.
    ///
    /// - Throws: ``ReachabilityError`` if the file cannot be read, or is no recording.
    public convenience init(contentsOf path: String, pace: ReplayPace = .unlimited) throws(ReachabilityError) {
        let file = try RecordingFile(reading: path)
        try self.init(pace: pace) { try file.read() }
    }

    /// Makes a source from a recording in memory.
    ///
    /// - Throws: ``ReachabilityError`` if it is no recording.
    public convenience init(_ bytes: [UInt8], pace: ReplayPace = .unlimited) throws(ReachabilityError) {
        self.init(try ReplayReader(bytes, reading: { [] }), pace)
    }

    private init(_ reader: ReplayReader, _ pace: ReplayPace) {
        self.pace = pace
        scopes = reader.scopes
        hasAnswers = reader.hasAnswers
        guarded = Mutex(
            Guarded(
                reader: reader, report: reader.report, state: ReplayState(hasAnswers: reader.hasAnswers, version: reader.version)))
    }

    /// What was found in the recording, as far as it was read.
    public var report: RecordingReport { guarded.withLock(\.report) }

    /// Delivers the recorded batches at their pace and returns after the last one; once.
    ///
    /// How long the monitor would wait does not matter: the batches that it waited for were recorded, too.
    ///
    /// - Throws: what the recorded source ended with; ``ReachabilityError`` if the recording cannot be read on, or was replayed
    ///   before; `CancellationError` when cancelled.
    public func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
        guard var reader = guarded.withLock({ $0.reader.take() }) else {
            throw ReachabilityError(.alreadyRun, operation: "RecordedNetwork.run(deliver:)")
        }
        let wait = pace.start()
        var beginning: BootInstant?
        while true {
            let window = try reader.next()
            guarded.withLock { $0.report = reader.report }
            guard let window else { break }
            let now = window.batch.now
            try await wait((beginning ?? now).duration(to: now))
            beginning = beginning ?? now
            try Task.checkCancellation()
            play(window, deliver)
        }
        if let failure = reader.report.failure { throw failure }
    }

    /// Nothing: what was added is looked at with the next recorded batch.
    public func wake() {}

    /// Does nothing: the answers about hosts are among the recorded events.
    public func resolve(_ host: String) {}

    /// The links and addresses as they were at the present batch.
    ///
    /// - Throws: the recorded error, or ``ReachabilityError/Code/notRecorded`` before the first dump.
    public func interfaces() throws(ReachabilityError) -> [NetworkInterface] {
        try guarded.withLock { $0.state.interfaces(forBatch: $0.isDelivering) }.get()
    }

    /// Returns the answers as they were at the present batch, or else the last ones before.
    ///
    /// A query fails with the recorded error, or with ``ReachabilityError/Code/notRecorded`` if it was not asked before.
    public func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] {
        guarded.withLock { guarded in
            let isDelivering = guarded.isDelivering
            return queries.map { guarded.state.route(to: $0, forBatch: isDelivering) }
        }
    }

    /// Delivers one batch, on this thread from beginning to end.
    private func play(_ window: ReplayState.Window, _ deliver: (NetworkEventBatch) -> Duration?) {
        guarded.withLock { guarded in
            guarded.state.begin(window)
            guarded.deliverer = pthread_self()
        }
        _ = deliver(window.batch)
        guarded.withLock { $0.deliverer = nil }
    }
}
