import Foundation
import FoundationNetworking
import MisbehavingServer
import Reachability
import ReachabilityTesting
import ReachableHTTP
import ReachableRetry
import Testing

/// A real server on this machine, and a bus whose network is simulated and whose time is virtual.
final class Exchange: Sendable {
    let clock = ManualClock()
    let network: SimulatedNetwork
    let server: MisbehavingServer
    let bus: RetryBus
    let session = URLSession(configuration: .ephemeral)
    private let monitor: ReachabilityMonitor

    init(answer: @escaping @Sendable (Request) -> Reply) throws {
        network = SimulatedNetwork.online(clock: clock)
        monitor = ReachabilityMonitor(network)
        bus = RetryBus(monitor, clock: clock, generator: SeededGenerator(seed: 1))
        server = try MisbehavingServer(answer: answer)
    }

    deinit { session.finishTasksAndInvalidate() }

    /// Runs a body with a running monitor, and stops the server afterwards.
    static func run(
        _ answer: @escaping @Sendable (Request) -> Reply, _ body: @Sendable (Exchange) async throws -> Void
    ) async throws {
        let exchange = try Exchange(answer: answer)
        let running = Task { [monitor = exchange.monitor] in try await monitor.run() }
        defer {
            running.cancel()
            exchange.server.stop()
        }
        for await _ in exchange.monitor.transitions { break }
        try await body(exchange)
    }

    func request(_ method: String = "GET", _ path: String = "/") throws -> URLRequest {
        var request = URLRequest(url: try #require(URL(string: "http://127.0.0.1:\(server.port)\(path)")))
        request.httpMethod = method
        return request
    }
}

extension RetryPolicy {
    /// At most four attempts, 1 s apart.
    static let steady = RetryPolicy(.constant(.seconds(1))).giveUpAfter(maxAttempts: 4)
}

extension HTTPRetryOptions {
    /// Returns changed default options.
    static func with(_ change: (inout HTTPRetryOptions) -> Void) -> HTTPRetryOptions {
        var options = HTTPRetryOptions()
        change(&options)
        return options
    }
}
