import ArgumentParser
import CommandKit
import FoundationEssentials
import Glibc
import Reachability
import ReachableJobs
import ReachableRetry

/// The subcommand `queue run`.
struct QueueRunCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Executes stored commands until it is stopped: the worker.",
        discussion: """
            One worker for each store is enough; several share the work. SIGINT, SIGTERM and SIGHUP end it: running commands get \
            SIGTERM, and SIGKILL 5 s later, with all their descendants, and run again when a worker is there again. If the worker \
            is killed, so are its commands.

            On a terminal the last line shows what runs, and why the next command waits.

            With --drain it ends once no command is left that it can run: with 0 if all have ended, with 1 if some are blocked, \
            such as by an unreachable network or behind a failed command.

            EXAMPLES
              reachability-watch queue run
              reachability-watch queue run --jobs 1 --drain
            """)

    @OptionGroup var store: StoreOption
    @OptionGroup var monitoring: MonitorOptions

    @Option(help: ArgumentHelp("Run at most this many commands at a time.", valueName: "n"))
    var jobs = 4

    @Flag(help: "End once nothing is left to run.")
    var drain = false

    @Flag(name: .shortAndLong, help: "Write no messages about attempts.")
    var quiet = false

    func validate() throws {
        if !(1...1000).contains(jobs) { throw ValidationError("--jobs is not from 1 to 1000; next: use a number in this range") }
    }

    func run() {
        // Before any other thread exists.
        let signals = HeldSignals()
        let (interruption, interrupt) = AsyncStream.makeStream(of: Int32.self)
        Task.detached { [self] in
            await StartConditions.openTimers()
            let status = await QueueProgram.status { try await work(until: interruption) }
            Glibc.exit(HeldSignals.last.map { 128 + $0 } ?? status.rawValue)
        }
        interrupt.yield(signals.next())
        // A second signal ends the worker at once; its commands notice it.
        _exit(128 + signals.next())
    }

    private func work(until interruption: AsyncStream<Int32>) async throws -> ExitStatus {
        let monitor = ReachabilityMonitor(configuration: monitoring.configuration)
        monitor.expectRun()
        let bus = RetryBus(monitor)
        let store = try store.open(bus: bus)
        let watching = Task { try await monitor.run() }
        let worker = CommandWorker(store, bus: bus, maxConcurrent: jobs)
        let stopping = Task {
            for await _ in interruption {
                await worker.queue.shutdown(drain: .zero)
                return
            }
        }
        // Subscribed before the first event.
        let events = worker.queue.events
        let telling = Task { [quiet] in await tell(events, worker, isQuiet: quiet) }
        let showing = Task { [quiet] in
            guard StatusLine.isAvailable, !quiet else { return }
            await worker.showProgress()
        }
        let status = await worker.run(untilDrained: drain)
        showing.cancel()
        await showing.value
        await telling.value
        stopping.cancel()
        watching.cancel()
        return status
    }

    private func tell(_ events: AsyncStream<JobQueueEvent>, _ worker: CommandWorker, isQuiet: Bool) async {
        for await event in events where !isQuiet {
            if let line = await worker.line(for: event) { DescriptorOutput.printMessage(line) }
        }
    }
}

/// The worker of stored commands.
struct CommandWorker: Sendable {
    let queue: JobQueue
    private let store: QueueStore

    init(_ store: QueueStore, bus: RetryBus, maxConcurrent: Int) {
        self.store = store
        var configuration = JobQueue.Configuration()
        // A worker claims no more than it runs: the rest is left to other workers.
        configuration.window = maxConcurrent
        queue = JobQueue(store.jobs, bus: bus, configuration: configuration)
        register(WaitingCommands.self)
        register(AcceleratedCommands.self)
        register(LocalCommands.self)
    }

    private func register<Kind: CommandKind>(_ kind: Kind.Type) {
        let policy = RetryPolicy.default.giveUpAfter(maxAttempts: nil).connectivity(Kind.connectivity)
        queue.registerJob(
            parameters: CommandJob<Kind>.self, policy: policy, jobPolicy: { $0.command.policy },
            handler: { [store] job, attempt in try await Self.run(job.command, attempt, store) })
    }

