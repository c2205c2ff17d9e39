#if Service
import Foundation
import TestSupport
import Testing

/// A running `reachability-watch serve` with a directory of its own.
final class ServeDaemon {
    let folder: TemporaryFolder
    private let process = Process()
    private let errors = Pipe()
    /// The lines of standard error so far.
    private(set) var messages: [String] = []
    /// The lines before the place where it serves: those of hooks may come first.
    private var early: [String] = []

    init() throws { folder = try TemporaryFolder() }

    deinit { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }

    var directory: String { folder.path }

    /// Runs another command to its end; returns its output.
    static func run(_ words: [String]) throws -> String {
        try Process([builtProgram("reachability-watch")] + words).outcome().output
    }

    /// The id of the process, which the shell of ``start(_:setting:history:input:)`` hands on.
    var pid: Int32 { process.processIdentifier }

    /// A setting that gives it seconds to end instead of 100 ms: a service manager, though none hears it (sd_notify(3)).
    static let withTimeToEnd = "export NOTIFY_SOCKET=@none"

    /// Starts it; `setting` is a shell command that comes before.
    func start(
        _ options: [String], setting: String = "true", history: String? = nil, input: FileHandle = .nullDevice
    ) throws {
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments =
            [
                "-c", "\(setting); exec \"$0\" \"$@\"", builtProgram("reachability-watch"), "serve",
                "--history", history ?? "\(directory)/h", "--store", "none",
            ] + options
        process.standardInput = input
        process.standardOutput = FileHandle.nullDevice
        process.standardError = errors
        try process.run()
    }

    /// Returns the next line of standard error; `nil` at its end.
    func nextLine() -> String? {
        guard let line = errors.fileHandleForReading.readLine() else { return nil }
        messages.append(line)
        return line
    }

    /// Returns the place where it serves; `nil` if it ends instead.
    func url() -> String? {
        while let line = nextLine() {
            if let range = line.range(of: "serving on ") { return String(line[range.upperBound...]) }
            early.append(line)
        }
        return nil
    }

    /// Reads lines up to the one with a text; returns it, `nil` if there is none.
    func line(with text: String) -> String? {
        if let index = early.firstIndex(where: { $0.contains(text) }) { return early.remove(at: index) }
        while let line = nextLine() {
            if line.contains(text) { return line }
        }
        return nil
    }

    func signal(_ number: Int32) { kill(process.processIdentifier, number) }

    /// Waits for its end; returns the exit code and the messages.
    func end() -> (code: Int32, messages: [String]) {
        while url() != nil {}
        process.waitUntilExit()
        return (process.terminationStatus, messages)
    }
}
#endif
