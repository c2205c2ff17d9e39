/// What a recording says at the batch that is being delivered: which answers follow, and what is known besides.
package struct ReplayState: Sendable {
    /// A batch with the answers that were given until the next one.
    package struct Window: Sendable {
        package var batch: NetworkEventBatch
        package var answers: [RecordingEntry] = []
        /// Whether all answers are there.
        ///
        /// Otherwise what is missing must not be made up for by what was known before: the batch says that it may be wrong.
        package var isWhole = true

        package init(_ batch: NetworkEventBatch) { self.batch = batch }
    }

    /// The interfaces as the dumps and events so far tell; `nil` before anything told of them.
    private var table: InterfaceTable?
    /// The last answer to each question.
    private var known: [RouteQuery: RouteVerdict] = [:]
    /// The answers that belong to the batch, each question's in their order, the next one last.
    private var dumps: [Result<[NetworkInterface], ReachabilityError>] = []
    private var verdicts: [RouteQuery: [Result<RouteVerdict, ReachabilityError>]] = [:]
    private var isWhole = true
    /// If true, the recording holds one lookup per destination, without a source (format 1).
    private let isPlain: Bool

    /// Makes the state before the first batch.
    ///
    /// Without answers, in what is no recording of ours, the interfaces follow from the events alone.
    ///
    /// - Parameter version: the version of the recording's format.
    package init(hasAnswers: Bool = true, version: UInt16 = RecordingFormat.majorVersion) {
        isPlain = version == 1
        if !hasAnswers { table = InterfaceTable() }
    }

    /// Moves on to a batch.
    ///
    /// What was not asked for in the last window is known from now on, and so is what was asked aside in this one.
    package mutating func begin(_ window: Window) {
        for dump in dumps.reversed() { learn(dump) }
        for (query, results) in verdicts {
            for result in results.reversed() { learn(query, result) }
        }
        (dumps, verdicts) = ([], [:])
        isWhole = window.isWhole
        for event in window.batch.events { _ = table?.apply(event.payload) }
        for answer in window.answers.reversed() {
            switch answer.content {
            case .interfaces(let answer) where answer.isForBatch: dumps.append(answer.result)
            case .route(let query, let answer) where answer.isForBatch: verdicts[query, default: []].append(answer.result)
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

    /// The next dump of the batch, or else what is known.
    package mutating func interfaces(forBatch: Bool) -> Result<[NetworkInterface], ReachabilityError> {
        if forBatch, let dump = dumps.popLast() {
            learn(dump)
            return dump
        }
        guard isWhole || !forBatch, let table else { return .failure(ReachabilityError(.notRecorded, operation: "RTM_GETLINK")) }
        return .success(table.all)
    }

    /// The batch's next answer to a question, or else the last one before.
    package mutating func route(to query: RouteQuery, forBatch: Bool) -> Result<RouteVerdict, ReachabilityError> {
        if isPlain, query.source != .unspecified || query.port != nil || query.transport != .tcp {
            var plain = query
            (plain.source, plain.port, plain.transport) = (.unspecified, nil, .tcp)
            // The second lookup of a destination has the answer of the first.
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

    private mutating func learn(_ dump: Result<[NetworkInterface], ReachabilityError>) {
        if case .success(let interfaces) = dump { table = InterfaceTable(interfaces) }
    }

    private mutating func learn(_ query: RouteQuery, _ result: Result<RouteVerdict, ReachabilityError>) {
        if case .success(let verdict) = result { known[query] = verdict }
    }
}
