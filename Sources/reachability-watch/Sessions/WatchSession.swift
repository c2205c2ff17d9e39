import Reachability

/// What `watch` does: it writes a line for each transition.
struct WatchSession {
    let monitor: ReachabilityMonitor
    let scopes: [Scope]
    var isRaw = false
    var format = OutputFormat.text
    var style = TextStyle()
    /// How many lines to write; `nil` for as many as come.
    var count: Int?
    var timeLimit: Duration?
    var clock: any Clock<Duration> = ContinuousClock()
    var localOffset: @Sendable (Duration) -> Int = { _ in 0 }
    let output: any LineOutput
    /// Whether the output is a pipe or a socket, so that another process reads it.
    var outputHasReader = false
    /// Where remarks go that are no transitions.
    let notes: any LineOutput

    /// How it ended.
    enum End: Hashable {
        case done
        case outputFailed(OutputFailure)
        case monitorEnded(ReachabilityError?)
    }

    /// Watches until the count or the time limit is reached, the output fails, or the monitor ends.
    func run() async -> End {
        let printer = TransitionPrinter(self)
        let remarks = Task { [monitor] in
            for await health in monitor.healthUpdates { await printer.remark(on: health) }
        }
        defer { remarks.cancel() }
        let session = MonitorSession(monitor: monitor, scopes: scopes, isRaw: isRaw, timeLimit: timeLimit, clock: clock)
        let end = await session.run { await printer.isFull(after: $1, ofScopeAt: $0) ? .yes : nil }
        await printer.finish()
        if let failure = await printer.failure { return .outputFailed(failure) }
        if case .monitorEnded(let error) = end { return .monitorEnded(error) }
        return .done
    }
}
