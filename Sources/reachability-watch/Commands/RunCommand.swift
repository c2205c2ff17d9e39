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
            Signals that would end it are passed on to the command, and no further attempt follows.

            With several --to it waits for all of them; an outage is one of the first. The command gets standard input, \
            output and error, and no other open file.

            It ends with the command's last code; with 124 if the deadline has passed, 126 if the command cannot be \
            executed, 127 if there is none of that name, 128 + n if signal n ended it.

            EXAMPLES
              reachability-watch run -- rsync -a photos/ nas:photos/
              reachability-watch run --to 192.0.2.7 --deadline 1h -- ./backup.sh
              reachability-watch run --give-up-on 2,64-78 --summary -- make upload
            """)

    @OptionGroup var target: ScopeOptions

    @OptionGroup var retry: RetryOptions

    @Flag(help: "At the end, tell on standard error how it went.")
    var summary = false

    @Flag(name: .shortAndLong, help: "Do not say on standard error what is waited for.")
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
        switch Result(catching: SignalRelay.init) {
        case .success(let relay): run(with: relay)
        case .failure(let error): Program.end(with: error)
        }
    }

    private func run(with relay: SignalRelay) -> Never {
        let words = RawArguments.behindTerminator
        Program.run(in: target.namespacePath) { [target, retry, summary, quiet, relay] in
            let child = ChildCommand(words, relay: relay)
            let session = RunSession(
                monitor: ReachabilityMonitor(), scopes: target.scopes, policy: retry.policy,
                say: { if !quiet { DescriptorOutput.complain($0) } }, command: child.run)
            let outcome = await session.run()
            if summary { outcome.summary.lines.forEach(DescriptorOutput.complain) }
            return outcome.code
        } whileMainThread: {
            relay.relay()
        }
    }
}
