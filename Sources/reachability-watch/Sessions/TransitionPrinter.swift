import Reachability

/// Brings the lines of all scopes into one order. A slow reader holds up this actor only; the streams drop what overflows.
actor TransitionPrinter {
    private let session: WatchSession
    private var writers: [TransitionText]
    private var sequences: [SequenceCheck]
    private var written = 0
    private var knownFailure: ReachabilityError?
    private var isPolling = false
    /// Why lines can no longer be written.
    private(set) var failure: OutputFailure?

    init(_ session: WatchSession) {
        self.session = session
        writers = session.scopes.map {
            TransitionText(
                style: session.style, scope: session.scopes.count > 1 ? $0.description : nil, localOffset: session.localOffset)
        }
        sequences = session.scopes.map { _ in SequenceCheck() }
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
            note(Self.note(missed, escapedForTerminal(scope.description)))
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

    /// Says what concerns all lines: that nothing is announced, and requests that fail; each once.
    func remark(on health: MonitorHealth) {
        if health.mode == .polling, !isPolling {
            isPolling = true
            note("nothing is announced here (a sandbox?): asking at intervals instead.")
        }
        if let failure = health.lastFailure, failure != knownFailure { note("\(failure)") }
        knownFailure = health.lastFailure
    }

    private func note(_ text: String) { try? session.notes.write("reachability-watch: \(text)") }

    private static func note(_ missed: UInt64, _ scope: String) -> String {
        "\(missed) \(missed == 1 ? "transition" : "transitions") of \(scope) dropped: standard output is read too slowly."
    }
}
