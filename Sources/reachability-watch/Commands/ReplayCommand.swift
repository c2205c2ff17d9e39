import ArgumentParser
import Glibc
import Reachability
import Synchronization

/// The subcommand `replay`.
struct ReplayCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Writes what watch would have written while a recording was made.",
        discussion: """
            It needs no network and no privilege. Of a file of rtmon, which holds events and no verdicts, it writes the events.

            EXAMPLES
              reachability-watch replay outage.reach
              gunzip < outage.reach.gz | reachability-watch replay --speed 10 --format json -
            """)

    @Argument(help: ArgumentHelp("The file from record or from rtmon, or - for standard input.", valueName: "file"))
    var file: String

    @Option(help: "How to write: text for people, json for one object a line.")
    var format = OutputFormat.text

    @Flag(help: "Tell each loss at once, however short.")
    var raw = false

    @Option(
        help: ArgumentHelp("How fast: 1 as it happened, 10 for ten times that, or max.", valueName: "n|max"),
        transform: { try SpeedArgument($0) })
    var speed: SpeedArgument?

    func run() {
        Program.run(in: nil) { [file, format, raw, speed] in
            ReaderWatch.start()
            let pace = speed?.factor.map { ReplayPace.following(ContinuousClock(), speed: $0) }
            let network: RecordedNetwork
            do throws(ReachabilityError) {
                let input =
                    file == "-" ? RecordingFile(descriptor: STDIN_FILENO, name: "standard input") : try RecordingFile(reading: file)
                let beginning = try CompressedFormat.beginning(of: input.read)
                if let format = CompressedFormat(beginning: beginning) {
                    DescriptorOutput.complain("\(quotation(input.path)) \(format.advice)")
                    return .invalidData
                }
                let rest = Mutex(beginning)
                network = try RecordedNetwork(pace: pace ?? .unlimited) {
                    // An empty piece would be the end.
                    let first = rest.withLock { bytes in
                        defer { bytes = [] }
                        return bytes
                    }
                    return first.isEmpty ? try input.read() : first
                }
            } catch {
                return Program.report(error, as: error.code == .invalidRecording ? .invalidData : .noInput)
            }
            let session = ReplaySession(
                network: network, isPaced: pace != nil, isRaw: raw, format: format, style: Program.outputStyle,
                localOffset: localOffset(at:), output: DescriptorOutput.standard, notes: DescriptorOutput.diagnostics)
            return switch await session.run() {
            case .done: .yes
            case .outputFailed(let failure): Program.report(failure)
            case .monitorEnded(let error): error.map { Program.report($0) } ?? .unknown
            }
        }
    }
}
