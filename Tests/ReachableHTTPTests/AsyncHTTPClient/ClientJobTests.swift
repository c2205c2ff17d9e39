#if AsyncHTTPClient
import AsyncHTTPClient
import Foundation
import MisbehavingServer
import NIOCore
import NIOHTTP1
import ReachabilityTesting
import ReachableHTTP
import ReachableRetry
import TestSupport
import Testing

/// Requests of async-http-client as values of `Job`, as in `JobTests`.
@Suite(.timeLimit(.minutes(20))) struct ClientJobTests {
    private static let policy = RetryPolicy.steady.backoff(.immediate)

    @Test func jobHasAValue() async throws {
        try await Exchange.run(by: .steady, answering(first: .respond(503))) { exchange, client in
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
            for job in jobs { try await exchange.expectEventsOfUpload(job) { Int($0.status.code) } }
            #expect(exchange.server.requests.map(\.length) == [3, 3, 3, 3])
        }
    }

    @Test func downloadJobHasAFilePerLife() async throws {
        try await Exchange.run(by: .steady, Exchange.threeBodies) { exchange, client in
            let folder = try TemporaryFolder()
            var options = HTTPClientRetryOptions.with { $0.downloadDirectory = folder.url }
            let job = client.downloadJob(for: exchange.clientRequest(), retrying: Self.policy, on: exchange.bus, options: options)
            options.errorStatuses = .thrown
            let failing = client.downloadJob(
                for: exchange.clientRequest(), retrying: Self.policy, on: exchange.bus, options: options)
            try await exchange.expectFilePerLife(in: folder, of: job, failing) { Int($0.status.code) }
        }
    }

    @Test func jobForAnotherSchemeFails() async throws {
        try await Exchange.run(by: .steady, answering(.ok)) { exchange, client in
            let job = client.job(for: HTTPClientRequest(url: "file:///etc/hosts"), retrying: Self.policy, on: exchange.bus)
            await #expect(throws: HTTPClientError.unsupportedScheme("file")) { _ = try await job.value }
        }
    }

    @Test func callersOfOneNameShareRequest() async throws {
        try await Exchange.run(by: .steady, answering(first: .respond(503))) { exchange, client in
            let options = HTTPClientRetryOptions.with { $0.joining = "feed" }
            let callers = try await exchange.share(3) {
                try await client.execute(exchange.clientRequest(), retrying: .steady, on: exchange.bus, options: options)
            }
            exchange.clock.advance(by: .seconds(1))
            for caller in callers { #expect(try await caller.value.status == .ok) }
            #expect(exchange.server.requests.count == 2)
        }
    }
}
#endif
