import Foundation
import FoundationNetworking
import Glibc
import Reachability
import ReachableHTTP
import ReachableRetry
import Synchronization

#if AsyncHTTPClient
import AsyncHTTPClient
#endif

/// Makes one request on a bus over the kernel's network, and prints a line for each event.
///
///     http-probe get|download|upload|posts|names URL [--client NAME] [--size BYTES] [--attempts N] [--interrupt]
///         [--source-grace MS] [--validate] [--transitions] [--times N] [--method NAME] [--starve] [--attempt-timeout MS]
///         [--then URL] [--authorization WORDS]
///     http-probe crowd URL --jobs N [--client NAME] [--size BYTES] [--attempts N] [--method NAME] [--timeout SECONDS]
///         [--connections N] [--downloads N --file URL] [--rounds N]
///     http-probe durable URL [--client NAME] FILE JOB
@main struct HTTPProbe {
    static func main() async {
        if words.first == "durable" { return await DurableProbe.run(Array(words.dropFirst())) }
        var configuration = ReachabilityMonitor.Configuration()
        if isValidated {
            configuration.validator = url.map { HTTPPathValidator(url: $0, timeout: .seconds(600)) }
            configuration.validationTimeout = .seconds(600)
        }
        let monitor = ReachabilityMonitor(configuration: configuration)
        let running = Task { try await monitor.run() }
        // Before the first verdict the monitor is blind, and the request would start offline.
        for await _ in monitor.transitions { break }
        let validations = monitor.transitions(to: .internet, raw: true)
        let watching = Task {
            for await transition in validations {
                if words.contains("--transitions") { write(transition.current.isSatisfied ? "online" : "offline") }
                if let validation = transition.current.validation { write("\(validation)") }
            }
        }
        var busConfiguration = RetryBus.Configuration()
        // No event may be dropped.
        busConfiguration.bufferedEvents = .max
        let bus = RetryBus(monitor, configuration: busConfiguration)
        let events = bus.events
        let writing = Task {
            for await event in events { write(event) }
        }
        do {
            write("ok \(try await result(on: bus, monitor))")
        } catch {
            write("error \(code(of: error)) \(type(of: error))")
        }
        await bus.shutdown(drain: nil)
        await writing.value
        running.cancel()
        await watching.value
        write("end")
    }

    private static let words = Array(CommandLine.arguments.dropFirst())
    private static let url = words.dropFirst().first.flatMap { URL(string: $0) }
    /// `true` if the request waits until its own URL answers with 204.
    private static let isValidated = words.contains("--validate")

    private static func option(_ name: String) -> String? { words.firstIndex(of: name).flatMap { words.dropFirst($0 + 1).first } }

    private static func number(_ name: String) -> Int? { option(name).flatMap { Int($0) } }

    private static func result(on bus: RetryBus, _ monitor: ReachabilityMonitor) async throws -> String {
        guard let url else { throw CocoaError(.formatting) }
        var policy = RetryPolicy(.constant(.milliseconds(50))).giveUpAfter(maxAttempts: number("--attempts") ?? 5)
        if let grace = number("--source-grace") {
            policy = policy.interruptsAttempt(.whenSourceIsLost(grace: .milliseconds(grace)))
        }
        if let limit = number("--attempt-timeout") { policy = policy.attemptTimeout(.milliseconds(limit)) }
        if words.contains("--interrupt") { policy = policy.interruptsAttempt(.whenUnsatisfied(grace: .zero)) }
        let (size, method) = (number("--size") ?? 0, option("--method") ?? "GET")
        var settings = ProbeSettings(policy: policy, bus: bus)
        if words[0] == "crowd" {
            settings.timeout = number("--timeout") ?? 60
            settings.connections = number("--connections")
            let crowd = Crowd(
                count: number("--jobs") ?? 1, url: url, method: method, size: size, downloads: number("--downloads") ?? 0,
                file: option("--file").flatMap { URL(string: $0) }, rounds: number("--rounds") ?? 1)
            return try await run(settings) { await crowd.run(by: $0) }
        }
        settings.conditions = isValidated ? [monitor.validatedCondition] : []
        settings.isStarved = words.contains("--starve")
        settings.authorization = option("--authorization")
        let request = SingleRequest(
            kind: words[0], url: url, method: method, size: size, times: number("--times") ?? 1,
            next: option("--then").flatMap { URL(string: $0) })
        return try await run(settings) { try await request.run(by: $0) }
    }

    /// Runs the body with the chosen client.
    private static func run(
        _ settings: ProbeSettings, _ body: (any ProbeClient) async throws -> String
    ) async throws -> String {
        switch option("--client") {
        case nil, "urlSession": return try await SessionProbeClient.run(settings, body)
        #if AsyncHTTPClient
        case "asyncHTTPClient": return try await AsyncProbeClient.run(settings, body)
        #endif
        default: throw CocoaError(.featureUnsupported)
        }
    }

    private static func write(_ event: RetryEvent) {
        guard let failure = event.failure else { return write("\(event.kind.rawValue) \(event.attempt)") }
        Shortage.end()
        let fault =
            switch failure.fault {
            case .overload(let delay): delay.map { "overload \($0.components.seconds)" } ?? "overload"
            default: "\(failure.fault)"
            }
        write("failed \(event.attempt) \(fault) \(failure.isCharged ? "charged" : "uncharged") \(code(of: failure.error))")
    }

    /// Returns a status, or the code of `URLError` for an error of a connection; 0 for other errors.
    static func code(of error: any Error) -> Int {
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

    static func write(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }
}

/// A shortage of descriptors in this process.
enum Shortage {
    private static let limit = Mutex<rlimit?>(nil)

    /// Allows no descriptor beyond the standard ones, so that the ends of others free none.
    static func begin() {
        limit.withLock { limit in
            var present = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &present)
            var none = rlimit(rlim_cur: 3, rlim_max: present.rlim_max)
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &none)
            limit = present
        }
    }

    /// Allows descriptors again.
    static func end() {
        limit.withLock { limit in
            guard var present = limit else { return }
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &present)
            limit = nil
        }
    }
}
