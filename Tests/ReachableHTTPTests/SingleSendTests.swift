import Foundation
import FoundationNetworking
import MisbehavingServer
import ReachabilityTesting
import ReachableHTTP
import ReachableRetry
import Testing

#if AsyncHTTPClient
import AsyncHTTPClient
import NIOCore
import NIOHTTP1
#endif

/// Requests that must not be sent twice, and a server that keeps each connection until it ends it.
@Suite(.timeLimit(.minutes(20))) struct SingleSendTests {
    private static let count = 1000

    /// Sends requests, eight at a time, to a server that after a pause answers a request, or ends its connection instead.
    ///
    /// - Parameter lost: How many answers a client may lose that come before it knows that its body has ended.
    private func expectSingleRequests(
        losing lost: Int = 0, _ send: @escaping @Sendable (Exchange, _ path: String) async throws -> Void
    ) async throws {
        let seed = UInt64.random(in: 0 ... .max)
        let replies = (1...Self.count).map { number -> Reply in
            var generator = SplitMix64(seed: seed &+ UInt64(number))
            let pause = Int32.random(in: 0...2, using: &generator)
            let ends: [Reply] = [.reset, .raw([]), .respondUntilClose(200, body: [])]
            let end = ends.randomElement(using: &generator) ?? .reset
            return .late(pause, Bool.random(using: &generator) ? .respond(200) : end)
        }
        let unanswered = replies.count {
            switch $0 {
            case .late(_, .reset), .late(_, .raw): true
            default: false
            }
        }
        try await Exchange.run(keepsConnections: true) {
            replies[($0.number - 1) % Self.count]
        } _: { exchange in
            let failed = await withTaskGroup(of: Int.self) { group in
                for worker in 0..<8 {
                    group.addTask {
                        var failed = 0
                        for number in stride(from: worker, to: Self.count, by: 8) {
                            do { try await send(exchange, "/\(number)") } catch { failed += 1 }
                        }
                        return failed
                    }
                }
                return await group.reduce(0, +)
            }
            let sent = Dictionary(grouping: exchange.server.requests, by: \.path)
            #expect(sent.count == Self.count && sent.allSatisfy { $1.count == 1 }, "seed \(seed)")
            #expect((unanswered...unanswered + lost).contains(failed), "seed \(seed)")
        }
    }

    /// Without that, libcurl sends some of them twice.
    @Test(arguments: [true, false]) func sessionCarriesOutEachOnce(hasBody: Bool) async throws {
        try await expectSingleRequests { exchange, path in
            let request = try exchange.request("POST", path)
            let body = hasBody ? Data("pay".utf8) : Data()
            _ = try await exchange.session.upload(for: request, from: body, retrying: .steady, on: exchange.bus)
        }
    }

    #if AsyncHTTPClient
    @Test(arguments: [true, false]) func clientCarriesOutEachOnce(hasBody: Bool) async throws {
        let client = HTTPClient(configuration: .steady)
        do {
            try await expectSingleRequests(losing: hasBody ? Self.count / 20 : 0) { exchange, path in
                let body = ByteBuffer(string: hasBody ? "pay" : "")
                _ = try await client.upload(
                    exchange.clientRequest(.POST, path), from: body, retrying: .steady, on: exchange.bus)
            }
        } catch {
            try await client.shutdown()
            throw error
        }
        try await client.shutdown()
    }
    #endif

    #if AsyncHTTPClient
    /// Also by a session, if nothing but its own transport is asked for: no proxy, no delegate.
    @Test func clientMakesTheSessionsRequestsOverTLS() async throws {
        let server = try MisbehavingServer(greeting: .reset) { _ in .ok }
        defer { server.stop() }
        try await Exchange.run(answering(.ok)) { exchange in
            let events = exchange.bus.events
            var request = URLRequest(url: try #require(URL(string: "https://127.0.0.1:\(server.port)/")))
            request.httpMethod = "POST"
            let policy = RetryPolicy.steady.giveUpAfter(maxAttempts: 1)
            let options = HTTPRetryOptions.with { $0.requiresSingleSend = true }
            let sending = Task { [request] in
                try await exchange.session.data(for: request, retrying: policy, on: exchange.bus, options: options)
            }
            let result = await sending.result
            guard case .failure(let error) = result else { return #expect(Bool(false), "no server answers") }
            #expect((error as? URLError)?.code == .networkConnectionLost && server.acceptedCount == 1, "\(error)")
            for await event in events {
                #expect(event.kind != .warning)
                if event.kind == .gaveUp { break }
            }
        }
    }
    #endif

    /// libcurl may send its head twice there.
    ///
    /// A delegate may be asked for credentials: no other client makes the request.
    @Test(arguments: [true, false]) func requestOverTLSIsRefusedOrWarnedOf(isRequired: Bool) async throws {
        let server = try MisbehavingServer(greeting: .reset) { _ in .ok }
        defer { server.stop() }
        try await Exchange.run(answering(.ok)) { exchange in
            let session = URLSession(configuration: .ephemeral, delegate: PasswordKeeper(), delegateQueue: nil)
            defer { session.finishTasksAndInvalidate() }
            let events = exchange.bus.events
            var request = URLRequest(url: try #require(URL(string: "https://127.0.0.1:\(server.port)/")))
            request.httpMethod = "POST"
            let options = HTTPRetryOptions.with { $0.requiresSingleSend = isRequired }
            let sending = Task { [request] in
                try await session.data(for: request, retrying: .steady, on: exchange.bus, options: options)
            }
            guard case .failure(let error) = await sending.result else { return #expect(Bool(false), "no server answers") }
            #expect((error is SingleSendError) == isRequired && (server.acceptedCount == 0) == isRequired)
            var second: RetryEvent?
            for await event in events.prefix(2) { second = event }
            #expect(second?.kind == (isRequired ? .attemptFailed : .warning))
            #expect(isRequired || second?.warning?.contains("Idempotency-Key") == true)
        }
    }

    /// A connection that has been used may be at its end.
    @Test(arguments: [true, false]) func redirectIsAnAnswer(hasBody: Bool) async throws {
        try await Exchange.run(keepsConnections: true) { _ in
            .respond(307, ["Location": "/there"])
        } _: { exchange in
            let (_, response) = try await exchange.session.upload(
                for: try exchange.request("POST"), from: Data(hasBody ? "pay".utf8 : "".utf8), retrying: .steady, on: exchange.bus)
            #expect(response.statusCode == 307 && exchange.server.requests.count == 1)
        }
    }

    @Test(arguments: [true, false]) func credentialsAreSentOnAnotherConnection(isRight: Bool) async throws {
        try await Exchange.run(keepsConnections: true) { request in
            isRight && request.headers["authorization"] == "Basic dTpw"
                ? .respond(200) : .respond(401, ["WWW-Authenticate": "Basic realm=\"x\""])
        } _: { exchange in
            let session = URLSession(configuration: .ephemeral, delegate: PasswordKeeper(), delegateQueue: nil)
            defer { session.finishTasksAndInvalidate() }
            let (_, response) = try await session.upload(
                for: try exchange.request("POST"), from: Data("pay".utf8), retrying: .steady, on: exchange.bus)
            #expect(response.statusCode == (isRight ? 200 : 401))
            #expect(exchange.server.requests.map(\.length) == [3, 3] && exchange.server.acceptedCount == 2)
        }
    }
}
