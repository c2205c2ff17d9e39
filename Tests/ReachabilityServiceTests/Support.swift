#if SQLite
import Foundation
import TestSupport
import Testing

/// A directory of a test with a queue in it, and the commands on it.
final class QueueDesk: Sendable {
    let folder: TemporaryFolder
    let program = builtProgram("reachability-watch")

    /// The network namespace of the commands; `nil` for the test's own.
    private let namespace: String?

    init(in namespace: String? = nil) throws { (self.namespace, folder) = (namespace, try TemporaryFolder()) }

    var directory: String { folder.path }

    var store: String { "\(directory)/q/queue.db" }

    /// Makes a process of `reachability-watch queue` with a subcommand and its arguments.
    ///
    /// - Parameter variable: A value of REACHABILITY_QUEUE_STORE in the place of --store.
    private func process(_ words: [String], in folder: String? = nil, variable: String? = nil) -> Process {
        let process = Process(
            (namespace.map { ["ip", "netns", "exec", $0] } ?? []) + [program, "queue", words[0]]
                + (variable == nil ? ["--store", store] : []) + words.dropFirst(),
            in: folder ?? directory, variables: variable.map { ["REACHABILITY_QUEUE_STORE": $0] } ?? [:])
        process.standardError = FileHandle.nullDevice
        return process
    }

    /// Starts a command.
    func start(_ words: [String]) throws -> Process {
        let process = process(words)
        try process.run()
        return process
    }

    /// Runs a command to its end; blocks.
    func run(_ words: String...) throws -> Outcome { try run(words) }

    /// Runs a command to its end; blocks.
    func run(_ words: [String], in folder: String? = nil, variable: String? = nil) throws -> Outcome {
        try process(words, in: folder, variable: variable).outcome()
    }

    /// Adds a shell script; returns its id.
    func add(_ script: String, _ options: String...) throws -> String {
        String(try process(["add", "--connectivity", "ignore"] + options + ["--", "sh", "-c", script]).succeed().prefix(32))
    }

    /// The lines of a file in the directory.
    func lines(of name: String) -> [String] { folder.read(name).split(separator: "\n").map(String.init) }

    /// The objects of `queue list`.
    func list() throws -> [[String: Any]] {
        try run("list", "--state", "all", "--format", "json").lines.compactMap {
            try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any]
        }
    }
}

extension Outcome {
    var id: String { lines.first ?? "" }
}
#endif
