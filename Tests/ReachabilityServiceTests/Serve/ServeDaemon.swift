#if Service
import Foundation
import Testing

/// A running `reachability-watch serve` with a directory of its own.
final class ServeDaemon {
    let directory = "/tmp/reachability-serve-program-\(getpid())-\(UInt64.random(in: 0 ... .max))"
    private let process = Process()
    private let errors = Pipe()
    /// The lines of standard error so far.
    private(set) var messages: [String] = []
    /// The lines before the place where it serves: those of hooks may come first.
    private var early: [String] = []

    init() throws { try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false) }

    deinit {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        try? FileManager.default.removeItem(atPath: directory)
    }

    private static var program: String {
        get throws {
            let tests = URL(fileURLWithPath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
            return tests.deletingLastPathComponent().appendingPathComponent("reachability-watch").path
        }
    }

    /// Runs another command to its end; returns its output.
    static func run(_ words: [String]) throws -> String {
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(fileURLWithPath: try program)
        process.arguments = words
        process.standardOutput = output
        try process.run()
        defer { process.waitUntilExit() }
        return String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    }

    /// The id of the process, which the shell of ``start(_:setting:history:input:)`` hands on.
    var pid: Int32 { process.processIdentifier }

    /// A setting that gives it seconds to end instead of 100 ms: a service manager, though none hears it (sd_notify(3)).
    static let withTimeToEnd = "export NOTIFY_SOCKET=@none"

    /// Starts it; `setting` is a shell command that comes before.
    func start(
        _ options: [String], setting: String = "true", history: String? = nil, input: FileHandle = .nullDevice
    ) throws {
        let program = try Self.program
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments =
            [
                "-c", "\(setting); exec \"$0\" \"$@\"", program, "serve", "--history", history ?? "\(directory)/h", "--store",
                "none",
            ]
            + options
        process.standardInput = input
        process.standardOutput = FileHandle.nullDevice
        process.standardError = errors
        try process.run()
    }

    /// Returns the next line of standard error; `nil` at its end.
    func nextLine() -> String? {
        var text: [UInt8] = []
        while let byte = try? errors.fileHandleForReading.read(upToCount: 1)?.first {
            guard byte == UInt8(ascii: "\n") else {
                text.append(byte)
                continue
            }
            let line = String(decoding: text, as: UTF8.self)
            messages.append(line)
            return line
        }
        return nil
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
