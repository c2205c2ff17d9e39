import Reachability

/// What `replay` does: it writes a line for each transition that a recording leads to.
struct ReplaySession {
    let network: RecordedNetwork
    /// Whether the replay takes its time, so that lines are to be written as they come.
    var isPaced = false
    var isRaw = false
    var format = OutputFormat.text
    var style = TextStyle()
    var localOffset: @Sendable (Duration) -> Int = { _ in 0 }
    let output: any LineOutput
    /// Where remarks about the recording go.
    let notes: any LineOutput

    /// Replays to the end, or until the output fails.
    func run() async -> WatchSession.End {
        guard network.hasAnswers else {
            note("this is a file of rtmon: it holds events and no verdicts. For these record with `reachability-watch record`.")
            let end = await EventListing(self).run()
            noteRemarks()
            return end
        }
        var configuration = ReachabilityMonitor.Configuration()
        // A recording of days passes in a moment, and every line of it counts.
        configuration.bufferedTransitions = .max
        let watch = WatchSession(
            monitor: ReachabilityMonitor(network, configuration: configuration),
            scopes: network.scopes.isEmpty ? [.internet] : network.scopes, isRaw: isRaw, format: format, style: style,
            localOffset: localOffset, output: output, notes: notes)
        let printer = TransitionPrinter(watch)
        let error = isPaced ? await printAsItComes(watch, printer) : await printInOrder(watch, printer)
        if let failure = await printer.failure { return .outputFailed(failure) }
        return end(after: error)
    }

    private func printAsItComes(_ watch: WatchSession, _ printer: TransitionPrinter) async -> ReachabilityError? {
        let session = MonitorSession(
            monitor: watch.monitor, scopes: watch.scopes, isRaw: isRaw, timeLimit: nil, clock: ContinuousClock())
        let end = await session.run { [network] index, transition in
            if Self.isEndOfRecording(transition, network) { return nil }
            return await printer.isFull(after: transition, ofScopeAt: index) ? .yes : nil
        }
        if case .monitorEnded(let error) = end { return error }
        return nil
    }

    /// Replays first, then brings the transitions of all scopes into the order of their times.
    private func printInOrder(_ watch: WatchSession, _ printer: TransitionPrinter) async -> ReachabilityError? {
        let streams = watch.scopes.map { watch.monitor.transitions(to: $0, raw: isRaw) }
        var error: ReachabilityError?
        do { try await watch.monitor.run() } catch let failure as ReachabilityError { error = failure } catch {}
        var iterators = streams.map { $0.makeAsyncIterator() }
        var next: [Transition?] = []
        for index in iterators.indices { next.append(await iterators[index].next(isolation: #isolation)) }
        while let (index, transition) = Self.earliest(next) {
            next[index] = await iterators[index].next(isolation: #isolation)
            if Self.isEndOfRecording(transition, network) { continue }
            if await printer.isFull(after: transition, ofScopeAt: index) { break }
        }
        return error
    }

    /// Baselines come first, in the order of the scopes.
    private static func earliest(_ transitions: [Transition?]) -> (Int, Transition)? {
        transitions.enumerated().compactMap { index, transition in transition.map { (index, $0) } }
            .min { ($0.1.isBaseline ? 0 : 1, $0.1.at, $0.0) < ($1.1.isBaseline ? 0 : 1, $1.1.at, $1.0) }
    }

    /// Whether the transition says only that the recording is over, which is nothing that happened then.
    private static func isEndOfRecording(_ transition: Transition, _ network: RecordedNetwork) -> Bool {
        transition.cause.kind == .ended && network.report.failure == nil
    }

    private func end(after error: ReachabilityError?) -> WatchSession.End {
        noteRemarks()
        // An error that was recorded is part of the report.
        return error == nil || error == network.report.failure ? .done : .monitorEnded(error)
    }

    private func noteRemarks() {
        let report = network.report
        for remark in report.remarks { note(remark) }
        if network.hasAnswers, !report.isComplete, !report.isTorn {
            note("the recording has no end: its recorder was killed, or is still at work.")
        }
    }

    private func note(_ text: String) { try? notes.write("reachability-watch: \(escapedForTerminal(text))") }
}

extension RecordingReport {
    /// What is to be said about a recording that is not as it should be.
    fileprivate var remarks: [String] {
        var remarks: [String] = []
        func count(_ number: some BinaryInteger, _ noun: String) -> String { number == 1 ? "1 \(noun)" : "\(number) \(noun)s" }
        if let failure { remarks.append("the recorded session ended by an error: \(failure)") }
        if malformed > 0 {
            remarks.append("\(count(malformed, "damaged record")) left out: something may be missing here.")
        }
        if skipped > 0 { remarks.append("\(count(skipped, "record")) left out that this version has no use for.") }
        if lost > 0 { remarks.append("\(count(lost, "record")) missing: the disk was too slow while the recording was made.") }
        if let tornAt {
            remarks.append("the recording ends in the middle of an entry at byte \(tornAt); everything before it was replayed.")
        }
        return remarks
    }
}
