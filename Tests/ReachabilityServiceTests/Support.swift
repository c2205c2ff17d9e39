#if SQLite
import Foundation
import Testing

/// A directory of a test with a queue in it, and the commands on it.
final class QueueDesk: Sendable {
    let directory: String
    let program: String

    /// The network namespace of the commands; `nil` for the test's own.
    private let namespace: String?

    init(in namespace: String? = nil) throws {
        self.namespace = namespace
        directory = "/tmp/reachability-queue-test-\(getpid())-\(UInt64.random(in: 0 ... .max))"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
        let folder = URL(fileURLWithPath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
        program = folder.deletingLastPathComponent().appendingPathComponent("reachability-watch").path
    }

    deinit { try? FileManager.default.removeItem(atPath: directory) }

    var store: String { "\(directory)/q/queue.db" }

    /// The outcome of a command.
    struct Outcome {
        var code: Int32
        var output: String
        var errors: String

        var lines: [String] { output.split(separator: "\n").map(String.init) }
        var id: String { lines.first ?? "" }
    }

    /// Starts `reachability-watch queue` with a subcommand and its arguments.
    ///
    /// - Parameter variable: A value of REACHABILITY_QUEUE_STORE in the place of --store.
    func start(
        _ words: [String], in folder: String? = nil, variable: String? = nil, output: Any? = nil, errors: Any? = nil
    ) throws -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments =
            (namespace.map { ["ip", "netns", "exec", $0] } ?? []) + [program, "queue", words[0]]
            + (variable == nil ? ["--store", store] : []) + words.dropFirst()
        if let variable {
            process.environment = ProcessInfo.processInfo.environment.merging(["REACHABILITY_QUEUE_STORE": variable]) { $1 }
        }
        process.currentDirectoryURL = URL(fileURLWithPath: folder ?? directory)
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output ?? FileHandle.nullDevice
        process.standardError = errors ?? FileHandle.nullDevice
        try process.run()
        return process
    }

    /// Runs a command to its end; blocks.
    func run(_ words: String...) throws -> Outcome { try run(words) }

    /// Runs a command to its end; blocks.
    func run(_ words: [String], variable: String? = nil) throws -> Outcome {
        let (output, errors) = (Pipe(), Pipe())
        let process = try start(words, variable: variable, output: output, errors: errors)
        // What the tests write fits into a pipe.
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        let messages = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        let code = process.terminationReason == .exit ? process.terminationStatus : 1000 + process.terminationStatus
        return Outcome(code: code, output: text, errors: messages)
    }

    /// Adds a shell script; returns its id.
    func add(_ script: String, _ options: String...) throws -> String {
        let words = ["add", "--connectivity", "ignore"] + options + ["--", "sh", "-c", script]
        let output = Pipe()
        let process = try start(words, output: output)
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
        return String(text.prefix(32))
    }

    /// The lines of a file in the directory.
    func lines(of name: String) -> [String] {
        ((try? String(contentsOfFile: "\(directory)/\(name)", encoding: .utf8)) ?? "").split(separator: "\n").map(String.init)
    }

    /// The objects of `queue list`.
    func list() throws -> [[String: Any]] {
        try run("list", "--state", "all", "--format", "json").lines.compactMap {
            try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any]
        }
    }
}
#endif
