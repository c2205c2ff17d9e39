import ArgumentParser
import Reachability
import ReachableRetry

/// The subcommand `run`.
struct RunCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Runs a command until it succeeds; waits while the network is away, and starts again the moment it is back.",
        discussion: """
            Attempts that an outage broke off do not count. Without --attempts and --deadline it does not give up. \
            SIGINT, SIGTERM and SIGHUP are passed on to the command, and no further attempt follows. An attempt that a signal or a \
            limit ends is ended with all its descendants: SIGTERM, and SIGKILL 5 s later.

            On a terminal the command runs as without reachability-watch: it may ask for a password, and Ctrl-C and Ctrl-Z reach it.

            With several --to it waits for all of them; only an outage of the first one excuses a failure. The command gets \
            standard input, output and error, and no other open file.

            It ends with the command's last code; with 124 if the deadline has passed or --attempt-timeout ended the last attempt, \
            126 if the command cannot be executed, 127 if there is none of that name, 128 + n if signal n ended it.

            EXAMPLES
              reachability-watch run -- rsync -a photos/ nas:photos/
              reachability-watch run --to 192.0.2.7 --deadline 1h -- ./backup.sh
              reachability-watch run --give-up-on 2,64-78 --summary -- make upload
            """)

    @OptionGroup var target: ScopeOptions

    @OptionGroup var retry: RetryOptions

    @Flag(help: "At the end, write a summary to standard error.")
    var summary = false

    @Flag(name: .shortAndLong, help: "Write no messages about attempts and delays to standard error.")
    var quiet = false

    @Argument(parsing: .postTerminator, help: ArgumentHelp("The command and its arguments, behind --.", valueName: "command"))
    var command: [String] = []

    func validate() throws {
        if command.first?.isEmpty != false {
            throw ValidationError("Name the command behind --, as in: reachability-watch run -- rsync -a photos/ nas:photos/")
        }
    }

    func run() {
        // Two functions, not one: the optimizer of 6.3.1 cannot compile them as one (CopyPropagation finds an ownership error).
        switch Result(catching: { [say] () throws(ReachabilityError) in try ChildSupervisor(say: say) }) {
        case .success(let supervisor): run(with: supervisor)
        case .failure(let error): Program.end(with: error)
        }
    }

    private func run(with supervisor: ChildSupervisor) -> Never {
        let child = ChildCommand(words: RawArguments.behindTerminator, supervisor: supervisor)
        Program.run(in: target.namespacePath) { [target, retry, summary, say] in
            let session = RunSession(
                monitor: ReachabilityMonitor(), scopes: target.scopes, policy: retry.policy, say: say, command: child.run)
            let outcome = await session.run()
            if summary { outcome.summary.lines.forEach(DescriptorOutput.complain) }
            return outcome.code
        } whileMainThread: {
            supervisor.supervise()
        }
    }

    private var say: @Sendable (String) -> Void {
        { [quiet] in if !quiet { DescriptorOutput.complain($0) } }
    }
}
