import ArgumentParser
import CommandKit
import Glibc
import Reachability

/// The subcommand `watch`.
struct WatchCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "Writes a line for the present state and for each change.",
        discussion: """
            A loss shorter than 250 ms is reported as "lost and regained". Changes other than losses and returns are reported at \
            most four times a second, with the number of losses since the line before. --raw reports every change at once.

            --exec runs a program, never a shell, for the present state and for each change; reachability-watch-hooks(7) lists \
            its variables. One program runs at a time, and only for the newest state: what it misses is counted. Its input is \
            empty, and its output goes to standard error. --exec-timeout and the end of watch send it SIGTERM, and SIGKILL 5 s \
            later.

            If standard output and standard error are a terminal, its last line shows the present state and how long it has \
            lasted, except while a program of --exec runs.

            --log appends the history to a file for report, with the end of the watch. If the file cannot be written, the watch \
            goes on, and the log continues when it can.

            EXAMPLES
              reachability-watch watch --to 192.0.2.7 --to 2001:db8::7
              reachability-watch watch --format json --count 2 --for 1h
              reachability-watch watch --exec ./on-change.sh
              reachability-watch watch --log /var/log/reachability.json
            """)

    @OptionGroup var target: ScopeOptions
    @OptionGroup var monitoring: MonitorOptions

    @OptionGroup var lines: TransitionOptions

    @Flag(help: "For diagnosis: receive all route messages, irrelevant ones included.")
    var noFilter = false

    @Option(help: ArgumentHelp("End after this many lines, baselines included.", valueName: "n"))
    var count: Int?

    @OptionGroup var limit: TimeLimitOption

    @OptionGroup var log: LogOptions

    @OptionGroup var hooks: HookOptions

    /// The place of a misspelt command, because this command is the default one.
    @Argument(help: .hidden) var words: [String] = []

    func validate() throws {
        if hooks.exec != nil, !words.isEmpty {
            throw ValidationError("--exec takes a program without arguments; next: write them into a script")
        }
        if let word = words.first { throw ValidationError(ReachabilityWatch.suggestion.error(for: word)) }
        if let count, count < 1 { throw ValidationError("--count is below 1; next: use 1 or more") }
    }

    func run() {
        let display = lines.form.format == .text ? LineDisplay.terminal(lines.form.style) : nil
        let supervisor = hooks.program.map(hookSupervisor)
        let signals = (display == nil ? [] : [SIGTSTP, SIGWINCH]) + (log.place == nil ? [] : [SIGHUP])
        guard supervisor != nil || !signals.isEmpty else {
            // There is nothing to clean up: signals and a reader that leaves may end the process at once.
            Program.run(in: target.namespacePath) { [self] in
                ReaderWatch.start()
                return Program.report(await session.run())
            }
        }
        Program.run(in: target.namespacePath, alsoTaking: signals, supervisor: supervisor) { [self] signals in
            await watch(display, supervisor, until: signals)
        }
    }

    private func watch(
        _ display: LineDisplay?, _ supervisor: ChildSupervisor?, until signals: AsyncStream<Int32>
    ) async -> ExitStatus {
        var session = session
        session.display = display
        do throws(CommandFailure) {
            if let place = log.place { session.log = try WatchLog(place, scopes: target.scopes) }
        } catch {
            DescriptorOutput.printMessage(error.message)
            return error.status
        }
        if let supervisor, let program = hooks.program {
            guard let runner = hookRunner(HookProgram(program, supervisor: supervisor), supervisor) else { return .unknown }
            session.hooks = runner
        }
        let (ends, end) = AsyncStream.makeStream(of: Int32.self)
        Task { for await signal in signals { end.yield(signal) } }
        // A reader that leaves ends the watch like a signal.
        ReaderWatch.start { end.yield(0) }
        return Program.report(await session.run(until: ends))
    }

    /// The work of this command, without last line, log and hooks.
    private var session: WatchSession {
        WatchSession(
            monitor: ReachabilityMonitor(KernelNetwork(usesFilter: !noFilter), configuration: monitoring.configuration),
            scopes: target.scopes, isRaw: lines.raw,
            format: lines.form.format, style: lines.form.style, count: count, timeLimit: limit.duration,
            localOffset: localOffset(at:), output: DescriptorOutput.standard,
            outputHasReader: DescriptorOutput.standard.hasReader, notes: DescriptorOutput.diagnostics)
    }
}

