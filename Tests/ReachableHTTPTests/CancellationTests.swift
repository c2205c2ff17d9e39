import Dispatch
import Foundation
import FoundationNetworking
import MisbehavingServer
import ReachableHTTP
import ReachableRetry
import TestSupport
import Testing

/// Requests that end right after their start; a fault of Foundation then ends the process.
@Suite(.timeLimit(.minutes(60))) struct CancellationTests {
    enum Configuration: String, Codable, CaseIterable, Sendable {
        case standard, ephemeral, shared

        var session: URLSession {
            switch self {
            case .standard: URLSession(configuration: .default)
            case .ephemeral: URLSession(configuration: .ephemeral)
            case .shared: .shared
            }
        }
    }

    enum Kind: String, Codable, CaseIterable, Sendable { case data, upload, download }

    /// The number of requests of each pair.
    static let count = variable("HTTP_CANCELLATIONS") ?? 100

    /// Each pair has a process of its own.
    @Test(arguments: Configuration.allCases, Kind.allCases)
    func requestsMayEndAtTheirStart(_ configuration: Configuration, _ kind: Kind) async {
        await #expect(processExitsWith: .success) { [configuration = configuration as Configuration, kind = kind as Kind] in
            try await Exchange.run(inRealTime: true, answering(.ok)) { exchange in
                let starts = try Starts(exchange, configuration.session, kind)
                // Threads and caches are there then.
                try await starts.run(Self.count / 10)
                let before = try Self.usage
                let duration = try await ContinuousClock().measure { try await starts.run(Self.count) }
                let after = try Self.usage
                print(
                    "\(configuration) \(kind): \(Self.count) requests in \(duration); descriptors \(before.descriptors), "
                        + "then \(after.descriptors); memory \(before.memory) KiB, then \(after.memory) KiB")
                try #require(after.descriptors < before.descriptors + 100)
            }
        }
    }

    private static var usage: (descriptors: Int, memory: Int) {
        get throws {
            (try openFiles().count, processStatus("VmRSS") ?? 0)
        }
    }

    /// Requests that end between 0 and 3 ms after their start.
    private struct Starts: Sendable {
        let exchange: Exchange
        let session: URLSession
        let kind: Kind
        let folder: TemporaryFolder

        init(_ exchange: Exchange, _ session: URLSession, _ kind: Kind) throws {
            (self.exchange, self.session, self.kind, folder) = (exchange, session, kind, try TemporaryFolder())
        }

        /// Runs requests, as many at a time as may go to one server.
        func run(_ count: Int) async throws {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for first in 0..<6 {
                    group.addTask { for number in stride(from: first, to: count, by: 6) { try await run(one: number) } }
                }
                try await group.waitForAll()
            }
            // A download that was cut may remove its own file at the same time.
            for name in folder.names { unlink("\(folder.path)/\(name)") }
        }

        /// Cancels every other request; an attempt timeout ends the others.
        private func run(one number: Int) async throws {
            let time = number * 7919 % 3001
            let isCancelled = number.isMultiple(of: 2)
            var policy = RetryPolicy.steady.giveUpAfter(maxAttempts: 1)
            if !isCancelled { policy = policy.attemptTimeout(.microseconds(max(1, time))) }
            let request = try exchange.request(kind == .upload ? "PUT" : "GET")
            // Attempts that end so early are no server's overload.
            let options = HTTPRetryOptions.with {
                $0.destination = .none
                $0.downloadDirectory = folder.url
            }
            let loading = Task { [policy] in
                switch kind {
                case .data: _ = try await session.data(for: request, retrying: policy, on: exchange.bus, options: options)
                case .upload:
                    _ = try await session.upload(
                        for: request, from: Data(repeating: 7, count: 1000), retrying: policy, on: exchange.bus,
                        options: options)
                case .download:
                    _ = try await session.download(for: request, retrying: policy, on: exchange.bus, options: options)
                }
            }
            if isCancelled { DispatchQueue.global().asyncAfter(deadline: .now() + .microseconds(time)) { loading.cancel() } }
            _ = await loading.result
        }
    }
}
