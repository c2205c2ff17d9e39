import Foundation
import FoundationNetworking
import Reachability
import ReachableHTTP
import ReachableRetry

/// Makes one request on a bus over the kernel's network, and tells what happens, a line for each event.
///
///     http-probe get|download|upload URL [--size BYTES] [--attempts N] [--interrupt] [--validate]
@main struct HTTPProbe {
    static func main() async {
        var configuration = ReachabilityMonitor.Configuration()
        if isValidated {
            configuration.validator = url.map { HTTPPathValidator(url: $0, timeout: .seconds(600)) }
            configuration.validationTimeout = .seconds(600)
        }
        let monitor = ReachabilityMonitor(configuration: configuration)
        let running = Task { try await monitor.run() }
        // A monitor that nobody runs yet would count as blind, and the request would start offline.
        for await _ in monitor.transitions { break }
        let validations = monitor.transitions(to: .internet, raw: true)
        let watching = Task {
            for await transition in validations {
                if let validation = transition.current.validation { tell("\(validation)") }
            }
        }
        let bus = RetryBus(monitor)
        let events = bus.events
        let telling = Task {
            for await event in events { tell(event) }
        }
        do {
            tell("ok \(try await result(on: bus, monitor))")
        } catch {
            tell("error \((error as? URLError)?.errorCode ?? 0) \(type(of: error))")
        }
        await bus.shutdown(drain: nil)
        await telling.value
        running.cancel()
        await watching.value
        tell("end")
    }

    private static let words = Array(CommandLine.arguments.dropFirst())
    private static let url = words.dropFirst().first.flatMap { URL(string: $0) }
    /// Whether the request waits until its own URL answers with 204.
    private static let isValidated = words.contains("--validate")

    private static func result(on bus: RetryBus, _ monitor: ReachabilityMonitor) async throws -> String {
        guard let url else { throw CocoaError(.formatting) }
        func option(_ name: String) -> Int? {
            words.firstIndex(of: name).flatMap { words.dropFirst($0 + 1).first }.flatMap { Int($0) }
        }
        var policy = RetryPolicy(.constant(.milliseconds(50))).giveUpAfter(maxAttempts: option("--attempts") ?? 5)
        if words.contains("--interrupt") { policy = policy.interruptsAttemptWhenUnsatisfied(grace: .zero) }
        var options = HTTPRetryOptions()
        if isValidated { options.conditions = [monitor.validatedCondition] }
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
            let (data, response) = try await URLSession.shared.data(for: request, retrying: policy, on: bus, options: options)
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
