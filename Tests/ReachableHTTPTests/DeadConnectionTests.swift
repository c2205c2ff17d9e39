import Dispatch
import Foundation
import FoundationNetworking
import MisbehavingServer
import ReachabilityTesting
import ReachableRetry
import Synchronization
import Testing

@testable import ReachableHTTP

#if AsyncHTTPClient
import AsyncHTTPClient
import NIOSSL
#endif

/// Pools of connections that have died together, as after a router has forgotten them.
@Suite(.timeLimit(.minutes(20))) struct DeadConnectionTests {
    typealias Load = @Sendable (Exchange, RetryPolicy, JobID) async throws -> Void

    /// The number of connections that are kept.
    private static let count = 6

    /// Runs a body after several parallel requests, whose connections will not answer again.
    private func withDeadPool(
        _ load: @escaping Load, _ body: @escaping @Sendable (Exchange) async throws -> Void
    ) async throws {
        let arrived = Atomic(0)
        let all = DispatchSemaphore(value: 0)
        try await Exchange.run { request in
            if request.connection > Self.count { return .ok }
            if request.number > Self.count { return .stall }
            // The server has all of them at a time: each has a connection of its own.
            if arrived.add(1, ordering: .relaxed).newValue == Self.count { for _ in 0..<Self.count { all.signal() } }
            all.wait()
            return .ok
        } _: { exchange in
            await withTaskGroup(of: Void.self) { group in
                for number in 1...Self.count { group.addTask { try? await load(exchange, .steady, JobID("first \(number)")) } }
            }
            try #require(exchange.server.acceptedCount == Self.count)
            try await body(exchange)
        }
    }

    /// Costs one timeout, and not one for each connection.
    private func expectOneTimeout(_ load: @escaping Load) async throws {
        try await withDeadPool(load) { exchange in
            let limit = Duration.seconds(2)
            let loading = Task { try await load(exchange, .steady.attemptTimeout(limit), "job") }
            try await exchange.server.untilRequests(Self.count + 1)
            exchange.clock.advance(by: limit)
            let parked = try await exchange.bus.parked("job")
            #expect(parked.charged == 1)
            exchange.clock.advance(by: .seconds(1))
            try await loading.value
            #expect(exchange.server.requests.count == Self.count + 2)
        }
    }

    /// The next request needs no connection of before.
    private func expectNoTimeout(_ load: @escaping Load) async throws {
        try await withDeadPool(load) { exchange in
            try exchange.network.pull("eth0")
            try exchange.network.plug("eth0")
            try await load(exchange, .steady, "job")
            #expect(exchange.server.requests.count == Self.count + 1)
        }
    }

    private static let session: Load = { exchange, policy, id in
        _ = try await exchange.session.data(
            for: try exchange.request(), retrying: policy, on: exchange.bus, options: .with { $0.job.id = id })
    }

    @Test func timeoutLeavesAllConnectionsOfASession() async throws { try await expectOneTimeout(Self.session) }

    @Test func edgeLeavesAllConnectionsOfASession() async throws { try await expectNoTimeout(Self.session) }

    #if AsyncHTTPClient
    private func withClient(_ body: (@escaping Load) async throws -> Void) async throws {
        let client = HTTPClient(configuration: .steady)
        do {
            try await body { exchange, policy, id in
                _ = try await client.execute(
                    exchange.clientRequest(), retrying: policy, on: exchange.bus, options: .with { $0.job.id = id })
            }
        } catch {
            try await client.shutdown()
            throw error
        }
        try await client.shutdown()
    }

    /// Requests on other connections keep the trust of the client, which it has no accessor for.
    @Test func configurationOfAClientIsFound() async throws {
        var configuration = HTTPClient.Configuration.steady
        configuration.tlsConfiguration = .makeClientConfiguration()
        configuration.tlsConfiguration?.minimumTLSVersion = .tlsv13
        let client = HTTPClient(configuration: configuration)
        #expect(client.ownConfiguration?.minimumTLSVersion == .tlsv13)
        try await client.shutdown()
    }

    @Test func timeoutLeavesAllConnectionsOfAClient() async throws { try await withClient(expectOneTimeout) }

    @Test func edgeLeavesAllConnectionsOfAClient() async throws { try await withClient(expectNoTimeout) }
    #endif
}
