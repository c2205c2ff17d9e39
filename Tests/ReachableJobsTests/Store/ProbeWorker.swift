#if SQLite || PostgreSQL
import Foundation

/// A worker in a process of its own, which a test stops and kills; see `JobsProbe`.
///
/// Its methods block: use it on a `ThreadPerJobExecutor`.
final class ProbeWorker: Sendable {
    private let process = Process()
    private let input = Pipe()
    private let output: Pipe

    /// Starts a worker.
    ///
    /// - Parameters:
    ///   - store: The path of the database, or the connection string.
    ///   - effects: The path of the file that takes the effects.
    ///   - options: `hold`: attempts wait for ``go()`` before their effect. `ahead=SECONDS`: the clock of its leases.
    ///   - shared: A pipe for the lines of several workers.
    init(_ store: String, _ effects: String, _ options: [String] = [], output shared: Pipe? = nil) throws {
        output = shared ?? Pipe()
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        process.executableURL = URL(fileURLWithPath: tests).deletingLastPathComponent().appendingPathComponent("jobs-probe")
        process.arguments = [store, effects] + options
        process.standardInput = input
        // Foundation closes its end of a pipe that it is given, so that the end of the worker ends the output.
        if let shared { process.standardOutput = shared.fileHandleForWriting } else { process.standardOutput = output }
        try process.run()
    }

    deinit { if process.isRunning { kill() } }

    /// Returns the next line of its output; `nil` at the end.
    func readLine() -> String? {
        var line: [UInt8] = []
        while let byte = output.fileHandleForReading.readData(ofLength: 1).first {
            if byte == UInt8(ascii: "\n") { return String(decoding: line, as: UTF8.self) }
            line.append(byte)
        }
        return nil
    }

    /// Lets a held attempt go on.
    func go() { input.fileHandleForWriting.write(Data([0])) }

    /// Stops the process with SIGSTOP, and returns when all its threads have stopped.
    func stop() {
        Foundation.kill(process.processIdentifier, SIGSTOP)
        var info = siginfo_t()
        // WNOWAIT leaves the report to Foundation, which waits for the end of the process.
        waitid(P_PID, id_t(process.processIdentifier), &info, WSTOPPED | WNOWAIT)
    }

    /// Lets a stopped process go on.
    func resume() { Foundation.kill(process.processIdentifier, SIGCONT) }

    func kill() {
        Foundation.kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }
}
#endif
