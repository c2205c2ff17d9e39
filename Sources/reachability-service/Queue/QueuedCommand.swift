import ArgumentParser
package import CommandKit
import FoundationEssentials
import Glibc
import Reachability
import ReachableJobs
import ReachableRetry

/// The stored form is the text if the bytes are UTF-8, and otherwise an array with their base64.
extension ForeignText: Codable {
    /// Reads either form.
    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if let text = try? container.decode(String.self) {
            self.init(text)
        } else {
            self.init(try container.decode([Data].self).flatMap(Array.init))
        }
    }

    /// Writes the form for the bytes.
    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        if let utf8 { try container.encode(utf8) } else { try container.encode([Data(bytes)]) }
    }
}

/// A command with its surroundings, as `queue add` stores it.
struct QueuedCommand: Hashable, Codable, Sendable {
    /// The program and its arguments.
    var words: [ForeignText]
    /// The directory to run in.
    var directory: ForeignText
    /// The mask of the modes of new files (umask(2)).
    var umask: UInt32
    /// The environment.
    var environment: [String: ForeignText]
    /// The retry options, as words of the command line.
    var options: [String]

    /// The variables that are stored without being named.
    private static let usualVariables = ["PATH", "HOME", "LANG"]

    /// Creates a command that runs where this process is.
    ///
    /// - Parameters:
    ///   - words: The program and its arguments.
    ///   - variables: The names of further variables to store, or `NAME=VALUE`.
    ///   - options: The retry options.
    init(_ words: [[UInt8]], variables: [String], options: [String]) throws(InvalidArgument) {
        self.words = words.map { ForeignText($0) }
        self.options = options
        guard let path = getcwd(nil, 0) else {
            throw InvalidArgument(
                "the current directory cannot be read: \(errorText(errno)); next: change to a directory that exists")
        }
        directory = ForeignText(RawArguments.bytes(path))
        free(path)
        umask = Glibc.umask(0)
        _ = Glibc.umask(umask)
        environment = [:]
        for name in Self.usualVariables { environment[name] = Self.value(of: name) }
        for variable in variables {
            let parts = variable.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard !parts[0].isEmpty else { throw InvalidArgument("--env has no name; next: write --env NAME or --env NAME=VALUE") }
            if parts.count == 2 {
                environment[parts[0]] = ForeignText(parts[1])
            } else if let value = Self.value(of: parts[0]) {
                environment[parts[0]] = value
            } else {
                throw InvalidArgument(
                    "the variable \(quotation(parts[0])) is not set; next: set it, or write --env \(quotation(parts[0]))=VALUE")
            }
        }
    }

    private static func value(of name: String) -> ForeignText? { getenv(name).map { ForeignText(RawArguments.bytes($0)) } }

    /// The command as a shell would read it, escaped for terminals.
    var line: String { words.map { ForeignText(Self.quoted($0.text)).terminal }.joined(separator: " ") }

    /// Returns a word in quotation marks if a shell would not read it as one word.
    private static func quoted(_ word: String) -> String {
        let isPlain =
            !word.isEmpty
            && word.unicodeScalars.allSatisfy {
                $0.properties.isAlphabetic || $0.properties.numericType != nil || "%+,-./:=@_\\".unicodeScalars.contains($0)
            }
        return isPlain ? word : "'\(word.replacing("'", with: #"'\''"#))'"
    }

    /// The retry policy; the deadline is the stored job's.
    var policy: RetryPolicy {
        guard let options = try? RetryOptions.parse(options) else { return RetryPolicy.default.giveUpAfter(maxAttempts: nil) }
        return options.policy.giveUpAfter(elapsed: nil)
    }
}

/// The behaviour of a kind of commands while offline.
///
/// The worker decides by a job's kind, before it reads the job, so each behaviour is a kind of its own.
protocol CommandKind: Sendable {
    static var name: String { get }
    static var connectivity: RetryPolicy.Connectivity { get }
}

/// Commands that wait for the network.
enum WaitingCommands: CommandKind {
    static let name = "command"
    static let connectivity = RetryPolicy.Connectivity.wait(upTo: nil)
}

/// Commands that run offline too, and retry at once on a reconnect.
enum AcceleratedCommands: CommandKind {
    static let name = "command-accelerated"
    static let connectivity = RetryPolicy.Connectivity.accelerate
}

/// Commands that do not depend on the network.
enum LocalCommands: CommandKind {
    static let name = "command-local"
    static let connectivity = RetryPolicy.Connectivity.ignore
}

/// A durable job that runs a command.
struct CommandJob<Kind: CommandKind>: JobParameters {
    static var jobName: String { Kind.name }

    var command: QueuedCommand
    /// The job's place; not stored with the command.
    var options = DurableOptions()

    init(_ command: QueuedCommand, _ options: DurableOptions) { (self.command, self.options) = (command, options) }

    init(from decoder: any Decoder) throws { command = try QueuedCommand(from: decoder) }

    func encode(to encoder: any Encoder) throws { try command.encode(to: encoder) }
}

extension DurableJob {
    /// The command of the job; `nil` if it is of another program or version.
    var command: QueuedCommand? {
        parameters(as: CommandJob<WaitingCommands>.self)?.command
            ?? parameters(as: CommandJob<AcceleratedCommands>.self)?.command
            ?? parameters(as: CommandJob<LocalCommands>.self)?.command
    }

    /// The command for people, or the kind of a job of another program.
    var title: String { command?.line ?? "a job of kind '\(quotation(kind))'" }
}
