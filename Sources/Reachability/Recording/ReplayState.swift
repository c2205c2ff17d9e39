/// The answers at the current batch of a replay: the batch's own, and the last known ones.
package struct ReplayState: Sendable {
    /// A batch with the answers up to the next batch.
    package struct Window: Sendable {
        package var batch: NetworkEventBatch
        package var answers: [RecordingEntry] = []
        /// `true` if no answer is missing.
        ///
        /// Otherwise earlier answers must not replace missing ones: the batch's overrun event marks them as stale.
        package var isWhole = true

        package init(_ batch: NetworkEventBatch) { self.batch = batch }
    }

    /// The interfaces from the dumps and events so far; `nil` before the first dump.
    private var table: InterfaceTable?
    /// The last answer to each query.
    private var known: [RouteQuery: RouteVerdict] = [:]
    /// The batch's answers, in reverse order: the next one is last.
    private var dumps: [Result<[NetworkInterface], ReachabilityError>] = []
    private var verdicts: [RouteQuery: [Result<RouteVerdict, ReachabilityError>]] = [:]
    private var links: [[UInt32]: [Result<[NetworkInterface], ReachabilityError>]] = [:]
    private var inspections: [Inspection: [Result<UInt32?, ReachabilityError>]] = [:]
    private var isWhole = true
    /// `true` if the recording holds one lookup per destination, without a source (format 1).
    private let isPlain: Bool

    /// Creates the state before the first batch.
    ///
    /// - Parameters:
    ///   - hasAnswers: `false` for an rtmon file: the interfaces then follow from the events alone.
    ///   - version: the version of the recording's format.
    package init(hasAnswers: Bool = true, version: UInt16 = RecordingFormat.majorVersion) {
        isPlain = version == 1
        if !hasAnswers { table = InterfaceTable() }
    }

    /// Moves to the next batch.
    ///
    /// Unused answers of the last window, and answers to other callers in this one, are known from now on.
    package mutating func begin(_ window: Window) {
        for dump in dumps.reversed() { learn(dump) }
        for (query, results) in verdicts {
            for result in results.reversed() { learn(query, result) }
        }
        (dumps, verdicts, links, inspections) = ([], [:], [:], [:])
        isWhole = window.isWhole
        for event in window.batch.events { _ = table?.apply(event.payload) }
        for answer in window.answers.reversed() {
            switch answer.content {
            case .interfaces(let answer) where answer.isForBatch: dumps.append(answer.result)
            case .route(let query, let answer) where answer.isForBatch: verdicts[query, default: []].append(answer.result)
            case .links(let indices, let answer) where answer.isForBatch: links[indices, default: []].append(answer.result)
            case .inspection(let inspection, let answer): inspections[inspection, default: []].append(answer.result)
            default: break
            }
        }
        for answer in window.answers {
            switch answer.content {
            case .interfaces(let answer) where !answer.isForBatch: learn(answer.result)
            case .route(let query, let answer) where !answer.isForBatch: learn(query, answer.result)
            default: break
            }
        }
    }

    /// Returns the batch's next dump, or else the last known interfaces.
    package mutating func interfaces(forBatch: Bool) -> Result<[NetworkInterface], ReachabilityError> {
        if forBatch, let dump = dumps.popLast() {
            learn(dump)
            return dump
        }
        guard isWhole || !forBatch, let table else { return .failure(ReachabilityError(.notRecorded, operation: "RTM_GETLINK")) }
        return .success(table.all)
    }

    /// Returns the batch's next answer to a query, or else the last known one.
    package mutating func route(to query: RouteQuery, forBatch: Bool) -> Result<RouteVerdict, ReachabilityError> {
        if isPlain, query.source != .unspecified || query.port != nil || query.transport != .tcp {
            var plain = query
            (plain.source, plain.port, plain.transport) = (.unspecified, nil, .tcp)
            // The second lookup of a destination gets the answer of the first.
            if !query.fibMatch, let verdict = known[plain] { return .success(verdict) }
            return route(to: plain, forBatch: forBatch)
        }
        if forBatch, let result = verdicts[query]?.popLast() {
            learn(query, result)
            return result
        }
        guard isWhole || !forBatch, let verdict = known[query] else {
            return .failure(ReachabilityError(.notRecorded, operation: "RTM_GETROUTE \(query.destination)"))
        }
        return .success(verdict)
    }

    /// Returns the batch's next answer about links, or else what is known of them.
    package mutating func links(_ indices: [UInt32], forBatch: Bool) -> Result<[NetworkInterface], ReachabilityError> {
        if forBatch, let result = links[indices]?.popLast() { return result }
        guard isWhole || !forBatch, let table else { return .failure(ReachabilityError(.notRecorded, operation: "RTM_GETLINK")) }
        return .success(indices.compactMap { table[$0] })
    }

    /// Returns the batch's next answer about what interfaces stand on.
    package mutating func index(for inspection: Inspection, forBatch: Bool) -> Result<UInt32?, ReachabilityError> {
        inspections[inspection]?.popLast() ?? .failure(ReachabilityError(.notRecorded, operation: "RTM_GETNEIGH"))
    }

    private mutating func learn(_ dump: Result<[NetworkInterface], ReachabilityError>) {
        if case .success(let interfaces) = dump { table = InterfaceTable(interfaces) }
    }

    private mutating func learn(_ query: RouteQuery, _ result: Result<RouteVerdict, ReachabilityError>) {
        if case .success(let verdict) = result { known[query] = verdict }
    }
}
