#if MQTT
import Foundation

/// A member in a process of its own, which a test stops and kills; see `FleetProbe`.
///
/// Its methods block: use it in a suite with the trait `blocking`.
final class ProbeMember: Sendable {
    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()

    init(_ url: String, _ site: String, _ node: String, _ options: [String] = []) throws {
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let beside = URL(fileURLWithPath: tests).deletingLastPathComponent().appendingPathComponent("fleet-probe")
        let other = ProcessInfo.processInfo.environment["FLEET_PROBE"].map { URL(fileURLWithPath: $0) }
        process.executableURL = other ?? beside
        process.arguments = [url, site, node] + options
        process.standardInput = input
        process.standardOutput = output
        try process.run()
    }

    deinit { if process.isRunning { kill() } }

    var identifier: Int32 { process.processIdentifier }

    /// Returns the next line of its output; `nil` at the end.
    func readLine() -> String? {
        var line: [UInt8] = []
        while let byte = output.fileHandleForReading.readData(ofLength: 1).first {
            if byte == UInt8(ascii: "\n") { return String(decoding: line, as: UTF8.self) }
            line.append(byte)
        }
        return nil
    }

    /// Returns the next line that begins with a text; `nil` if there is none.
    func line(_ prefix: String) -> String? {
        while let line = readLine() { if line.hasPrefix(prefix) { return line } }
        return nil
    }

    func request(_ line: String) { input.fileHandleForWriting.write(Data((line + "\n").utf8)) }

    /// Stops the process with SIGSTOP, and returns when all its threads have stopped.
    func freeze() {
        Foundation.kill(identifier, SIGSTOP)
        var info = siginfo_t()
        // WNOWAIT leaves the report to Foundation, which waits for the end of the process.
        waitid(P_PID, id_t(identifier), &info, WSTOPPED | WNOWAIT)
    }

    func thaw() { Foundation.kill(identifier, SIGCONT) }

    /// Ends the member in order.
    func stop() {
        try? input.fileHandleForWriting.close()
        process.waitUntilExit()
    }

    func kill() {
        Foundation.kill(identifier, SIGKILL)
        process.waitUntilExit()
    }

    /// Returns a number of `/proc/PID/status`, such as VmRSS in KiB or Threads.
    func status(_ key: String) -> Int? {
        let text = (try? String(contentsOfFile: "/proc/\(identifier)/status", encoding: .utf8)) ?? ""
        let line = text.split(separator: "\n").first { $0.hasPrefix("\(key):") }
        return line?.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) }
    }

    var descriptors: Int { (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(identifier)/fd").count) ?? 0 }
}
#endif
