#if AsyncHTTPClient
import AsyncHTTPClient
import Foundation
import MisbehavingServer
import NIOCore
import NIOHTTP1
import ReachabilityTesting
import ReachableHTTP
import ReachableRetry
import Synchronization
import Testing

/// Requests of async-http-client to a real server, repeated by a bus in virtual time, as in `RetryingTests`.
@Suite(.timeLimit(.minutes(20))) struct ClientRetryingTests {
    @Test func successIsReturned() async throws {
        try await Exchange.run(by: .steady) { _ in
            .respond(200, ["X": "y"], "hello")
        } _: { exchange, client in
            let response = try await client.execute(exchange.clientRequest(), retrying: .steady, on: exchange.bus)
            #expect(response.status == .ok && response.headers.first(name: "x") == "y")
            #expect(try await response.text == "hello" && exchange.server.requests.count == 1)
        }
    }

    @Test func serverDelayIsWaitedOut() async throws {
        try await Exchange.run(by: .steady) {
            $0.number == 1 ? .respond(503, ["Retry-After": "30"]) : .respond(200, [:], "ok")
        } _: { exchange, client in
            let loading = Task {
                try await client.execute(exchange.clientRequest(), retrying: .steady, on: exchange.bus, options: .job)
            }
            let parked = try await exchange.bus.parked("job")
            #expect(parked.hardDelay == .seconds(30) && parked.charged == 1)
            #expect(parked.destination == "127.0.0.1:\(exchange.server.port)")
            #expect((parked.lastError as? HTTPClientStatusError)?.status == 503)
            exchange.bus.retryNow()
            try exchange.network.pull("eth0")
            try exchange.network.plug("eth0")
            #expect(try await exchange.bus.parked("job").hardDelay == .seconds(30), "the server's delay still applies")
            exchange.clock.advance(by: .seconds(30))
            #expect(try await loading.value.text == "ok")
        }
    }

    @Test func permanentStatusIsReturnedOrThrown() async throws {
        try await Exchange.run(by: .steady) { _ in
            .respond(404, [:], "not here")
        } _: { exchange, client in
            let response = try await client.execute(exchange.clientRequest(), retrying: .steady, on: exchange.bus)
            #expect(try await response.text == "not here" && response.status == .notFound)
            let error = try await #require(throws: HTTPClientStatusError.self) {
                _ = try await client.execute(
                    exchange.clientRequest(), retrying: .steady, on: exchange.bus, options: .with { $0.errorStatuses = .thrown },
                    upTo: 3)
            }
            #expect(error.status == 404 && error.body == ByteBuffer(string: "not") && error.description.contains("404"))
            for _ in 1...2 { #expect(try await error.response.text == "not", "each reader has its own") }
            #expect(exchange.server.requests.count == 2)
        }
    }

    @Test(arguments: [HTTPClientRetryOptions.ErrorStatuses.returned, .thrown])
    func lastTransientStatusIsResult(statuses: HTTPClientRetryOptions.ErrorStatuses) async throws {
        try await Exchange.run(by: .steady) {
            .respond(503, [:], "busy \($0.number)")
        } _: { exchange, client in
            let result: HTTPClientResponse
            do {
                result = try await client.execute(
                    exchange.clientRequest(), retrying: .steady.backoff(.immediate), on: exchange.bus,
                    options: .with { $0.errorStatuses = statuses })
                #expect(statuses == .returned)
            } catch let error as HTTPClientStatusError {
                #expect(statuses == .thrown)
                result = error.response
            }
            #expect(try await result.text == "busy 4" && result.status == .serviceUnavailable)
            #expect(exchange.server.requests.count == 4)
        }
    }

    /// The client tries all addresses of the name.
    @Test(arguments: ["127.0.0.1", "localhost"])
    func clientDoesNotRepeatRefusedConnection(host: String) async throws {
        try await Exchange.run(by: .steady) { _ in
            .respond(200)
        } _: { exchange, client in
            let events = exchange.bus.events
            exchange.server.stop()
            let start = ContinuousClock.now
            await #expect(throws: (any Error).self) {
                let request = HTTPClientRequest(url: "http://\(host):\(exchange.server.port)/")
                _ = try await client.execute(request, retrying: .steady.backoff(.immediate), on: exchange.bus)
            }
            #expect(ContinuousClock.now - start < .seconds(30), "by default the client takes 10 s for each attempt")
            let failed = try #require(await events.first { $0.kind == .attemptFailed }?.failure)
            #expect(failed.fault == .server && failed.isCharged, "\(failed)")
            #expect(ConnectionFault(failed.error).systemError == ECONNREFUSED, "\(failed)")
        }
    }

    /// The system rejects connections to a broadcast address: no packet leaves this machine.
    @Test func unconnectedRequestIsRepeatedWithAnyMethod() async throws {
        try await Exchange.run(by: .steady) { _ in
            .respond(200)
        } _: { exchange, client in
            let events = exchange.bus.events
            var request = HTTPClientRequest(url: "http://255.255.255.255/")
            request.method = .POST
            let loading = Task { [request] in try await client.execute(request, retrying: .steady, on: exchange.bus) }
            let failed = try #require(await events.first { $0.kind == .attemptFailed }?.failure)
            #expect(failed.error is IOError && failed.mayRetry, "\(failed)")
            loading.cancel()
            _ = await loading.result
        }
    }

    @Test(arguments: [
        Reply.reset, .breakOff(200, body: Array(repeating: 7, count: 100_000), after: 5000),
        .stopShort(200, body: Array(repeating: 7, count: 100_000), after: 5000), .stopShort(200, body: [1], after: 0),
    ])
    func brokenConnectionIsRetried(reply: Reply) async throws {
        try await Exchange.run(by: .steady) {
            $0.number == 1 ? reply : .respond(200, [:], "ok")
        } _: { exchange, client in
            let events = exchange.bus.events
            let response = try await client.execute(
                exchange.clientRequest(), retrying: .steady.backoff(.immediate), on: exchange.bus)
            #expect(try await response.text == "ok")
            let failed = try #require(await events.first { $0.kind == .attemptFailed }?.failure)
            #expect(failed.fault == .unknown && failed.isCharged, "\(failed)")
            #expect(ConnectionFault(failed.error).errorCode == -1005, "\(failed)")
        }
    }

    @Test(arguments: [Reply.reset, .stopShort(200, body: Array(repeating: 7, count: 100_000), after: 5000)])
    func connectionBrokenByOutageIsNotCharged(reply: Reply) async throws {
        let network = Mutex<Exchange?>(nil)
        let answer: @Sendable (Request) -> Reply = { request in
            guard request.number == 1 else { return .respond(200, [:], "ok") }
            try? network.withLock { $0 }?.network.pull("eth0")
            return reply
        }
        try await Exchange.run(by: .steady, answer) { exchange, client in
            network.withLock { $0 = exchange }
            defer { network.withLock { $0 = nil } }
            let loading = Task {
                try await client.execute(exchange.clientRequest(), retrying: .steady, on: exchange.bus, options: .job)
            }
            let parked = try await exchange.bus.parked("job")
            #expect(parked.unmet == ["internet"] && parked.charged == 0 && parked.networkFailures == 1)
            try exchange.network.plug("eth0")
            #expect(try await loading.value.text == "ok" && exchange.clock.now.offset == .zero)
        }
    }

    @Test func offlineNothingIsSent() async throws {
        try await Exchange.run(by: .steady) { _ in
            .respond(200, [:], "ok")
        } _: { exchange, client in
            try exchange.network.pull("eth0")
            let loading = Task {
                try await client.execute(exchange.clientRequest(.POST), retrying: .steady, on: exchange.bus, options: .job)
            }
            #expect(try await exchange.bus.parked("job").unmet == ["internet"])
            #expect(exchange.server.requests.isEmpty)
            exchange.clock.advance(by: .seconds(3600))
            try exchange.network.plug("eth0")
            #expect(try await loading.value.status == .ok)
        }
    }

    @Test(arguments: [Reply.respond(503), .reset]) func unsafeRequestIsSentOnce(reply: Reply) async throws {
        try await Exchange.run(by: .steady) { _ in
            reply
        } _: { exchange, client in
            _ = try? await client.upload(
                exchange.clientRequest(.POST), from: ByteBuffer(bytes: [1, 2]), retrying: .steady.backoff(.immediate),
                on: exchange.bus)
            #expect(exchange.server.requests.map(\.length) == [2])
        }
    }

    @Test func adaptedRequestKeepsKey() async throws {
        try await Exchange.run(by: .steady) {
            $0.number < 3 ? .respond(500) : .respond(200)
        } _: { exchange, client in
            let options = HTTPClientRetryOptions.with {
                $0.idempotency = .key
                $0.adapt = { request, attempt in
                    var request = request
                    request.headers.replaceOrAdd(name: "Authorization", value: "token \(attempt.number)")
                    return request
                }
            }
            _ = try await client.execute(
                exchange.clientRequest(.POST), retrying: .steady.backoff(.immediate), on: exchange.bus, options: options)
            #expect(exchange.server.requests.map { $0.headers["authorization"] } == ["token 1", "token 2", "token 3"])
            let keys = Set(exchange.server.requests.map { $0.headers["idempotency-key"] })
            #expect(keys.count == 1 && keys.first??.count == 36)
        }
    }

    @Test func tooLongResponseEndsJob() async throws {
        try await Exchange.run(by: .steady) { _ in
            .respond(200, [:], "0123456789")
        } _: { exchange, client in
            for limit in [9, 0, -1] {
                await #expect(throws: NIOTooManyBytesError.self) {
                    _ = try await client.execute(exchange.clientRequest(), retrying: .steady, on: exchange.bus, upTo: limit)
                }
            }
            #expect(exchange.server.requests.count == 3)
        }
    }

    @Test func otherSchemesAreNotSent() async throws {
        try await Exchange.run(by: .steady) { _ in
            .respond(200)
        } _: { exchange, client in
            try exchange.network.pull("eth0")
            for (url, error) in [
                ("file:///etc/hosts", HTTPClientError.unsupportedScheme("file")), ("ftp://127.0.0.1/", .unsupportedScheme("ftp")),
                ("", .invalidURL),
            ] {
                await #expect(throws: error) {
                    _ = try await client.execute(HTTPClientRequest(url: url), retrying: .steady, on: exchange.bus)
                }
            }
        }
    }
}
#endif
