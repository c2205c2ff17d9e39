import Foundation
import FoundationNetworking
import Reachability
import ReachableHTTP
import ReachableRetry

/// Makes one request on a bus over the kernel's network, and tells what happens, a line for each event.
///
///     http-probe get|download|upload URL [--size BYTES] [--attempts N] [--interrupt]
@main struct HTTPProbe {
    static func main() async {
        let monitor = ReachabilityMonitor()
        let running = Task { try await monitor.run() }
        defer { running.cancel() }
        // A monitor that nobody runs yet would count as blind, and the request would start offline.
        for await _ in monitor.transitions { break }
        let bus = RetryBus(monitor)
        let events = bus.events
        let telling = Task {
            for await event in events { tell(event) }
        }
        do {
            tell("ok \(try await result(on: bus))")
        } catch {
            tell("error \((error as? URLError)?.errorCode ?? 0) \(type(of: error))")
        }
        await bus.shutdown(drain: nil)
        await telling.value
        tell("end")
    }

    private static func result(on bus: RetryBus) async throws -> String {
        let words = Array(CommandLine.arguments.dropFirst())
        guard words.count >= 2, let url = URL(string: words[1]) else { throw CocoaError(.formatting) }
        func option(_ name: String) -> Int? {
            words.firstIndex(of: name).flatMap { words.dropFirst($0 + 1).first }.flatMap { Int($0) }
        }
        var policy = RetryPolicy(.constant(.milliseconds(50))).giveUpAfter(maxAttempts: option("--attempts") ?? 5)
        if words.contains("--interrupt") { policy = policy.interruptsAttemptWhenUnsatisfied(grace: .zero) }
        var request = URLRequest(url: url)
        switch words[0] {
        case "upload":
            request.httpMethod = "PUT"
            let data = Data(repeating: 7, count: option("--size") ?? 0)
            let (_, response) = try await URLSession.shared.upload(for: request, from: data, retrying: policy, on: bus)
            return "\(response.statusCode)"
        case "download":
            let (file, response) = try await URLSession.shared.download(for: request, retrying: policy, on: bus)
            defer { try? FileManager.default.removeItem(at: file) }
            let data = try Data(contentsOf: file)
            return "\(response.statusCode) \(data.count) \(data.reduce(into: UInt64(0)) { $0 += UInt64($1) })"
        default:
            let (data, response) = try await URLSession.shared.data(for: request, retrying: policy, on: bus)
            return "\(response.statusCode) \(data.count)"
        }
    }

    private static func tell(_ event: RetryEvent) {
        guard let failure = event.failure else { return tell("\(event.kind.rawValue) \(event.attempt)") }
        let fault =
            switch failure.failureClass {
            case .server(let delay): delay.map { "server \($0.components.seconds)" } ?? "server"
            default: "\(failure.failureClass)"
            }
        let code = (failure.error as? URLError)?.errorCode ?? (failure.error as? HTTPStatusError)?.status ?? 0
        tell("failed \(event.attempt) \(fault) \(failure.isCharged ? "charged" : "uncharged") \(code)")
    }

    private static func tell(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }
}
