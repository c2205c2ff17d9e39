#if MQTT
import Foundation
import TestSupport

/// A member in a process of its own, which a test stops and kills; see `FleetProbe`.
///
/// Its methods block: use it in a suite with the trait `blocking`.
final class ProbeMember: Sendable {
    private let process: Process
    private let input = Pipe()
    private let output = Pipe()

    init(_ url: String, _ site: String, _ node: String, _ options: [String] = []) throws {
        process = Process([variable("FLEET_PROBE") ?? builtProgram("fleet-probe"), url, site, node] + options)
        (process.standardInput, process.standardOutput) = (input, output)
        try process.run()
    }

    deinit { if process.isRunning { kill() } }

    var identifier: Int32 { process.processIdentifier }

    /// Returns the next line of its output; `nil` at the end.
    func readLine() -> String? { output.fileHandleForReading.readLine() }

    /// Returns the next line that begins with a text; `nil` if there is none.
    func line(_ prefix: String) -> String? {
        while let line = readLine() { if line.hasPrefix(prefix) { return line } }
        return nil
    }

    func request(_ line: String) { input.fileHandleForWriting.write(Data((line + "\n").utf8)) }

    func freeze() { process.freeze() }

    func thaw() { process.thaw() }

    /// Ends the member in order.
    func stop() {
        try? input.fileHandleForWriting.close()
        process.waitUntilExit()
    }

    func kill() { process.kill() }

    /// Returns a number of `/proc/PID/status`, such as VmRSS in KiB or Threads.
    func status(_ key: String) -> Int? { processStatus(key, of: identifier) }

    var descriptors: Int { (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(identifier)/fd").count) ?? 0 }
}
#endif
