import Foundation
import FoundationNetworking
import Reachability
import ReachableHTTP
import ReachableRetry

#if AsyncHTTPClient
import AsyncHTTPClient
#endif

/// Makes one request on a bus over the kernel's network, and tells what happens, a line for each event.
///
///     http-probe get|download|upload URL [--client NAME] [--size BYTES] [--attempts N] [--interrupt]
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
            tell("error \(code(of: error)) \(type(of: error))")
        }
        await bus.shutdown(drain: nil)
        await telling.value
        tell("end")
    }

    private static func result(on bus: RetryBus) async throws -> String {
        let words = Array(CommandLine.arguments.dropFirst())
        guard words.count >= 2, let url = URL(string: words[1]) else { throw CocoaError(.formatting) }
        func option(_ name: String) -> String? { words.firstIndex(of: name).flatMap { words.dropFirst($0 + 1).first } }
        var policy = RetryPolicy(.constant(.milliseconds(50)))
            .giveUpAfter(maxAttempts: option("--attempts").flatMap { Int($0) } ?? 5)
        if words.contains("--interrupt") { policy = policy.interruptsAttemptWhenUnsatisfied(grace: .zero) }
        let errand = Errand(kind: words[0], url: url, size: option("--size").flatMap { Int($0) } ?? 0, policy: policy, bus: bus)
        switch option("--client") {
        case nil, "urlSession": return try await errand.runByURLSession()
        #if AsyncHTTPClient
        case "asyncHTTPClient": return try await errand.runByAsyncHTTPClient()
        #endif
        default: throw CocoaError(.featureUnsupported)
        }
    }

    private static func tell(_ event: RetryEvent) {
        guard let failure = event.failure else { return tell("\(event.kind.rawValue) \(event.attempt)") }
        let fault =
            switch failure.failureClass {
            case .server(let delay): delay.map { "server \($0.components.seconds)" } ?? "server"
            default: "\(failure.failureClass)"
            }
        tell("failed \(event.attempt) \(fault) \(failure.isCharged ? "charged" : "uncharged") \(code(of: failure.error))")
    }

    /// A status, or an error of a connection in the words of `URLError`; 0 for what is neither.
    private static func code(of error: any Error) -> Int {
        switch error {
        case let error as URLError: return error.errorCode
        case let error as HTTPStatusError: return error.status
        #if AsyncHTTPClient
        case let error as HTTPClientStatusError: return error.status
        case is CancellationError, is RetryError: return 0
        default: return ConnectionFault(error).errorCode ?? 0
        #else
        default: return 0
        #endif
        }
    }

    private static func tell(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }
}
