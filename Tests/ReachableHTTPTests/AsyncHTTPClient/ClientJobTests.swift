#if AsyncHTTPClient
import AsyncHTTPClient
import Foundation
import MisbehavingServer
import NIOCore
import NIOHTTP1
import ReachabilityTesting
import ReachableHTTP
import ReachableRetry
import Testing

/// Requests of async-http-client as values of `Job`, as in `JobTests`.
@Suite(.timeLimit(.minutes(20))) struct ClientJobTests {
    private static let policy = RetryPolicy.steady.backoff(.immediate)

    @Test func jobHasAValue() async throws {
        try await Exchange.run(by: .steady) {
            $0.number == 1 ? .respond(503) : .respond(200, [:], "ok")
        } _: { exchange, client in
            let job = client.job(for: exchange.clientRequest(), retrying: Self.policy, on: exchange.bus)
            #expect(exchange.server.requests.isEmpty, "a cold job sends nothing")
            let response = try await job.value
            #expect(try await response.text == "ok" && response.status == .ok)
        }
    }

    @Test func eachLifeHasItsOwnKey() async throws {
        try await Exchange.run(by: .steady) { request in
            request.number.isMultiple(of: 2) ? .respond(201) : .respond(503)
        } _: { exchange, client in
            let options = HTTPClientRetryOptions.with { $0.idempotency = .key }
            let job = client.uploadJob(
                for: exchange.clientRequest(.POST), from: ByteBuffer(bytes: [1, 2]), retrying: Self.policy, on: exchange.bus,
                options: options)
            try await exchange.expectKeyPerLife(of: job)
        }
    }

    @Test func submittedUploadsReportEvents() async throws {
        try await Exchange.run(by: .steady) { request in
            request.number.isMultiple(of: 2) ? .respond(201) : .respond(503)
        } _: { exchange, client in
            let folder = try TemporaryFolder()
            let photo = folder.url.appendingPathComponent("photo")
            try Data([1, 2, 3]).write(to: photo)
            let jobs = [
                client.uploadJob(for: exchange.clientRequest(.PUT), fromFile: photo, retrying: Self.policy, on: exchange.bus),
                client.uploadJob(for: exchange.clientRequest(.PUT), retrying: Self.policy, on: exchange.bus) { _ in
                    .bytes(ByteBuffer(bytes: [1, 2, 3]))
                },
            ]
            for job in jobs {
                let (events, told) = AsyncStream.makeStream(of: String.self)
                let observed = job.onEvent { event in
                    switch event {
                    case .attemptFailed: told.yield("failed")
                    case .succeeded(let response):
                        told.yield("succeeded \(response.status.code)")
                        told.finish()
                    default: break
                    }
                }
                try observed.submit()
                #expect(await events.reduce(into: []) { $0.append($1) } == ["failed", "succeeded 201"])
            }
            #expect(exchange.server.requests.map(\.length) == [3, 3, 3, 3])
        }
    }

    @Test func downloadJobHasAFilePerLife() async throws {
        try await Exchange.run(by: .steady) { request in
            request.number == 3 ? .respond(404, [:], "no") : .respond(200, [:], "body \(request.number)")
        } _: { exchange, client in
            let folder = try TemporaryFolder()
            var options = HTTPClientRetryOptions.with { $0.downloadDirectory = folder.url }
            let job = client.downloadJob(for: exchange.clientRequest(), retrying: Self.policy, on: exchange.bus, options: options)
            let first = try await job.value.0
            let second = try await job.value.0
            let (third, response) = try await job.value
            let bodies = try [first, second, third].map { String(decoding: try Data(contentsOf: $0), as: UTF8.self) }
            #expect(bodies == ["body 1", "body 2", "no"] && response.status == .notFound)
            #expect(try folder.contents.count == 3)
            options.errorStatuses = .thrown
            exchange.server.stop()
            let failing = client.downloadJob(
                for: exchange.clientRequest(), retrying: Self.policy, on: exchange.bus, options: options)
            await #expect(throws: (any Error).self) { _ = try await failing.value }
            #expect(try folder.contents.count == 3, "a life that gave up leaves no file")
        }
    }

    @Test func jobForAnotherSchemeFails() async throws {
        try await Exchange.run(by: .steady) { _ in
            .respond(200)
        } _: { exchange, client in
            let job = client.job(for: HTTPClientRequest(url: "file:///etc/hosts"), retrying: Self.policy, on: exchange.bus)
            await #expect(throws: HTTPClientError.unsupportedScheme("file")) { _ = try await job.value }
        }
    }

    @Test func callersOfOneNameShareRequest() async throws {
        try await Exchange.run(by: .steady) {
            $0.number == 1 ? .respond(503) : .respond(200, [:], "ok")
        } _: { exchange, client in
            let options = HTTPClientRetryOptions.with { $0.joining = "feed" }
            // Each has joined when its task suspends.
            let callers = (1...3).map { _ in
                Task.immediate {
                    try await client.execute(exchange.clientRequest(), retrying: .steady, on: exchange.bus, options: options)
                }
            }
            #expect(exchange.bus.sharers(of: "feed") == 3)
            _ = try await exchange.bus.parked("feed")
            exchange.clock.advance(by: .seconds(1))
            for caller in callers { #expect(try await caller.value.status == .ok) }
            #expect(exchange.server.requests.count == 2)
        }
    }
}
#endif
