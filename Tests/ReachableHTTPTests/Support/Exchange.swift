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

/// Steps that several tests share.
extension Exchange {
    /// Takes the address away that the connections of this machine have; they are dead from then on.
    func loseSource() throws { try network.removeAddress("eth0", "192.0.2.10/24") }

    /// Brings the address back that ``loseSource()`` took.
    func regainSource() throws {
        try network.addAddress("eth0", "192.0.2.10/24")
        try network.replaceRoute(to: "default", via: "192.0.2.1", dev: "eth0")
    }

    /// Has the first attempt, which the server does not answer, end by its time limit, and the next one start.
    func timeOutFirstAttempt(of id: JobID, after limit: Duration) async throws {
        try await server.untilRequests(1)
        #expect(bus.pending.map(\.state) == [.running])
        clock.advance(by: limit)
        let parked = try await bus.parked(id)
        #expect(parked.lastError as? RetryError == .attemptTimedOut && parked.charged == 1)
        clock.advance(by: .seconds(1))
    }

    /// Cancels two requests that the server has and does not answer.
    func cancelUnanswered(
        _ loading: Task<some Sendable, any Error>, _ downloading: Task<some Sendable, any Error>
    ) async throws {
        try await server.untilRequests(2)
        loading.cancel()
        downloading.cancel()
        await #expect(throws: CancellationError.self) { _ = try await loading.value }
        await #expect(throws: CancellationError.self) { _ = try await downloading.value }
        #expect(bus.pending.isEmpty)
    }

    /// Runs two lives of an upload of two bytes, each of which the server refuses once: all requests of a life have its key.
    func expectKeyPerLife(of job: Job<some Sendable>) async throws {
        for _ in 1...2 { _ = try await job.value }
        let keys = server.requests.map { $0.headers["idempotency-key"] }
        try #require(keys.count == 4 && keys[0] != nil)
        #expect(keys[0] == keys[1] && keys[2] == keys[3] && keys[0] != keys[2])
        #expect(server.requests.map(\.length) == [2, 2, 2, 2])
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
