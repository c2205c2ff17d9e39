import ArgumentParser
import CommandKit
import Reachability
import ReachableJobs
import ReachableRetry

/// The subcommand `queue add`.
struct QueueAddCommand: ParsableCommand {
    /// The rule for a name that an unfinished job has already.
    enum Naming: String, CaseIterable, ExpressibleByArgument {
        case keep, replace, append
    }

    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Stores a command and writes its id; a worker (queue run) executes it until it succeeds.",
        discussion: """
            Once add has ended, the command is on disk. Its arguments, the current directory and the umask are stored, and of the \
            environment PATH, HOME, LANG and the variables that --env names. Arguments and variables are readable in the store and \
            in the process list: name a file with a secret instead of the secret.

            EXAMPLES
              reachability-watch queue add --to nas -- rsync -a photos/ nas:photos/
              reachability-watch queue add --name push --env SSH_AUTH_SOCK -- git push
              reachability-watch queue add --serial backup --deadline 3d -- ./backup.sh
            """)

    /// The message if nothing runs commands.
    static let noWorker = "no worker runs; next: reachability-watch queue run"

    @OptionGroup var store: StoreOption

    @Option(help: ArgumentHelp("The name of the job: at most one unfinished job has it.", valueName: "key"))
    var name: String?

    @Option(
        help: ArgumentHelp(
            "If a job has the name: keep it; replace it, or add one behind it if it has started; or append one behind it.",
            valueName: "rule"))
    var ifNamed = Naming.replace

    @Option(help: ArgumentHelp("Run after earlier jobs with the same key, one at a time.", valueName: "key"))
    var serial: String?

    @Flag(help: "Let later jobs with the same --serial key run although this one failed for good.")
    var continueAfterFailure = false

    @OptionGroup var target: ScopeOptions

    @Option(
        help: ArgumentHelp("Start no earlier than after this time, such as 10m or 2h.", valueName: "duration"),
        transform: { try DurationArgument($0) })
    var after: DurationArgument?

    @Option(
        help: "The order among jobs that may run: interactive, normal or bulk.",
        completion: .list(["interactive", "normal", "bulk"]),
        transform: { try PriorityArgument($0) })
    var priority: PriorityArgument?

    @Option(
        name: .customLong("env"),
        help: ArgumentHelp("Store this variable of the environment, too; may be repeated.", valueName: "name[=value]"))
    var variables: [String] = []

    @OptionGroup var retry: RetryOptions

    @Argument(parsing: .postTerminator, help: ArgumentHelp("The command and its arguments, after --.", valueName: "command"))
    var command: [String] = []

    func validate() throws {
        if command.first?.isEmpty != false {
            throw ValidationError("no command given; next: add it after --, as in: reachability-watch queue add -- git push")
        }
        if target.scopes.count > 1 { throw ValidationError("a stored command has one --to; next: name the one that it needs most") }
        if target.netns != nil {
            throw ValidationError("a stored command runs where its worker runs; next: run `queue run` in the namespace")
        }
        if name == "" || serial == "" { throw ValidationError("--name and --serial may not be empty; next: write a key") }
    }

    func run() {
        QueueProgram.run { try await add() }
    }

    private func add() async throws -> ExitStatus {
        let stored = try QueuedCommand(RawArguments.behindTerminator, variables: variables, options: storedOptions)
        let queue = try store.open().queue()
        let receipt = try await push(stored, to: queue)
        switch receipt.outcome {
        case .added: break
        case .kept: DescriptorOutput.printMessage("a job has this name, and was kept")
        case .replaced: DescriptorOutput.printMessage("replaced the job of this name")
        case .appended: DescriptorOutput.printMessage("will run behind the job of this name")
        }
        if let pending = try await queue.pending([receipt.id]).first, pending.reasons.contains(where: { $0.kind == .worker }) {
            DescriptorOutput.printMessage(Self.noWorker)
        }
        return Program.write(["\(receipt.id)"], thenEndWith: .yes)
    }

    /// The retry options without the deadline, which is the job's.
    private var storedOptions: [String] {
        var retry = retry
        retry.deadline = nil
        return retry.words
    }

    private func push(_ stored: QueuedCommand, to queue: JobQueue) async throws -> PushReceipt {
        let unique = name.map { name in
            switch ifNamed {
            case .keep: JobQueue.Unique.keep(name)
            case .replace: JobQueue.Unique.replace(name)
            case .append: JobQueue.Unique.append(name)
            }
        }
        let options = DurableOptions(
            to: target.scopes[0], priority: priority?.priority ?? .normal, delay: after?.duration,
            timeLimit: retry.deadline?.duration, serialKey: serial, continuesAfterFailure: continueAfterFailure)
        return switch retry.connectivity {
        case .wait: try await queue.push(CommandJob<WaitingCommands>(stored, options), unique: unique)
        case .accelerate: try await queue.push(CommandJob<AcceleratedCommands>(stored, options), unique: unique)
        case .ignore: try await queue.push(CommandJob<LocalCommands>(stored, options), unique: unique)
        }
    }
}

/// A priority on the command line.
struct PriorityArgument: Hashable {
    let priority: JobPriority

    init(_ text: String) throws(InvalidArgument) {
        switch text {
        case "interactive": priority = .interactive
        case "normal": priority = .normal
        case "bulk": priority = .bulk
        default: throw InvalidArgument("not a priority; next: write interactive, normal or bulk")
        }
    }
}

/// The frame of the queue's commands.
enum QueueProgram {
    /// Runs a command, reports its failure and ends the process.
    static func run(_ body: @escaping @Sendable () async throws -> ExitStatus) -> Never {
        Program.run(in: nil) { await status(body) }
    }

    /// Runs a command and reports its failure.
    static func status(_ body: () async throws -> ExitStatus) async -> ExitStatus {
        do {
            return try await body()
        } catch {
            let failure = CommandFailure(error)
            DescriptorOutput.printMessage(quotingInput(in: failure.message, words: RawArguments.texts))
            return failure.status
        }
    }
}
