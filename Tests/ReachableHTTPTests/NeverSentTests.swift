import Foundation
import FoundationNetworking
import MisbehavingServer
import ReachabilityTesting
import ReachableRetry
import Testing

@testable import ReachableHTTP

#if AsyncHTTPClient
import AsyncHTTPClient
import NIOCore
import NIOHTTP1
#endif

/// Requests that end before a server could get them: they are repeated whatever their method is.
@Suite(.timeLimit(.minutes(20))) struct NeverSentTests {
    typealias Send = @Sendable (Exchange, _ url: String) async throws -> Void

    /// The answers of a proxy to `CONNECT`.
    enum Tunnel: String, CaseIterable, Codable, Sendable {
        case unavailable, badGateway, closed, needsCredentials, forbidden

        var reply: Reply {
            switch self {
            case .unavailable: .respond(503)
            case .badGateway: .respond(502)
            case .closed: .raw([])
            case .needsCredentials: .respond(407, ["Proxy-Authenticate": "Basic realm=\"x\""])
            case .forbidden: .respond(403)
            }
        }

        var isRepeated: Bool { self != .needsCredentials && self != .forbidden }
    }

    private static let policy = RetryPolicy.steady.backoff(.immediate).giveUpAfter(maxAttempts: 3).attemptTimeout(.seconds(5))

    /// Expects three attempts, or one.
    private static func expect(isRepeated: Bool, _ exchange: Exchange, _ send: @Sendable () async throws -> Void) async throws {
        let events = exchange.bus.events
        do {
            try await send()
            Issue.record("there was no server")
        } catch {}
        var failures: [RetryEvent.Failure] = []
        for await event in events {
            if let failure = event.failure { failures.append(failure) }
            if event.kind == .gaveUp { break }
        }
        let texts = failures.map { "\($0.error) \($0.mayRetry)" }
        try #require(failures.count == (isRepeated ? 3 : 1), "\(texts)")
    }

    private static let session: Send = { exchange, url in
        var request = URLRequest(url: try #require(URL(string: url)))
        request.httpMethod = "POST"
        _ = try await exchange.session.upload(
            for: request, from: Data("pay".utf8), retrying: policy, on: exchange.bus, options: .with { $0.errorStatuses = .thrown })
    }

    @Test(arguments: [Greeting.close, .reset, .alert]) func failedHandshakeOfASessionIsRepeated(greeting: Greeting) async throws {
        let server = try MisbehavingServer(greeting: greeting) { _ in .ok }
        defer { server.stop() }
        try await Exchange.run(answering(.ok)) { exchange in
            try await Self.expect(isRepeated: true, exchange) {
                try await Self.session(exchange, "https://127.0.0.1:\(server.port)/")
            }
        }
    }

    private func expectSecondAttempt(of send: @escaping Send, _ exchange: Exchange) async throws {
        let server = try MisbehavingServer(greeting: .silence) { _ in .ok }
        defer { server.stop() }
        let events = exchange.bus.events
        let sending = Task { try await send(exchange, "https://127.0.0.1:\(server.port)/") }
        try await server.untilConnected()
        exchange.clock.advance(by: .seconds(5))
        let failure = await events.first { $0.kind == .attemptFailed }?.failure
        #expect(failure?.error as? RetryError == .attemptTimedOut && failure?.mayRetry == true)
        sending.cancel()
        _ = await sending.result
    }

    @Test func silentHandshakeOfASessionIsRepeated() async throws {
        try await Exchange.run(answering(.ok)) { try await expectSecondAttempt(of: Self.session, $0) }
    }

    /// libcurl reads the proxy's name from the environment.
    @Test(arguments: Tunnel.allCases) func proxyThatFailsASessionIsAskedAgain(tunnel: Tunnel) async {
        await #expect(processExitsWith: .success) { [tunnel = tunnel as Tunnel] in
            try await Exchange.run { _ in
                tunnel.reply
            } _: { exchange in
                setenv("https_proxy", "http://127.0.0.1:\(exchange.server.port)", 1)
                try await Self.expect(isRepeated: tunnel.isRepeated, exchange) {
                    try await Self.session(exchange, "https://server.example/")
                }
                try #require(exchange.server.requests.allSatisfy { $0.method == "CONNECT" })
            }
        }
    }

    /// A server that tells an idle connection of its end has answered nothing.
    @Test func lateTimeoutIsNoAnswerToASession() async throws {
        try await Exchange.run(Self.answerAndTimeOut) { exchange in
            for _ in 1...3 {
                let (_, response) = try await exchange.session.data(
                    for: try exchange.request(), retrying: Self.policy, on: exchange.bus)
                #expect(response.statusCode == 200)
            }
            #expect(exchange.server.requests.count == 3)
        }
    }

    private static let answerAndTimeOut: @Sendable (Request) -> Reply = { _ in
        .raw(Array("HTTP/1.1 200 -\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 408 -\r\nContent-Length: 0\r\n\r\n".utf8))
    }

    #if AsyncHTTPClient
    private static func client(_ client: HTTPClient) -> Send {
        { exchange, url in
            var request = HTTPClientRequest(url: url)
            request.method = .POST
            _ = try await client.upload(
                request, from: ByteBuffer(string: "pay"), retrying: policy, on: exchange.bus,
                options: .with { $0.errorStatuses = .thrown })
        }
    }

    @Test(arguments: [Greeting.close, .reset, .alert]) func failedHandshakeOfAClientIsRepeated(greeting: Greeting) async throws {
        let server = try MisbehavingServer(greeting: greeting) { _ in .ok }
        defer { server.stop() }
        try await Exchange.run(by: .steady, answering(.ok)) { exchange, client in
            try await Self.expect(isRepeated: true, exchange) {
                try await Self.client(client)(exchange, "https://127.0.0.1:\(server.port)/")
            }
        }
    }

    @Test func silentHandshakeOfAClientIsRepeated() async throws {
        try await Exchange.run(by: .steady, answering(.ok)) { exchange, client in
            try await expectSecondAttempt(of: Self.client(client), exchange)
        }
    }

    /// The client does not tell a 403 from other refusals.
    @Test(arguments: Tunnel.allCases.filter { $0 != .forbidden })
    func proxyThatFailsAClientIsAskedAgain(tunnel: Tunnel) async throws {
        let proxy = try MisbehavingServer { _ in tunnel.reply }
        defer { proxy.stop() }
        var configuration = HTTPClient.Configuration.steady
        configuration.proxy = .server(host: "127.0.0.1", port: Int(proxy.port))
        try await Exchange.run(by: configuration, answering(.ok)) { exchange, client in
            try await Self.expect(isRepeated: tunnel.isRepeated, exchange) {
                try await Self.client(client)(exchange, "https://server.example/")
            }
        }
    }

    @Test func lateTimeoutIsNoAnswerToAClient() async throws {
        try await Exchange.run(by: .steady, Self.answerAndTimeOut) { exchange, client in
            for _ in 1...3 {
                let response = try await client.execute(exchange.clientRequest(), retrying: Self.policy, on: exchange.bus)
                #expect(response.status == .ok)
            }
            #expect(exchange.server.requests.count == 3)
        }
    }
    #endif
}
