import Reachability

/// Brings the lines of all scopes into one order. A slow reader holds up this actor only; the streams drop what overflows.
actor TransitionPrinter {
    private let session: WatchSession
    private var writers: [TransitionText]
    private var sequences: [SequenceCheck]
    private var drops: DropNotice
    private let elapsed: @Sendable () -> Duration
    private var written = 0
    private var knownFailure: ReachabilityError?
    private var knownImpairment: ReachabilityError?
    /// Why lines can no longer be written.
    private(set) var failure: OutputFailure?

    init(_ session: WatchSession) {
        self.session = session
        writers = session.scopes.map {
            TransitionText(
                style: session.style, scope: session.scopes.count > 1 ? $0.description : nil, localOffset: session.localOffset)
        }
        sequences = session.scopes.map { _ in SequenceCheck() }
        drops = DropNotice(hasReader: session.outputHasReader)
        elapsed = stopwatch(session.clock)
    }

    /// Writes a line, and returns whether it was the last one.
    func isFull(after transition: Transition, ofScopeAt index: Int) -> Bool {
        guard failure == nil, session.count.map({ written < $0 }) ?? true else { return true }
        // Health is told after transitions, and this may be the last one.
        remark(on: session.monitor.health)
        let scope = session.scopes[index]
        let missed = sequences[index].missed(before: transition)
        if missed > 0 {
            writers[index].forget()
            drops.dropped(missed, of: escapedForTerminal(scope.description), now: elapsed()).forEach(note)
        }
        let line =
            switch session.format {
            case .text: writers[index].line(for: transition)
            case .json: JSONValue.transition(transition, of: scope).description
            }
        do {
            try session.output.write(line)
        } catch {
            failure = error
            return true
        }
        written += 1
        return written == session.count
    }

    /// Writes notes that concern all lines, each once: no events, and requests that fail.
    func remark(on health: MonitorHealth) {
        if health.impairment != knownImpairment {
            switch health.impairment {
            case .some(let cause) where health.mode == .blind: note("blind: \(cause)")
            case .some(let cause): note("polling, because events are not available: \(cause)")
            case nil: note("events are available again.")
            }
        }
        knownImpairment = health.impairment
        if let failure = health.lastFailure, failure != knownFailure, failure != health.impairment { note("\(failure)") }
        knownFailure = health.lastFailure
    }

    /// Says what was held back, at the end.
    func finish() { drops.rest().forEach(note) }

    private func note(_ text: String) { try? session.notes.write("reachability-watch: \(text)") }
}

/// Returns a function that measures the time since this call.
private func stopwatch(_ clock: some Clock<Duration>) -> @Sendable () -> Duration {
    let start = clock.now
    return { start.duration(to: clock.now) }
}