    private static func run(_ command: QueuedCommand, _ attempt: DurableAttempt, _ store: QueueStore) async throws {
        var command = command
        command.environment["REACHABILITY_JOB"] = ForeignText("\(attempt.id)")
        command.environment["REACHABILITY_ATTEMPT"] = ForeignText("\(attempt.number)")
        let output = try store.output.create(.init(job: attempt.id, attempt: attempt.number))
        defer { close(output) }
        try await AttemptProcess.run(command, output: output, lock: store.lock)
    }

    /// Runs jobs until the queue is shut down, or until nothing is left to run.
    func run(untilDrained isDraining: Bool) async -> ExitStatus {
        await store.pruneOutput()
        guard isDraining else {
            await queue.run()
            return .yes
        }
        guard case .blocked(let jobs, let count) = await queue.runUntilEmpty() else { return .yes }
        DescriptorOutput.printMessage(
            "\(count) blocked; the first: \(jobs.first.map { ForeignText($0.description).terminal } ?? "")")
        return .no
    }

    /// Shows once a second what the worker does, until the task is cancelled.
    func showProgress() async {
        while (try? await Task.sleep(for: .seconds(1))) != nil { StatusLine.show(await progress()) }
        StatusLine.show(nil)
    }

    /// The numbers of commands, and why the first one waits; `nil` if the store fails, which has a message of its own.
    private func progress() async -> String? {
        // Enough for a person; a count of a million would cost more than it tells.
        let most = 1000
        func find(_ state: DurableJob.State) async -> [DurableJob]? {
            try? await queue.jobs(matching: JobFilter(states: [state], limit: most))
        }
        guard let running = await find(.running), let waiting = await find(.available) else { return nil }
        guard !running.isEmpty || !waiting.isEmpty else { return "waits for commands" }
        let counts = [(running, "running"), (waiting, "waiting")].filter { !$0.0.isEmpty }.map { jobs, state in
            "\(jobs.count)\(jobs.count == most ? "+" : "") \(state)"
        }
        guard let first = waiting.first, let pending = try? await queue.pending([first.id]).first else {
            return counts.joined(separator: ", ")
        }
        return "\(counts.joined(separator: ", ")); \(ShortID.text(first.id)) \(pending.reason)"
    }

    /// Returns the message about an event, if it deserves one.
    func line(for event: JobQueueEvent) async -> String? {
        guard let id = event.job else {
            guard case .storeFailed(let error) = event.kind else { return nil }
            return error.map { "the store fails: \($0)" } ?? "the store works again"
        }
        let job = try? await queue.jobs(matching: JobFilter(idPrefix: "\(id)")).first
        let title = "\(ShortID.text(id)) (\(job?.title ?? "gone"))"
        switch event.kind {
        case .attemptStarted(let number): return "\(title): attempt \(number)"
        case .succeeded: return "\(title): succeeded"
        case .failed(let reason, let error): return "\(title): gave up (\(reason))\(Self.suffix(error))"
        case .cancelled: return "\(title): cancelled"
        case .willRetry(let error): return "\(title): will run again\(Self.suffix(error))"
        case .refused: return "\(title): the result came too late, and the command runs again"
        case .pushed, .storeFailed: return nil
        }
    }

    private static func suffix(_ error: String?) -> String { error.map { ": \(ForeignText($0).terminal)" } ?? "" }
}

/// The form of ids for people.
enum ShortID {
    /// The shortest text: the first digits are the time in milliseconds.
    static let length = 12

    static func text(_ id: DurableJobID, _ length: Int = length) -> String { String("\(id)".prefix(length)) }

    /// Returns the shortest length at which ids differ.
    static func length(for ids: [DurableJobID]) -> Int {
        let texts = ids.map { "\($0)" }
        return (length...32).first { length in Set(texts.map { $0.prefix(length) }).count == texts.count } ?? 32
    }
}
