import ArgumentParser
import Glibc
import Reachability

/// The subcommand `record`.
struct RecordCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "record",
        abstract: "Writes all that the kernel says to a file, for replay to tell it again on any machine.",
        discussion: """
            It goes on until its time is up or a signal ends it, and writes nothing to standard output. The file holds interface
            names and addresses, and no traffic.

            EXAMPLES
              reachability-watch record outage.reach
              reachability-watch record --to 192.0.2.7 --for 1h - | gzip > outage.reach.gz
            """)

    @Argument(help: ArgumentHelp("The file to make, or - for standard output. Nothing is overwritten.", valueName: "file"))
    var file: String

    @OptionGroup var target: ScopeOptions

    @Option(
        name: .customLong("for"), help: ArgumentHelp("End after this time, such as 250ms, 2s, 5m or 1h.", valueName: "duration"),
        transform: { try DurationArgument($0) })
    var timeLimit: DurationArgument?

    func run() {
        Program.run(in: target.namespacePath) { [file, target, timeLimit] interruption in
            let output: RecordingFile
            do throws(ReachabilityError) {
                output =
                    file == "-"
                    ? RecordingFile(descriptor: STDOUT_FILENO, name: "standard output") : try RecordingFile(creating: file)
            } catch {
                return Self.report(cannotCreate: error, file)
            }
            let session = RecordSession(
                source: KernelNetwork(), scopes: target.scopes, timeLimit: timeLimit?.duration,
                sink: { bytes throws(ReachabilityError) in try output.write(bytes) })
            let outcome = await session.run(until: interruption)
            if outcome.lost > 0 {
                DescriptorOutput.complain(
                    "\(outcome.lost) entries were dropped, and marked in the recording: \(output.path) is written too slowly.")
            }
            return switch outcome.end {
            case .done: .yes
            case .writingFailed(let error): error.errno == EPIPE ? .yes : Program.report(error, as: .outputFailed)
            case .monitorEnded(let error): error.map { Program.report($0) } ?? .unknown
            }
        }
    }

    private static func report(cannotCreate error: ReachabilityError, _ file: String) -> ExitStatus {
        guard error.errno == EEXIST else { return Program.report(error, as: .cannotCreate) }
        DescriptorOutput.complain("\(escapedForTerminal(file)) exists: choose another name, or remove it.")
        return .cannotCreate
    }
}
