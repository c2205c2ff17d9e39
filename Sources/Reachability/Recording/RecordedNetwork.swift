internal import Glibc
internal import Synchronization

/// Replays a recording: a monitor that runs on it makes the same transitions as the recorded one, at the same times, without
/// network or privilege.
///
/// ```swift
/// let network = try RecordedNetwork(contentsOf: "home.reach")
/// let monitor = ReachabilityMonitor(network)
/// let transitions = monitor.transitions
/// try await monitor.run()
/// for await transition in transitions { print(transition.at, transition.cause) }
/// ```
///
/// Time comes from the recording. A request gets the answer recorded for the current batch, or else the last answer to the same
/// request; without one it fails with ``ReachabilityError/Code/notRecorded``. The transitions are the same if the monitor has the
/// same configuration and watches the same ``scopes``. A listener that is slower than the replay loses transitions beyond its
/// buffer: see ``ReachabilityMonitor/Configuration/bufferedTransitions``.
///
/// It also reads files of rtmon(8). They hold events without lookups and lead to no verdict: see ``hasAnswers``.
///
/// Safe to use from any thread.
package final class RecordedNetwork: HostResolving, UnderlaySource {
    private struct State {
        /// `nil` during the replay and after it.
        var reader: ReplayReader?
        var report: RecordingReport
        var answers: ReplayState
        /// The thread that delivers a batch.
        var deliverer: pthread_t?

        /// `true` if the calling thread is within `deliver`: the monitor makes the request because of the batch.
        var isDelivering: Bool { deliverer.map { pthread_equal($0, pthread_self()) != 0 } ?? false }
    }

    /// The scopes that were watched during the recording; empty if it does not name them.
    package let scopes: [Scope]
    /// `true` if the recording holds answers to dumps and lookups, `false` if it holds events only.
    package let hasAnswers: Bool
    private let pace: ReplayPace
    private let state: Mutex<State>

    /// Creates a source from a function that reads the recording in pieces.
    ///
    /// - Parameters:
    ///   - pace: the speed of the replay.
    ///   - read: returns the next bytes, none at the end. Called serially, for the first time before this returns.
    /// - Throws: ``ReachabilityError`` if the bytes are no recording, or cannot be read.
    package convenience init(
        pace: ReplayPace = .unlimited, reading read: @escaping @Sendable () throws -> [UInt8]
    ) throws(ReachabilityError) {
        self.init(try ReplayReader(reading: read), pace)
    }

    /// Creates a source from a file, which is read during the replay.
    ///
    /// - Throws: ``ReachabilityError`` if the file cannot be read, or is no recording.
    package convenience init(contentsOf path: String, pace: ReplayPace = .unlimited) throws(ReachabilityError) {
        let file = try RecordingFile(reading: path)
        try self.init(pace: pace) { try file.read() }
    }

    /// Creates a source from a recording in memory.
    ///
    /// - Throws: ``ReachabilityError`` if the bytes are no recording.
    package convenience init(_ bytes: [UInt8], pace: ReplayPace = .unlimited) throws(ReachabilityError) {
        self.init(try ReplayReader(bytes, reading: { [] }), pace)
    }

    private init(_ reader: ReplayReader, _ pace: ReplayPace) {
        self.pace = pace
        scopes = reader.scopes
        hasAnswers = reader.hasAnswers
        let answers = ReplayState(hasAnswers: reader.hasAnswers, version: reader.version)
        state = Mutex(State(reader: reader, report: reader.report, answers: answers))
    }

    /// The contents and the damage of the recording, as far as it was read.
    package var report: RecordingReport { state.withLock(\.report) }

    /// Delivers the recorded batches at their pace and returns after the last one.
    ///
    /// Can be called once.
    ///
    /// The durations that `deliver` returns are ignored: the batches that they led to were recorded, too.
    ///
    /// - Throws: the error that ended the recorded source; ``ReachabilityError`` if reading the recording fails, or it was replayed
    ///   before; `CancellationError` when cancelled.
    package func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
        guard var reader = state.withLock({ $0.reader.take() }) else {
            throw ReachabilityError(.alreadyRun, operation: "RecordedNetwork.run(deliver:)")
        }
        let wait = pace.start()
        var beginning: BootInstant?
        while true {
            let window = try reader.next()
            state.withLock { $0.report = reader.report }
            guard let window else { break }
            let now = window.batch.now
            try await wait((beginning ?? now).duration(to: now))
            beginning = beginning ?? now
            try Task.checkCancellation()
            play(window, deliver)
        }
        if let failure = reader.report.failure { throw failure }
    }

    /// Does nothing: new scopes are evaluated with the next recorded batch.
    package func wake() {}

    /// Does nothing: answers to host lookups are recorded events.
    package func resolve(_ host: String) {}

    /// Returns the links and addresses at the current batch.
    ///
    /// - Throws: the recorded error, or ``ReachabilityError/Code/notRecorded`` before the first dump.
    package func interfaces() throws(ReachabilityError) -> [NetworkInterface] {
        try state.withLock { $0.answers.interfaces(forBatch: $0.isDelivering) }.get()
    }

    /// Returns the answers recorded for the current batch, or else the last known ones.
    ///
    /// A query fails with the recorded error, or with ``ReachabilityError/Code/notRecorded`` if it was never recorded.
    package func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] {
        state.withLock { state in
            let isDelivering = state.isDelivering
            return queries.map { state.answers.route(to: $0, forBatch: isDelivering) }
        }
    }

    package func inspect(_ inspection: Inspection) throws(ReachabilityError) -> UInt32? {
        try state.withLock { $0.answers.index(for: inspection, forBatch: $0.isDelivering) }.get()
    }

    package func links(_ indices: [UInt32]) throws(ReachabilityError) -> [NetworkInterface] {
        try state.withLock { $0.answers.links(indices, forBatch: $0.isDelivering) }.get()
    }

    /// Does nothing: the recording has the events that it has.
    package func watch(gateways: Set<IPAddress>) {}

    /// Delivers one batch on the calling thread.
    private func play(_ window: ReplayState.Window, _ deliver: (NetworkEventBatch) -> Duration?) {
        state.withLock { state in
            state.answers.begin(window)
            state.deliverer = pthread_self()
        }
        _ = deliver(window.batch)
        state.withLock { $0.deliverer = nil }
    }
}

/// The speed of a replay.
package struct ReplayPace: Sendable {
    /// Returns when the batch at this offset from the first one is due.
    typealias Wait = @Sendable (_ offset: Duration) async throws -> Void

    /// The maximum offset of a batch, 100 years; later times in a file are clamped to it.
    private static let longest: Duration = .seconds(3_153_600_000)

    /// Starts the replay's time.
    let start: @Sendable () -> Wait

    /// Delivers batches as fast as the monitor takes them.
    package static let unlimited = ReplayPace(start: { { _ in await Task.yield() } })

    /// Delivers batches at their recorded times, measured by a clock.
    ///
    /// - Parameters:
    ///   - clock: the clock of the replay.
    ///   - speed: the recorded seconds per second of the clock: 2 is twice as fast. Clamped to 0.001 … 1 000 000; NaN is treated
    ///     as 1.
    package static func following(_ clock: some Clock<Duration>, speed: Double = 1) -> ReplayPace {
        let speed = speed.isNaN ? 1 : min(max(speed, 0.001), 1_000_000)
        return ReplayPace(start: {
            let start = clock.now
            return { offset in
                let offset = min(max(offset, .zero), longest)
                try await clock.sleep(until: start.advanced(by: offset / speed), tolerance: nil)
            }
        })
    }
}
