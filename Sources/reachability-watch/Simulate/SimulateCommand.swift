import ArgumentParser
import CommandKit
import Glibc
import Reachability

/// The subcommand `simulate`.
struct SimulateCommand: ParsableCommand {
    /// The form of the report.
    enum Format: String, CaseIterable, ExpressibleByArgument {
        case text
        case json
        case svg
    }

    static let configuration = CommandConfiguration(
        commandName: "simulate",
        abstract: "Shows when jobs would start under a retry policy, on a scripted network in virtual time.",
        discussion: """
            Beside it runs a plain backoff: the same policies without knowledge of the network and of other jobs. Sends no packet, \
            needs no privilege, and simulates hours in milliseconds. Policies have the options of run. docs/simulate.md has all \
            statements.

            EXAMPLES
              reachability-watch simulate train.txt
              reachability-watch simulate train.txt --output train.svg

              with this in train.txt:
                # A laptop on a train
                at 5s   pull eth0
                at 20s  plug eth0
                server  photos answers 503 retry-after 10s from 21s to 30s
                policy  careful --backoff exponential:1s..30s --attempts 10
                job     upload at 2s to photos policy careful takes 4s
                jobs    100 photo at 6s to photos policy careful
                release gated
                until   2m
            """)

    @Argument(help: ArgumentHelp("The file with the scenario, or - for standard input.", valueName: "scenario"))
    var file: String

    @Option(help: ArgumentHelp("Replace this file by the report. Default: standard output.", valueName: "file"))
    var output: String?

    @Option(
        help: """
            The output format: text for people, json for one object a line, svg for a picture. Default: as the name of --output \
            ends (.json .svg), otherwise text.
            """)
    var format: Format?

    @Option(help: ArgumentHelp("The seed of the jitter: the same seed gives the same report.", valueName: "n"))
    var seed: UInt64 = 1

    @OptionGroup var color: ColorOption

    func validate() throws {
        if output == "" { throw ValidationError("--output is empty; next: name a file") }
    }

    func run() {
        let output = output == "-" ? nil : output
        let suffix = output?.split(separator: ".").last.map { $0.lowercased() }
        let format = format ?? suffix.flatMap(Format.init) ?? .text
        let style = output == nil ? color.style : TextStyle()
        Program.run(in: nil) { [file, seed] in
            let name = file == "-" ? "standard input" : file
            do {
                let scenario = try ScenarioParser.parse(try Self.read(file))
                let title = name.split(separator: "/").last.map(String.init) ?? name
                let simulation = try await Simulation(scenario, name: title, seed: seed)
                if let remark = simulation.remark { DescriptorOutput.printMessage(remark) }
                let status = simulation.remark == nil ? ExitStatus.yes : .no
                let lines = Self.lines(simulation, format, style)
                guard let output else { return Program.write(lines, thenEndWith: status) }
                try OutputFile.write(lines.lazy.map { "\($0)\n" }, to: output)
                return status
            } catch let errors as ScenarioErrors {
                for error in errors.list { DescriptorOutput.printMessage("\(quotation(name)): \(error)") }
                if errors.list.count >= ScenarioErrors.most {
                    DescriptorOutput.printMessage("\(quotation(name)): the rest was not read; next: correct these mistakes first")
                }
                return .invalidData
            } catch let failure as CommandFailure {
                DescriptorOutput.printMessage(failure.message)
                return failure.status
            } catch let error as ReachabilityError {
                return Program.report(error, as: .noInput)
            } catch {
                DescriptorOutput.printMessage("\(error)")
                return .invalidData
            }
        }
    }

    private static func lines(_ simulation: Simulation, _ format: Format, _ style: TextStyle) -> AnySequence<String> {
        switch format {
        case .text: AnySequence(SimulationText(simulation: simulation, style: style).lines)
        case .json: AnySequence(SimulationJSON(simulation: simulation).lines.lazy.map(\.description))
        case .svg: AnySequence([SimulationPicture(simulation).svg])
        }
    }

    /// Reads a file to its end, or until it is too long for a scenario.
    private static func read(_ file: String) throws -> [UInt8] {
        let input =
            file == "-" ? RecordingFile(descriptor: STDIN_FILENO, name: "standard input") : try RecordingFile(reading: file)
        var bytes: [UInt8] = []
        while case let more = try input.read(), !more.isEmpty {
            bytes += more
            guard bytes.count <= Scenario.longestFile else {
                throw InvalidArgument("\(quotation(input.path)) has more than 1 MiB; next: use 'jobs' instead of many 'job' lines")
            }
        }
        return bytes
    }
}
