import ArgumentParser
import CommandKit
import ReachableJobs

/// The argument of commands for several jobs.
struct JobArguments: ParsableArguments {
    @OptionGroup var store: StoreOption

    @Argument(help: ArgumentHelp("The ids, or their beginnings.", valueName: "id"))
    var ids: [String]

    /// Changes the jobs in one transaction; the status is 1 if one was not changed.
    ///
    /// - Parameter isDone: Tells people what happened; returns false for a job that was not changed.
    func change<Outcome>(
        _ body: (JobQueue, [DurableJobID]) async throws -> [Outcome], isDone: (DurableJob, Outcome) -> Bool
    ) async throws -> ExitStatus {
        let finder = try JobFinder(store)
        // All are found before one is changed.
        var jobs: [DurableJob] = []
        for id in ids { jobs.append(try await finder.job(id)) }
        let outcomes = try await body(finder.queue, jobs.map(\.id))
        return zip(jobs, outcomes).filter { !isDone($0, $1) }.isEmpty ? .yes : .no
    }
}

/// The subcommand `queue retry`.
struct QueueRetryCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retry",
        abstract: "Runs commands again that failed or were cancelled; exits with 1 if one of them is neither.")

    @OptionGroup var jobs: JobArguments

    func run() {
        QueueProgram.run { [self] in
            try await jobs.change { queue, ids in
                try await queue.retry(ids)
            } isDone: { job, outcome in
                switch outcome {
                case .retried: return true
                case .taken(let other):
                    DescriptorOutput.printMessage("\(job.id) was not retried: \(other) has its name and has not ended")
                case .notEnded:
                    DescriptorOutput.printMessage("\(job.id) has not failed: it is \(JobReport.name(of: job.state))")
                }
                return false
            }
        }
    }
}

/// The subcommand `queue cancel`.
struct QueueCancelCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel",
        abstract: "Cancels commands; a running one gets SIGTERM, and SIGKILL 5 s later. Exits with 1 if one has ended already.")

    @OptionGroup var jobs: JobArguments

    func run() {
        QueueProgram.run { [self] in
            try await jobs.change { queue, ids in
                try await queue.cancel(ids)
            } isDone: { job, outcome in
                switch outcome {
                case .cancelled: return true
                case .requested:
                    DescriptorOutput.printMessage("\(job.id) is running; its worker ends it")
                    return true
                case .ended, .unknown:
                    DescriptorOutput.printMessage("\(job.id) has ended already: \(JobReport.name(of: job.state))")
                    return false
                }
            }
        }
    }
}

/// The subcommand `queue pause`.
struct QueuePauseCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause", abstract: "Lets no worker start a command until `queue resume`, also after a reboot.")

    @OptionGroup var store: StoreOption

    func run() {
        QueueProgram.run { [self] in
            try await store.open().queue().pause()
            return .yes
        }
    }
}

/// The subcommand `queue resume`.
struct QueueResumeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "resume", abstract: "Ends `queue pause`.")

    @OptionGroup var store: StoreOption

    func run() {
        QueueProgram.run { [self] in
            try await store.open(creating: false).queue().resume()
            return .yes
        }
    }
}

/// The subcommand `queue prune`.
struct QueuePruneCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "prune",
        abstract: "Removes ended commands with their output, and writes how many.",
        discussion: """
            Workers prune by themselves: commands that succeeded after a day, others that ended after 30 days. A failed command \
            with later ones of the same --serial key stays.
            """)

    @OptionGroup var store: StoreOption

    @Option(
        help: ArgumentHelp("Only those that ended longer ago than this. Default: all.", valueName: "duration"),
        transform: { try DurationArgument($0) })
    var olderThan: DurationArgument?

    func run() {
        QueueProgram.run { [self] in
            let store = try store.open(creating: false)
            let age = olderThan?.duration ?? .zero
            let retention = Retention(succeeded: age, failed: age)
            var count = 0
            while case let pruned = try await store.jobs.prune(retention, limit: 1000), pruned > 0 { count += pruned }
            await store.pruneOutput()
            return Program.write(["\(count)"], thenEndWith: .yes)
        }
    }
}
