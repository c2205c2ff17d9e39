import ArgumentParser
import Reachability

/// The subcommand `watch`.
struct WatchCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "Writes a line for the present state and for each change.",
        discussion: """
            A loss that ends within 250 ms is not told as such: the path is then "lost and regained". --raw tells all at once.

            EXAMPLES
              reachability-watch watch --to 192.0.2.7 --to 2001:db8::7
              reachability-watch watch --format json --count 2 --for 1h
            """)

    @OptionGroup var target: ScopeOptions

    @Option(help: "How to write: text for people, json for one object a line.")
    var format = OutputFormat.text

    @Flag(help: "Tell each loss at once, however short.")
    var raw = false

    @Flag(help: "For diagnosis: have the kernel tell of every route, also of those that cannot matter.")
    var noFilter = false

    @Option(help: ArgumentHelp("End after this many lines, the first one included.", valueName: "n"))
    var count: Int?

    @Option(
        name: .customLong("for"), help: ArgumentHelp("End after this time, such as 250ms, 2s, 5m or 1h.", valueName: "duration"),
        transform: { try DurationArgument($0) })
    var timeLimit: DurationArgument?

    /// A misspelt command lands here, because this command is the default one.
    @Argument(help: .hidden) var words: [String] = []

    func validate() throws {
        if let word = words.first { throw ValidationError(ReachabilityWatch.suggestion.error(for: word)) }
        if let count, count < 1 { throw ValidationError("--count takes a number of at least 1.") }
    }

    func run() {
        Program.run(in: target.namespacePath) { [target, format, raw, noFilter, count, timeLimit] in
            ReaderWatch.start()
            let session = WatchSession(
                monitor: ReachabilityMonitor(KernelNetwork(usesFilter: !noFilter)), scopes: target.scopes, isRaw: raw,
                format: format, style: Program.outputStyle, count: count, timeLimit: timeLimit?.duration,
                localOffset: localOffset(at:), output: DescriptorOutput.standard,
                outputHasReader: DescriptorOutput.standard.hasReader, notes: DescriptorOutput.diagnostics)
            return switch await session.run() {
            case .done: .yes
            case .outputFailed(let failure): Program.report(failure)
            case .monitorEnded(let error): error.map { Program.report($0) } ?? .unknown
            }
        }
    }
}

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

/// Finds holes in the numbering of a stream: the transitions that its listener was too slow for.
struct SequenceCheck {
    private var last: UInt64?

    /// Returns how many transitions are missing between the one before and this one.
    mutating func missed(before transition: Transition) -> UInt64 {
        defer { last = transition.sequence }
        guard let last, !transition.isBaseline, transition.sequence > last else { return 0 }
        return transition.sequence - last - 1
    }
}

/// Decides when to say that transitions were dropped: at most once a second, with all that were dropped meanwhile.
struct DropNotice {
    /// The shortest time between two notices.
    static let interval = Duration.seconds(1)

    /// Whether another process reads the lines, so that it can be the slow one.
    let hasReader: Bool
    private var lastNotice: Duration?
    /// Dropped and not said yet, by scope.
    private var waiting: [(scope: String, count: UInt64)] = []

    /// - Parameter hasReader: whether the output is a pipe or a socket.
    init(hasReader: Bool) { self.hasReader = hasReader }

    /// Counts transitions that were dropped, and returns the lines to write now.
    mutating func dropped(_ count: UInt64, of scope: String, now: Duration) -> [String] {
        if let index = waiting.firstIndex(where: { $0.scope == scope }) {
            let (sum, overflows) = waiting[index].count.addingReportingOverflow(count)
            waiting[index].count = overflows ? .max : sum
        } else {
            waiting.append((scope, count))
        }
        if let lastNotice, now - lastNotice < Self.interval { return [] }
        lastNotice = now
        return rest()
    }

    /// Returns the lines that were held back.
    mutating func rest() -> [String] {
        defer { waiting = [] }
        return waiting.map { scope, count in
            let subject = "\(count) \(count == 1 ? "transition" : "transitions") of \(scope) dropped: "
            return subject + (hasReader ? "standard output is read too slowly." : "they came faster than lines could be written.")
        }
    }
}
