import ArgumentParser
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

    @OptionGroup var target: ScopeOptions

    @Option(help: "The output format: text for people, json for one object a line.")
    var format = OutputFormat.text

    @OptionGroup var limit: TimeoutOption

    func run() {
        Program.run(in: target.namespacePath) { [target, format, limit] in
            let monitor = ReachabilityMonitor()
            do throws(ReachabilityError) {
                let explanations = try monitor.explanations(of: target.scopes, within: limit.duration)
                return Program.write(Self.lines(explanations, format), thenEndWith: ExitStatus(explanations.map(\.path)))
            } catch {
                return Program.report(error)
            }
        }
    }

    private static func lines(_ explanations: [Explanation], _ format: OutputFormat) -> [String] {
        switch format {
        case .json: explanations.map { JSONValue.explanation($0).description }
        case .text:
            // An empty line separates the scopes.
            Array(
                explanations.map { ExplanationText(explanation: $0, style: Program.outputStyle).lines }.joined(separator: [""]))
        }
    }
}

/// The subcommand `status`.
struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Writes one verdict; exits with 0 if every scope is reachable, 1 if not, 2 if unknown.",
        discussion: """
            EXAMPLES
              reachability-watch status
              reachability-watch status --to 192.0.2.7 --format json
              reachability-watch status --to nas.example.org --timeout 1s
            """)

    @OptionGroup var target: ScopeOptions

    @Option(help: "The output format: text for people, json for one object a line.")
    var format = OutputFormat.text

    @OptionGroup var limit: TimeoutOption

    func run() {
        Program.run(in: target.namespacePath) { [target, format, limit] in
            let monitor = ReachabilityMonitor()
            do throws(ReachabilityError) {
                let paths = try monitor.paths(to: target.scopes, within: limit.duration)
                let lines = zip(target.scopes, paths).map { statusLine($1, of: $0, format, Program.outputStyle) }
                return Program.write(lines, thenEndWith: ExitStatus(paths))
            } catch {
                return Program.report(error)
            }
        }
    }
}

/// The time limit of `status` and `explain`.
struct TimeoutOption: ParsableArguments {
    /// The default limit.
    static let standard = Duration.seconds(5)

    @Option(
        help: ArgumentHelp(
            "Wait at most this long for name servers, such as 500ms or 2s. Default: 5s.",
            valueName: "duration"),
        transform: { try DurationArgument($0) })
    var timeout: DurationArgument?

    /// The limit to use.
    var duration: Duration { timeout?.duration ?? Self.standard }
}
