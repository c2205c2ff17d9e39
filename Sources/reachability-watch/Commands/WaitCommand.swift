import ArgumentParser
import Reachability

/// The subcommand `wait`.
struct WaitCommand: ParsableCommand {
    /// What to wait for.
    enum Until: String, CaseIterable, ExpressibleByArgument {
        case satisfied
        case unsatisfied
    }

    static let configuration = CommandConfiguration(
        commandName: "wait",
        abstract: "Ends with 0 as soon as all is reachable, with 1 if the time runs out first, with 2 if nothing can be seen.",
        discussion: """
            It writes nothing to standard output.

            EXAMPLES
              reachability-watch wait && rsync -a photos/ nas:photos/
              reachability-watch wait --to 192.0.2.7 --until unsatisfied --timeout 1h
            """)

    @OptionGroup var target: ScopeOptions

    @Option(help: "What to wait for: satisfied, or unsatisfied.")
    var until = Until.satisfied

    @Option(
        help: ArgumentHelp("Give up after this time, such as 250ms, 2s, 5m or 1h; suspension counts.", valueName: "duration"),
        transform: { try DurationArgument($0) })
    var timeout: DurationArgument?

    @Flag(name: .shortAndLong, help: "Say on standard error how it ended.")
    var verbose = false

    func run() {
        Program.run(in: target.namespacePath) { [target, until, timeout, verbose] in
            let session = WaitSession(
                monitor: ReachabilityMonitor(), scopes: target.scopes, target: until == .satisfied ? .satisfied : .unsatisfied,
                timeout: timeout?.duration)
            let outcome = await session.run()
            if let error = outcome.error { return Program.report(error) }
            if verbose { DescriptorOutput.complain(session.report(of: outcome)) }
            return outcome.status
        }
    }
}

extension WaitSession {
    /// How it ended, in one line.
    func report(of outcome: Outcome) -> String {
        let verdicts = zip(scopes, outcome.paths).map { statusLine($1, of: $0, .text, TextStyle()) }.joined(separator: "; ")
        return outcome.status == .no ? "timed out: \(verdicts)" : verdicts
    }
}