extension Program {
    /// Writes a message about the end of a watch if it needs one, and returns its status.
    static func report(_ end: WatchSession.End) -> ExitStatus {
        switch end {
        case .done: .yes
        case .outputFailed(let failure): report(failure)
        case .monitorEnded(let error): error.map { report($0) } ?? .unknown
        }
    }
}

/// The work of `watch`: writes a line for each transition.
struct WatchSession {
    let monitor: ReachabilityMonitor
    let scopes: [Scope]
    var isRaw = false
    var format = OutputFormat.text
    var style = TextStyle()
    /// The number of lines to write; `nil` for no limit.
    var count: Int?
    var timeLimit: Duration?
    var clock: any Clock<Duration> = ContinuousClock()
    var localOffset: @Sendable (Duration) -> Int = { _ in 0 }
    let output: any LineOutput
    /// `true` if the output is a pipe or a socket, so that another process reads it.
    var outputHasReader = false
    /// The output for messages that are not transitions.
    let notes: any LineOutput
    /// The programs to run for each transition.
    var hooks: HookRunner?
    /// The last line of the terminal; `nil` without one.
    var display: LineDisplay?
    /// The log of the transitions.
    var log: WatchLog?
    /// Returns the time on the clock of the transitions.
    var bootTime: @Sendable () -> BootInstant = { Moment.now.at }

    /// The reason why a watch ended.
    enum End: Hashable {
        case done
        case outputFailed(OutputFailure)
        case monitorEnded(ReachabilityError?)
    }

