import Foundation
import FoundationNetworking
import MisbehavingServer
import Reachability
import ReachabilityTesting
import ReachableHTTP
import ReachableRetry
import TestSupport
import Testing

/// A real server on this machine, and a bus whose network is simulated and whose time is virtual unless a test needs the real one.
final class Exchange: Sendable {
    let clock = ManualClock()
    let network: SimulatedNetwork
    let server: MisbehavingServer
    let bus: RetryBus
    let session = URLSession(configuration: .ephemeral)
    private let monitor: ReachabilityMonitor

    init(
        inRealTime: Bool = false, keepsConnections: Bool = false, answer: @escaping @Sendable (Request) -> Reply
    ) throws {
        network = SimulatedNetwork.online(clock: clock)
        monitor = ReachabilityMonitor(network)
        let clock: any Clock<Duration> = inRealTime ? ContinuousClock() : clock
        bus = RetryBus(monitor, clock: clock, generator: SeededGenerator(seed: 1))
        server = try MisbehavingServer(keepsConnections: keepsConnections, answer: answer)
    }

    deinit { session.finishTasksAndInvalidate() }

    /// Runs a body with a running monitor, and stops the server afterwards.
    static func run(
        inRealTime: Bool = false, keepsConnections: Bool = false, _ answer: @escaping @Sendable (Request) -> Reply,
        _ body: @Sendable (Exchange) async throws -> Void
    ) async throws {
        let exchange = try Exchange(inRealTime: inRealTime, keepsConnections: keepsConnections, answer: answer)
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

    /// Starts a request for data.
    func load(
        _ method: String = "GET", retrying policy: RetryPolicy = .steady, options: HTTPRetryOptions = .init()
    ) throws -> Task<(Data, HTTPURLResponse), any Error> {
        let request = try request(method)
        return Task { try await session.data(for: request, retrying: policy, on: bus, options: options) }
    }
}

/// Returns an answer with one reply to the first request, and "ok" to all others.
func answering(first reply: Reply) -> @Sendable (Request) -> Reply { { $0.number == 1 ? reply : .ok } }

/// Returns an answer with one reply to every request.
func answering(_ reply: Reply) -> @Sendable (Request) -> Reply { { _ in reply } }

extension Reply {
    /// The response "ok".
    static var ok: Reply { .respond(200, [:], "ok") }
}

/// Steps that several tests share.
extension Exchange {
    /// Removes the source address of all connections of this machine, which are dead from then on.
    func loseSource() throws { try network.removeAddress("eth0", "192.0.2.10/24") }

    /// Removes the source address during the first, unanswered request, and advances the time.
    func loseSource(for duration: Duration) async throws {
        try await server.untilRequests(1)
        try loseSource()
        clock.advance(by: duration)
    }

    /// Adds the address that ``loseSource()`` removed.
    func regainSource() throws {
        try network.addAddress("eth0", "192.0.2.10/24")
        try network.replaceRoute(to: "default", via: "192.0.2.1", dev: "eth0")
    }

    /// Lets the first, unanswered attempt reach its time limit, and starts the next one.
    func timeOutFirstAttempt(of id: JobID, after limit: Duration) async throws {
        try await server.untilRequests(1)
        #expect(bus.pending.map(\.state) == [.running])
        clock.advance(by: limit)
        let parked = try await bus.parked(id)
        #expect(parked.lastError as? RetryError == .attemptTimedOut && parked.charged == 1)
        clock.advance(by: .seconds(1))
    }

    /// Cancels two unanswered requests.
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

    /// Runs two lives of an upload of two bytes, each of which fails once: all requests of a life have its key.
    func expectKeyPerLife(of job: Job<some Sendable>) async throws {
        for _ in 1...2 { _ = try await job.value }
        let keys = server.requests.map { $0.headers["idempotency-key"] }
        try #require(keys.count == 4 && keys[0] != nil)
        #expect(keys[0] == keys[1] && keys[2] == keys[3] && keys[0] != keys[2])
        #expect(server.requests.map(\.length) == [2, 2, 2, 2])
    }

    /// Submits an upload that fails once, and checks the events that its handler receives.
    func expectEventsOfUpload<Value>(_ job: Job<Value>, status: @escaping @Sendable (Value) -> Int) async throws {
        let (events, event) = AsyncStream.makeStream(of: String.self)
        let observed = job.onEvent {
            switch $0 {
            case .attemptFailed: event.yield("failed")
            case .succeeded(let value):
                event.yield("succeeded \(status(value))")
                event.finish()
            default: break
            }
        }
        try observed.submit()
        #expect(await events.reduce(into: []) { $0.append($1) } == ["failed", "succeeded 201"])
    }

    /// The answer to three lives of a download: the third one gets an error response.
    static let threeBodies: @Sendable (Request) -> Reply = { request in
        request.number == 3 ? .respond(404, [:], "no") : .respond(200, [:], "body \(request.number)")
    }

    /// Runs three lives of a download with ``threeBodies``, then one of a job that throws error statuses, without the server.
    func expectFilePerLife<Response>(
        in folder: TemporaryFolder, of job: Job<(URL, Response)>, _ failing: Job<(URL, Response)>, status: (Response) -> Int
    ) async throws {
        let first = try await job.value.0
        let second = try await job.value.0
        let (third, response) = try await job.value
        let bodies = try [first, second, third].map { String(decoding: try Data(contentsOf: $0), as: UTF8.self) }
        #expect(bodies == ["body 1", "body 2", "no"] && status(response) == 404)
        #expect(folder.names.count == 3)
        server.stop()
        await #expect(throws: (any Error).self) { _ = try await failing.value }
        #expect(folder.names.count == 3, "a life that gave up leaves no file")
    }

    /// Starts callers that share a request by the name "feed"; the request fails once and is parked.
    func share<Value: Sendable>(
        _ count: Int, _ load: @escaping @Sendable () async throws -> Value
    ) async throws -> [Task<Value, any Error>] {
        // Each caller has joined when its task suspends.
        let callers = (1...count).map { _ in Task.immediate { try await load() } }
        #expect(bus.sharers(of: "feed") == count)
        _ = try await bus.parked("feed")
        return callers
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
