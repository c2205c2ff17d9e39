import ArgumentParser
import CommandKit
import Glibc
import Reachability

/// The program with the commands that need Foundation, SQLite, HTTP or MQTT.
///
/// A program of its own keeps this one small: `reachability-watch queue`, for one, replaces itself by it (execve(2)).
enum ServiceProgram {
    /// The name of the executable.
    static let name = "reachability-service"

    /// The commands that it has.
    static let commands: [any ParsableCommand.Type] = [QueueStub.self, ServeStub.self, ReportStub.self, FleetStub.self]

    /// Returns true if the words name one of its commands, perhaps after `help` or the request of a completion script, or wait for
    /// a node of a fleet.
    static func isNamed(in words: [String]) -> Bool {
        if WaitOptions.nameNode(words) { return true }
        let word = ["help", "---completion"].contains(words.first) ? words.dropFirst().first : words.first
        return commands.contains { $0.configuration.commandName == word }
    }

    /// Returns the files where it may be: beside this program, or in the libexec directory beside this program's directory.
    ///
    /// - Parameter program: The file of this program.
    static func candidates(for program: String) -> [String] {
        guard let slash = program.lastIndex(of: "/") else { return [] }
        let directory = program[..<slash]
        return ["\(directory)/\(name)", "\(directory)/../libexec/reachability-watch/\(name)"]
    }

    /// Replaces this process by it, with the same arguments; ends with a message if it is not installed.
    static func execute() -> Never {
        let own = ownFile
        for file in candidates(for: own) {
            execv(file, CommandLine.unsafeArgv)
            guard errno == ENOENT || errno == ENOTDIR else {
                end("\(quotation(file)) cannot be executed: \(errorText(errno)); next: check its permissions, or install it again")
            }
        }
        end(
            "\(name) is not installed beside \(quotation(own)); "
                + "next: install the whole package, or build it with `swift build --traits Service`")
    }

    private static func end(_ message: String) -> Never {
        DescriptorOutput.printMessage(message)
        exit(127)
    }

    /// The file of this program (proc_pid_exe(5)), with symbolic links followed.
    private static var ownFile: String {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/exe", &buffer, buffer.count)
        return count > 0 ? String(decoding: buffer[..<count], as: UTF8.self) : CommandLine.arguments.first ?? ""
    }
}

/// The entry of `queue` in the help of this program; ``ServiceProgram`` runs the command.
struct QueueStub: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "queue", abstract: "Keeps commands on disk and runs each until it has succeeded, also after a reboot.")

    func run() { ServiceProgram.execute() }
}

/// The entry of `serve` in the help of this program; ``ServiceProgram`` runs the command.
struct ServeStub: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Serves a live page, metrics and events about the network, and keeps their history.")

    func run() { ServiceProgram.execute() }
}

/// The entry of `report` in the help of this program.
struct ReportStub: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "report", abstract: "Reports outages, flaps and availability from the lines that watch has written.")

    func run() { ServiceProgram.execute() }
}

/// The entry of `fleet` in the help of this program.
struct FleetStub: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fleet", abstract: "Shows which machines of a site are there, as their broker knows it, and asks them to act.")

    func run() { ServiceProgram.execute() }
}
