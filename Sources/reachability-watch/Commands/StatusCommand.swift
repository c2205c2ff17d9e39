import ArgumentParser
import Reachability

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