    /// Watches until the count or the time limit is reached, the output fails, the monitor ends, or a signal ends it.
    ///
    /// Returns after the last hook has ended.
    func run(until signals: AsyncStream<Int32>? = nil) async -> End {
        let printer = TransitionPrinter(self)
        let (notes, note) = AsyncStream.makeStream(of: String.self)
        let noting = Task { for await text in notes { await printer.note(text) } }
        // Streams of their own, subscribed before the monitor runs: a slow reader of the lines delays neither log nor hooks.
        let logging = log.map { log in
            let streams = streams
            return Task { await log.record(streams) { note.yield($0) } }
        }
        let hooking = hooks.map { hooks in
            let streams = streams
            return Task { await hooks.run(following: streams) }
        }
        let remarks = Task { [monitor] in
            for await health in monitor.healthUpdates { await printer.reportHealth(health) }
        }
        defer { remarks.cancel() }
        let session = MonitorSession(monitor: monitor, scopes: scopes, isRaw: isRaw, timeLimit: timeLimit, clock: clock)
        let end = await withTaskGroup(of: MonitorSession.End?.self) { group in
            group.addTask { await session.run { await printer.write($1, ofScopeAt: $0) ? .yes : nil } }
            if let signals {
                group.addTask {
                    await take(signals, printer)
                    return nil
                }
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
        hooks?.stop()
        // The monitor has ended, and with it the streams.
        await logging?.value
        await log?.end()
        note.finish()
        await noting.value
        await hooking?.value
        await printer.finish()
        if let failure = await printer.failure { return .outputFailed(failure) }
        if case .monitorEnded(let error) = end { return .monitorEnded(error) }
        return .done
    }

    private var streams: [AsyncStream<Transition>] { scopes.map { monitor.transitions(to: $0, raw: isRaw) } }

    /// Handles signals until one of them ends the watch.
    private func take(_ signals: AsyncStream<Int32>, _ printer: TransitionPrinter) async {
        for await signal in signals {
            switch signal {
            case SIGTSTP: HeldSignals.stop()
            // The printer may be blocked by its reader, and must not hold up the next signal.
            case SIGWINCH: Task { await printer.refresh() }
            case SIGHUP where HeldSignals.last == nil: await log?.reopen()
            default:
                hooks?.stop()
                await log?.end()
                return await printer.finish()
            }
        }
    }
}

/// Writes the lines of all scopes in one order.
///
/// A slow reader blocks only this actor; the bounded streams drop the overflow.
actor TransitionPrinter {
    private let session: WatchSession
    private var writers: [TransitionText]
    private var sequences: [SequenceCheck]
    private var drops: DropNotice
    private var status: WatchStatus
    private var timer = ActorTimer()
    private var isFinished = false
    private let stopwatch: Stopwatch
    private var written = 0
    private var knownFailure: ReachabilityError?
    private var knownImpairment: ReachabilityError?
    /// The failure of the output.
    private(set) var failure: OutputFailure?

    init(_ session: WatchSession) {
        self.session = session
        writers = session.scopes.map {
            TransitionText(
                style: session.style, scope: session.scopes.count > 1 ? $0.description : nil, localOffset: session.localOffset)
        }
        sequences = session.scopes.map { _ in SequenceCheck() }
        drops = DropNotice(hasReader: session.outputHasReader)
        status = WatchStatus(scopes: session.scopes, style: session.style)
        stopwatch = Stopwatch(session.clock)
    }

    /// Writes a line; returns `true` if no more lines are wanted.
    func write(_ transition: Transition, ofScopeAt index: Int) -> Bool {
        guard failure == nil, !isFinished, session.count.map({ written < $0 }) ?? true else { return true }
        // Health follows transitions, and this transition may be the last one.
        reportHealth(session.monitor.health)
        let scope = session.scopes[index]
        let missed = sequences[index].missed(before: transition)
        if missed > 0 {
            drops.dropped(missed, of: ForeignText(scope.description).terminal, now: stopwatch.elapsed()).forEach(note)
        }
        let line =
            switch session.format {
            case .text: writers[index].line(for: transition, hasGap: missed > 0)
            case .json: JSONValue.transition(transition, of: scope).description
            }
        status.note(transition, ofScopeAt: index, hasGap: missed > 0)
        session.display?.show(nil)
        do {
            try session.output.write(line)
        } catch {
            failure = error
            return true
        }
        refresh()
        written += 1
        return written == session.count
    }

    /// Shows the present states in the last line of the terminal, and again when they have changed.
    func refresh() {
        guard let display = session.display, !isFinished else { return }
        let now = session.bootTime()
        if let wait = status.nextChange(after: now) {
            timer.set(after: wait, on: session.clock) { [self] in await refresh() }
        }
        display.show(status.line(at: now, columns: display.columns()))
    }

    /// Writes each new problem once: events that cannot be received, and failed requests.
    func reportHealth(_ health: MonitorHealth) {
        if health.impairment != knownImpairment {
            switch health.impairment {
            case .some(let cause) where health.mode == .blind: note("blind: \(cause)")
            case .some(let cause): note("polling, because events are not available: \(cause)")
            case nil: note("events are available again")
            }
        }
        knownImpairment = health.impairment
        if let failure = health.lastFailure, failure != knownFailure, failure != health.impairment { note("\(failure)") }
        knownFailure = health.lastFailure
    }

    /// Removes the last line, and writes the pending notice about dropped transitions.
    func finish() {
        isFinished = true
        timer.cancel()
        session.display?.show(nil)
        drops.rest().forEach(note)
    }

    /// Writes a message above the last line.
    func note(_ text: String) {
        session.display?.show(nil)
        try? session.notes.write("reachability-watch: \(text)")
        refresh()
    }
}

/// Finds gaps in the sequence numbers of a stream: transitions dropped because the listener was too slow.
struct SequenceCheck {
    private var last: UInt64?

    /// Returns the number of transitions missing before this one.
    mutating func missed(before transition: Transition) -> UInt64 {
        defer { last = transition.sequence }
        guard let last, !transition.isBaseline, transition.sequence > last else { return 0 }
        return transition.sequence - last - 1
    }
}

/// The rate limit of notices about dropped transitions: at most one a second, with the sum of all drops.
struct DropNotice {
    /// The shortest time between two notices.
    static let interval = Duration.seconds(1)

    /// `true` if another process reads the lines, and may be too slow.
    let hasReader: Bool
    private var lastNotice: Duration?
    /// The drops since the last notice, by scope.
    private var waiting: [(scope: String, count: UInt64)] = []

    /// - Parameter hasReader: `true` if the output is a pipe or a socket.
    init(hasReader: Bool) { self.hasReader = hasReader }

    /// Counts dropped transitions and returns the lines to write now.
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

    /// Returns the lines not written yet.
    mutating func rest() -> [String] {
        defer { waiting = [] }
        return waiting.map { scope, count in
            let subject = "\(count) \(count == 1 ? "transition" : "transitions") of \(scope) dropped: "
            return subject
                + (hasReader
                    ? "the reader of standard output is too slow; next: write to a file"
                    : "they came faster than lines could be written; next: watch fewer destinations")
        }
    }
}
