import CommandKit
import Reachability

/// The observations of the watched scopes, in memory until they are in the file.
///
/// While the file cannot be written, as on a full disk, the last observations wait in memory, so that the timeline of this run is
/// complete; a failure is reported once, and its end, too.
actor History {
    /// The number of observations that wait in memory.
    static let capacity = 10_000
    /// The time for which observations are kept in the file.
    static let retention = Duration.seconds(30 * 86_400)
    /// The number of observations that are kept in the file.
    static let maxObservations = 200_000

    /// Opens the file; `nil` to keep observations in memory only.
    private let opening: (@Sendable () throws(CommandFailure) -> any HistoryStorage)?
    private var file: (any HistoryStorage)?
    private let scopes: [String]
    private let report: @Sendable (String) -> Void
    private var waiting: [Observation] = []
    /// The last sign of life; `nil` before the first.
    private var lastSign: Moment?
    /// The last observation of each scope.
    private var states: [String: Observation] = [:]
    /// The number of the first waiting observations that are being written.
    private var inFlight = 0
    /// The last write, after which the next one begins.
    private var writing: Task<Void, Never>?
    /// The failure of the file; `nil` if the last write succeeded.
    private(set) var problem: String?

    /// - Parameters:
    ///   - scopes: The watched scopes.
    ///   - opening: Opens the file; `nil` to keep observations in memory only.
    ///   - report: Writes a message.
    init(
        _ scopes: [Scope], opening: (@Sendable () throws(CommandFailure) -> any HistoryStorage)?,
        report: @escaping @Sendable (String) -> Void
    ) {
        (self.opening, self.report) = (opening, report)
        self.scopes = scopes.map(\.description)
    }

    /// The path of the file; `nil` for none.
    var path: String? { file?.path }
    /// False if observations are kept in memory only.
    nonisolated var isKept: Bool { opening != nil }

    /// Opens the file; a full or failing disk is reported, and tried again with each write.
    ///
    /// - Throws: ``CommandFailure`` if the file is of another program or user, or cannot be created there.
    func open() throws(CommandFailure) {
        do throws(CommandFailure) {
            file = try opening?()
        } catch {
            guard error.status == .outputFailed else { throw error }
            note(error)
        }
    }

    /// Adds an observation, which ``write(now:isEnd:)`` writes.
    func add(_ observation: Observation) {
        if let at = observation.sinceBoot { noteLife(at: Moment(at: BootInstant(sinceBoot: at), wallTime: observation.time)) }
        states[observation.scope] = observation
        append(observation)
    }

    /// Notes that the service runs.
    ///
    /// As in a log with heartbeats, a long silence is unknown time: the machine was suspended, or the process stopped.
    func noteLife(at moment: Moment) {
        guard let last = lastSign else { return lastSign = moment }
        // The one of a transition may come later.
        if moment.at > last.at { lastSign = moment }
        guard last.at.duration(to: moment.at) > Timeline.longestSilence else { return }
        // Entries without a number: none is missing between them.
        for state in states.values where state.status != .unknown {
            append(
                Observation(
                    kind: .transition, time: last.wallTime, sinceBoot: last.at.sinceBoot, scope: state.scope, status: .unknown,
                    kinds: []))
            var present = state
            (present.kind, present.kinds, present.losses) = (.transition, [], nil)
            (present.time, present.sinceBoot) = (moment.wallTime, moment.at.sinceBoot)
            append(present)
        }
    }

    private func append(_ observation: Observation) {
        waiting.append(observation)
        guard waiting.count > Self.capacity else { return }
        waiting.removeFirst()
        inFlight = max(0, inFlight - 1)
    }

    /// Writes waiting observations, and the present time as the last one at which the service ran.
    ///
    /// - Parameter isEnd: True for the last call of a service that ends in an orderly manner.
    func write(now: Duration, isEnd: Bool = false) async {
        let before = writing
        let write = Task {
            await before?.value
            await writeAll(now: now, isEnd: isEnd)
        }
        writing = write
        await write.value
    }

    private func writeAll(now: Duration, isEnd: Bool) async {
        guard let opening else { return }
        repeat {
            inFlight = waiting.count
            defer { inFlight = 0 }
            do {
                let file = try file ?? opening()
                self.file = file
                try await file.write(waiting, alive: now, isEnd: isEnd)
                waiting.removeFirst(inFlight)
                if problem != nil { report("the history is written again") }
                problem = nil
            } catch {
                note(error)
            }
        } while !waiting.isEmpty && problem == nil
    }

    private func note(_ error: any Error) {
        let message = "\(error)"
        if problem == nil { report("\(message); until then the last changes are kept in memory") }
        problem = message
    }

    /// Removes what is too old.
    func prune(now: Duration) async {
        try? await file?.prune(before: now.saturatingSubtract(Self.retention), keeping: Self.maxObservations)
    }

    /// Returns the timeline of each scope.
    ///
    /// - Parameters:
    ///   - start: The begin of the timelines.
    ///   - now: Their end, at which the service runs.
    func timelines(from start: Duration, until now: Duration) async -> [TimelineSummary] {
        let unwritten = waiting
        let first = unwritten.first?.time
        let empty = scopes.map { Timeline(scope: $0, from: start, until: now) }
        // One at a time: a month may have more observations than memory is wanted for.
        let stored = try? await file?.reduce(into: (timelines: empty, known: Set<Observation>()), from: start, of: scopes) {
            found, observation in
            Self.add(observation, to: &found.timelines)
            if let first, observation.time >= first { found.known.insert(observation) }
        }
        var (timelines, known) = stored ?? (empty, [])
        // What was written meanwhile is in both.
        for observation in unwritten where !known.contains(observation) { Self.add(observation, to: &timelines) }
        // A sign of life would say that earlier signs are missing.
        Self.add(.end(at: now), to: &timelines)
        return timelines.map { $0.finish(at: now) }
    }

    private static func add(_ observation: Observation, to timelines: inout [Timeline]) {
        for index in timelines.indices where observation.scope == timelines[index].scope || !observation.hasState {
            timelines[index].add(observation)
        }
    }
}

/// A place where observations are kept.
protocol HistoryStorage: Sendable {
    /// The path of the file.
    var path: String { get }

    /// Appends observations of this run, all or none, and notes that it is alive.
    func write(_ observations: [Observation], alive: Duration, isEnd: Bool) async throws

    /// Removes observations before a time except the last one of each scope, and the oldest beyond a number.
    func prune(before time: Duration, keeping count: Int) async throws

    /// Combines the observations of scopes from a time on, with the last one of each scope before it, in the order of their
    /// addition.
    ///
    /// An earlier run has an `end` at the last time at which it is known to have run.
    func reduce<Result: Sendable>(
        into initial: Result, from start: Duration, of scopes: [String],
        _ update: @escaping @Sendable (inout Result, Observation) -> Void
    ) async throws -> Result
}

extension Observation {
    /// Returns the end of a watch.
    static func end(at time: Duration) -> Observation {
        Observation(kind: .end, time: time, scope: "", status: .unknown, kinds: [])
    }
}
