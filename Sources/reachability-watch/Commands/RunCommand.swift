import ArgumentParser
import CommandKit
import Reachability
import ReachableRetry

/// The subcommand `run`.
struct RunCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Runs a command until it succeeds; waits while offline, and retries the moment the network is back.",
        discussion: """
            Attempts broken off by an outage do not count. Without --attempts and --deadline, run never gives up. SIGINT, SIGTERM \
            and SIGHUP are passed on to the command, and no further attempt follows. A signal or a limit ends an attempt with all \
            its descendants: SIGTERM, and SIGKILL 5 s later.

            On a terminal the command runs as without reachability-watch: it may ask for a password, and Ctrl-C and Ctrl-Z reach \
            it. While it does not run, the last line shows the wait. Without a terminal, messages report a wait after 1, 5 and 15 \
            minutes, and then each hour.

            With several --to, run waits for all of them; only an outage of the first one excuses a failure. The command gets \
            standard input, output and error, and no other open file.

            Exits with the command's last code; 124 if the deadline passed or --attempt-timeout ended the last attempt, 126 if the \
            command cannot be executed, 127 if it does not exist, 128 + n if signal n ended it.

            EXAMPLES
              reachability-watch run -- rsync -a photos/ nas:photos/
              reachability-watch run --to 192.0.2.7 --deadline 1h -- ./backup.sh
              reachability-watch run --give-up-on 2,64-78 --summary -- make upload
            """)

    @OptionGroup var target: ScopeOptions
    @OptionGroup var monitoring: MonitorOptions

    @OptionGroup var retry: RetryOptions

    @Flag(help: "Write a summary to standard error at the end.")
    var summary = false

    @Flag(name: .shortAndLong, help: "Write no messages about attempts and delays.")
    var quiet = false

    @Argument(parsing: .postTerminator, help: ArgumentHelp("The command and its arguments, after --.", valueName: "command"))
    var command: [String] = []

    func validate() throws {
        if command.first?.isEmpty != false {
            throw ValidationError(
                "no command given; next: add it after --, as in: reachability-watch run -- rsync -a photos/ nas:photos/")
        }
    }

    func run() {
        // Two functions: the optimizer of Swift 6.3.1 fails on a single one (CopyPropagation reports an ownership error).
        switch Result(catching: { [say] () throws(ReachabilityError) in try ChildSupervisor(say: say) }) {
        case .success(let supervisor): run(with: supervisor)
        case .failure(let error): Program.end(with: error)
        }
    }

    private func run(with supervisor: ChildSupervisor) -> Never {
        let child = ChildCommand(ProcessStart(words: RawArguments.behindTerminator), supervisor: supervisor)
        let display = quiet ? nil : WaitDisplay(LineDisplay.terminal(Program.outputStyle(.never)), DescriptorOutput.printMessage)
        Program.run(in: target.namespacePath) { [target, retry, summary] in
            let session = RunSession(
                monitor: ReachabilityMonitor(configuration: monitoring.configuration), scopes: target.scopes, policy: retry.policy,
                say: { await display?.say($0) },
                display: display, command: child.run)
            let outcome = await session.run()
            if summary { outcome.summary.lines.forEach(DescriptorOutput.printMessage) }
            return outcome.code
        } whileMainThread: {
            supervisor.supervise()
        }
    }

    private var say: @Sendable (String) -> Void {
        { [quiet] in if !quiet { DescriptorOutput.printMessage($0) } }
    }
}
