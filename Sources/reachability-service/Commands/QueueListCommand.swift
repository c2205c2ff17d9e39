import ArgumentParser
import CommandKit
import FoundationEssentials
import Reachability
import ReachableJobs

/// The subcommand `queue list`.
struct QueueListCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Writes the stored commands: their state, and why and until when each waits; then the workers.",
        discussion: """
            Without --state, commands that succeeded or were cancelled are left out. Below the commands there is a line for each \
            worker, those of other machines included: its host and process, how many commands it runs, and the time since its \
            last heartbeat, which comes each 10 s. The process is not known if the store is a file. JSON has only commands, or \
            with --workers only workers.

            EXAMPLES
              reachability-watch queue list
              reachability-watch queue list --state failed --format json
              reachability-watch queue list --workers
            """)

    @OptionGroup var store: StoreOption
    @OptionGroup var form: FormatOption

    @Option(
        help: ArgumentHelp(
            "Only these states: waiting, running, succeeded, failed, cancelled, or all; may be repeated.", valueName: "state"),
        completion: .list(["waiting", "running", "succeeded", "failed", "cancelled", "all"]),
        transform: { try StateArgument($0) })
    var state: [StateArgument] = []

    @Flag(help: "Write the workers alone, and no commands.")
    var workers = false

    func validate() throws {
        if workers, !state.isEmpty { throw ValidationError("--state selects commands, not workers; next: leave out one of them") }
    }

    func run() {
        QueueProgram.run { [self] in
            let jobs = try JobFinder(store)
            let running = try await jobs.queue.workers
            if workers {
                if running.isEmpty { DescriptorOutput.printMessage(QueueAddCommand.noWorker) }
                return Program.write(lines(running), thenEndWith: .yes)
            }
            let states: Set<DurableJob.State> = state.isEmpty ? [.available, .running, .failed] : Set(state.flatMap(\.states))
            let reports = try await jobs.reports(of: jobs.queue.jobs(matching: JobFilter(states: states)), running)
            // The commands say themselves that they wait for a worker.
            return Program.write(lines(reports) + (form.format == .json ? [] : lines(running)), thenEndWith: .yes)
        }
    }

    private func lines(_ reports: [JobReport]) -> [String] {
        if form.format == .json { return reports.map(\.json.description) }
        let length = ShortID.length(for: reports.map(\.job.id))
        let now = Date()
        return reports.flatMap { $0.lines(idLength: length, now: now, form.style) }
    }

    private func lines(_ workers: [RegisteredWorker]) -> [String] {
        workers.map(WorkerReport.init).map { form.format == .json ? $0.json.description : $0.line }
    }
}

/// The subcommand `queue show`.
struct QueueShowCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Writes one stored command; exits with 0 if it succeeded, 1 if it failed or was cancelled, 2 if it has not ended."
    )

    @OptionGroup var store: StoreOption
    @OptionGroup var form: FormatOption

    @Argument(help: "The id, or its beginning.")
    var id: String

    func run() {
        QueueProgram.run { [self] in
            let jobs = try JobFinder(store)
            guard let report = try await jobs.reports(of: [jobs.job(id)], jobs.queue.workers).first else {
                throw CommandFailure(.noInput, "the job was pruned meanwhile")
            }
            let lines = form.format == .json ? [report.json.description] : report.details(form.style)
            return Program.write(lines, thenEndWith: Self.status(report.job.state))
        }
    }

    private static func status(_ state: DurableJob.State) -> ExitStatus {
        switch state {
        case .succeeded: .yes
        case .failed, .cancelled: .no
        case .available, .running: .unknown
        }
    }
}

/// A state on the command line.
struct StateArgument: Hashable {
    let states: Set<DurableJob.State>

    init(_ text: String) throws(InvalidArgument) {
        switch text {
        case "all": states = Set(DurableJob.State.allCases)
        case "waiting": states = [.available]
        default:
            guard let state = DurableJob.State(rawValue: text) else {
                throw InvalidArgument("not a state; next: write waiting, running, succeeded, failed, cancelled or all")
            }
            states = [state]
        }
    }
}

/// Finds jobs by what people type.
struct JobFinder {
    let store: QueueStore
    let queue: JobQueue

    init(_ option: StoreOption) throws(CommandFailure) {
        store = try option.open(creating: false)
        queue = store.queue()
    }

    /// Returns the job with an id or its beginning.
    func job(_ text: String) async throws -> DurableJob {
        var found: [DurableJob] = []
        if Self.isPrefix(text) { found = try await queue.jobs(matching: JobFilter(idPrefix: text.lowercased(), limit: 9)) }
        return try Self.only(found, for: text)
    }

    private static func isPrefix(_ text: String) -> Bool { !text.isEmpty && text.count <= 32 && text.allSatisfy(\.isHexDigit) }

    // Inlined into the asynchronous function above, it crashes the optimizer of Swift 6.3.1 (CoroSplit, swifterror).
    @inline(never)
    private static func only(_ found: [DurableJob], for text: String) throws(CommandFailure) -> DurableJob {
        if found.count == 1 { return found[0] }
        guard !found.isEmpty else {
            throw CommandFailure(.noInput, "there is no job '\(quotation(text))'; next: reachability-watch queue list --state all")
        }
        let ids = found.map { "\($0.id)" }.joined(separator: " ")
        throw CommandFailure(.noInput, "'\(quotation(text))' is the beginning of several ids; next: choose one of \(ids)")
    }

    /// Returns jobs with the reasons why they do not run; jobs that were pruned meanwhile are left out.
    func reports(of jobs: [DurableJob], _ workers: [RegisteredWorker]) async throws -> [JobReport] {
        var pending = try await queue.pending(jobs.map(\.id))
        await NetworkReasons.add(to: &pending)
        let reasons = Dictionary(pending.map { ($0.id, $0) }) { $1 }
        let reports = Dictionary(workers.map { ($0.id, WorkerReport(worker: $0)) }) { $1 }
        return jobs.compactMap { job in
            reasons[job.id].map { JobReport(pending: $0, job: job, worker: $0.worker.flatMap { reports[$0] }) }
        }
    }
}
