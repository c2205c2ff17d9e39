import ArgumentParser
import Reachability

/// The subcommand `explain`.
struct ExplainCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Writes every step of the verdict: interfaces, addresses, look-ups, what is missing and what to try next.",
        discussion: """
            It ends like status: with 0 if all is reachable, 1 if not, 2 if that is not known.

            EXAMPLES
              reachability-watch explain
              reachability-watch explain --to 192.0.2.7 --uid 1000
              reachability-watch explain --to nas.example.org --timeout 1s
            """)

    @OptionGroup var target: ScopeOptions

    @Option(help: "How to write: text for people, json for one object a line.")
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
            // An empty line marks where the next scope begins.
            Array(
                explanations.map { ExplanationText(explanation: $0, style: Program.outputStyle).lines }.joined(separator: [""]))
        }
    }
}

/// The subcommand `status`.
struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Writes one verdict, and ends with 0 if all is reachable, 1 if not, 2 if that is not known.",
        discussion: """
            EXAMPLES
              reachability-watch status
              reachability-watch status --to 192.0.2.7 --format json
              reachability-watch status --to nas.example.org --timeout 1s
            """)

    @OptionGroup var target: ScopeOptions

    @Option(help: "How to write: text for people, json for one object a line.")
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

/// The time limit of commands that give one answer.
struct TimeoutOption: ParsableArguments {
    /// The limit unless one is given.
    static let standard = Duration.seconds(5)

    @Option(
        help: ArgumentHelp(
            "Do not wait longer than this for name servers, such as 500ms or 2s. Default: 5s.",
            valueName: "duration"),
        transform: { try DurationArgument($0) })
    var timeout: DurationArgument?

    /// The limit.
    var duration: Duration { timeout?.duration ?? Self.standard }
}
