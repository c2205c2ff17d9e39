import ArgumentParser
import CommandKit
import Reachability

/// The subcommand `explain`.
struct ExplainCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Writes every step of the verdict: interfaces, addresses, lookups, the missing layer and a command to try next.",
        discussion: """
            Exits like status: 0 if every scope is reachable, 1 if not, 2 if unknown.

            EXAMPLES
              reachability-watch explain
              reachability-watch explain --to 192.0.2.7 --uid 1000
              reachability-watch explain --to nas.example.org --timeout 1s
            """)

    @OptionGroup var options: VerdictOptions

    func run() {
        options.writeVerdict { options, monitor throws(ReachabilityError) in
            let explanations = try monitor.explanations(
                of: options.target.scopes, within: options.timeLimit, isThorough: true)
            return (Self.lines(explanations, options.form), explanations.map(\.path))
        }
    }

    private static func lines(_ explanations: [Explanation], _ form: FormatOption) -> [String] {
        switch form.format {
        case .json: explanations.map { JSONValue.explanation($0).description }
        case .text:
            // An empty line separates the scopes.
            Array(explanations.map { ExplanationText(explanation: $0, style: form.style).lines }.joined(separator: [""]))
        }
    }
}

/// The subcommand `status`.
struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Writes one verdict; exits with 0 if every scope is reachable, 1 if not, 2 if unknown.",
        discussion: """
            Below a verdict it names the interface to mend and a command to try next, where there is evidence for one.

            EXAMPLES
              reachability-watch status
              reachability-watch status --to 192.0.2.7 --format json
              reachability-watch status --to nas.example.org --timeout 1s
            """)

    @OptionGroup var options: VerdictOptions

    func run() {
        options.writeVerdict { options, monitor throws(ReachabilityError) in
            let explanations = try monitor.explanations(of: options.target.scopes, within: options.timeLimit)
            let lines = explanations.flatMap { statusLines($0, options.form.format, options.form.style) }
            return (lines, explanations.map(\.path))
        }
    }
}

/// The options of `status` and `explain`.
struct VerdictOptions: ParsableArguments {
    /// The default time limit.
    static let standardTimeLimit = Duration.seconds(5)

    @OptionGroup var target: ScopeOptions
    @OptionGroup var monitoring: MonitorOptions

    @OptionGroup var form: FormatOption

    @Option(
        help: ArgumentHelp(
            "Wait at most this long for name servers, such as 500ms or 2s. Default: 5s.",
            valueName: "duration"),
        transform: { try DurationArgument($0) })
    var timeout: DurationArgument?

    /// The time limit to use.
    var timeLimit: Duration { timeout?.duration ?? Self.standardTimeLimit }

    /// Writes the lines that `verdict` makes with a new monitor, and ends the process with the status of its paths.
    func writeVerdict(
        _ verdict:
            @escaping @Sendable (Self, ReachabilityMonitor) throws(ReachabilityError) -> (lines: [String], paths: [NetworkPath])
    ) -> Never {
        Program.run(in: target.namespacePath) {
            do throws(ReachabilityError) {
                let (lines, paths) = try verdict(self, ReachabilityMonitor(configuration: monitoring.configuration))
                return Program.write(lines, thenEndWith: ExitStatus(paths))
            } catch {
                return Program.report(error)
            }
        }
    }
}
