import ArgumentParser
import CBench
import Glibc

/// The command `bench`.
///
/// Not an asynchronous one: the threads of the pool must be made by the thread that has entered its network namespace.
@main
struct Bench: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract:
            "Measures the library beside its peers; `latency`, `flood`, `actions` and parts of `jobs` and `herd` need root.",
        subcommands: [
            LatencyCommand.self, FloodCommand.self, ActionsCommand.self, CrowdCommand.self, TimersCommand.self, HerdCommand.self,
            JobsCommand.self, JobsWorkerCommand.self, PostgreSQLCommand.self,
        ])
}

/// A benchmark cannot be made.
struct BenchError: Error, CustomStringConvertible {
    var description: String

    init(_ description: String) { self.description = description }

    /// Throws if a result is a negative errno.
    @discardableResult
    static func check(_ result: Int32, _ operation: String) throws -> Int32 {
        guard result < 0 else { return result }
        throw BenchError("\(operation): \(String(cString: strerror(-result)))")
    }
}
