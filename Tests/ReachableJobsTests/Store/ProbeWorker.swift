#if SQLite || PostgreSQL
import Foundation
import TestSupport

/// A worker in a process of its own, which a test stops and kills; see `JobsProbe`.
///
/// Its methods block: use it on a `ThreadPerJobExecutor`.
final class ProbeWorker: Sendable {
    private let process: Process
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
        process = Process([builtProgram("jobs-probe"), store, effects] + options)
        process.standardInput = input
        // Foundation closes its end of a pipe that it is given, so that the end of the worker ends the output.
        if let shared { process.standardOutput = shared.fileHandleForWriting } else { process.standardOutput = output }
        try process.run()
    }

    deinit { if process.isRunning { kill() } }

    /// Returns the next line of its output; `nil` at the end.
    func readLine() -> String? { output.fileHandleForReading.readLine() }

    /// Lets a held attempt go on.
    func go() { input.fileHandleForWriting.write(Data([0])) }

    /// Stops the process with SIGSTOP, and returns when all its threads have stopped.
    func stop() { process.freeze() }

    /// Lets a stopped process go on.
    func resume() { process.thaw() }

    func kill() { process.kill() }
}
#endif
