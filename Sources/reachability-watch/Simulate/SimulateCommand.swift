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
            needs no privilege, and simulates hours in milliseconds. Policies have the options of run.

            EXAMPLES
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

    @Option(help: "The output format: text for people, json for one object a line, svg for a picture.")
    var format = Format.text

    @Option(help: ArgumentHelp("Also write a picture to this SVG file, replacing it.", valueName: "file"))
    var output: String?

    @Option(help: ArgumentHelp("The seed of the jitter: the same seed gives the same report.", valueName: "n"))
    var seed: UInt64 = 1

    func run() {
        Program.run(in: nil) { [file, format, output, seed] in
            let name = file == "-" ? "standard input" : file
            let simulation: Simulation
            do {
                let scenario = try ScenarioParser.parse(try Self.read(file))
                let title = name.split(separator: "/").last.map(String.init) ?? name
                simulation = try await Simulation(scenario, name: title, seed: seed)
            } catch let errors as ScenarioErrors {
                for error in errors.listed { DescriptorOutput.printMessage("\(quotation(name)): \(error)") }
                if errors.unlisted > 0 { DescriptorOutput.printMessage("\(quotation(name)): \(errors.unlisted) more errors") }
                return .invalidData
            } catch let error as ReachabilityError {
                return Program.report(error, as: .noInput)
            } catch {
                DescriptorOutput.printMessage("\(error)")
                return .invalidData
            }
            if let output, let status = Self.write(SimulationPicture(simulation).svg, to: output) { return status }
            if let remark = simulation.remark { DescriptorOutput.printMessage(remark) }
            return Program.write(Self.lines(simulation, format), thenEndWith: simulation.remark == nil ? .yes : .no)
        }
    }

    private static func lines(_ simulation: Simulation, _ format: Format) -> [String] {
        switch format {
        case .text: SimulationText(simulation: simulation, style: Program.outputStyle).lines
        case .json: SimulationJSON(simulation: simulation).lines.map(\.description)
        case .svg: [SimulationPicture(simulation).svg]
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

    /// Writes a file; returns a status if it cannot be written.
    private static func write(_ text: String, to file: String) -> ExitStatus? {
        let descriptor = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o666)
        guard descriptor >= 0 else {
            let reason = errorText(errno)
            DescriptorOutput.printMessage("cannot create \(quotation(file)): \(reason); next: choose another file")
            return .cannotCreate
        }
        defer { close(descriptor) }
        do throws(OutputFailure) {
            try DescriptorOutput(descriptor: descriptor).write(text)
            return nil
        } catch {
            let reason = if case .refused(let errno) = error { errorText(errno) } else { "its reader has left" }
            DescriptorOutput.printMessage("cannot write \(quotation(file)): \(reason); next: choose another file")
            return .outputFailed
        }
    }
}
