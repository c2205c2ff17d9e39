import ArgumentParser
import Reachability

/// The subcommand `watch`.
struct WatchCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "Writes a line for the present state and for each change.",
        discussion: """
            A loss that ends within 250 ms is not told as such: the path is then "lost and regained". --raw tells all at once.

            EXAMPLES
              reachability-watch watch --to 192.0.2.7 --to 2001:db8::7
              reachability-watch watch --format json --count 2 --for 1h
            """)

    @OptionGroup var target: ScopeOptions

    @Option(help: "How to write: text for people, json for one object a line.")
    var format = OutputFormat.text

    @Flag(help: "Tell each loss at once, however short.")
    var raw = false

    @Flag(help: "For diagnosis: have the kernel tell of every route, also of those that cannot matter.")
    var noFilter = false

    @Option(help: ArgumentHelp("End after this many lines, the first one included.", valueName: "n"))
    var count: Int?

    @Option(
        name: .customLong("for"), help: ArgumentHelp("End after this time, such as 250ms, 2s, 5m or 1h.", valueName: "duration"),
        transform: { try DurationArgument($0) })
    var timeLimit: DurationArgument?

    /// A misspelt command lands here, because this command is the default one.
    @Argument(help: .hidden) var words: [String] = []

    func validate() throws {
        if let word = words.first { throw ValidationError(ReachabilityWatch.suggestion.error(for: word)) }
        if let count, count < 1 { throw ValidationError("--count takes a number of at least 1.") }
    }

    func run() {
        Program.run(in: target.namespacePath) { [target, format, raw, noFilter, count, timeLimit] in
            ReaderWatch.start()
            let session = WatchSession(
                monitor: ReachabilityMonitor(KernelNetwork(usesFilter: !noFilter)), scopes: target.scopes, isRaw: raw,
                format: format, style: Program.outputStyle, count: count, timeLimit: timeLimit?.duration,
                localOffset: localOffset(at:), output: DescriptorOutput.standard,
                outputHasReader: DescriptorOutput.standard.hasReader, notes: DescriptorOutput.diagnostics)
            return switch await session.run() {
            case .done: .yes
            case .outputFailed(let failure): Program.report(failure)
            case .monitorEnded(let error): error.map { Program.report($0) } ?? .unknown
            }
        }
    }
}
