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

/// Unanswered and cancelled requests of async-http-client.
@Suite(.timeLimit(.minutes(20))) struct ClientTimeoutTests {
    @Test func policyTimeoutEndsAttempt() async throws {
        try await Exchange.run(by: .steady) {
            $0.number == 1 ? .stall : .respond(200, [:], "ok")
        } _: { exchange, client in
            let loading = Task {
                try await client.execute(
                    exchange.clientRequest(), retrying: .steady.attemptTimeout(.milliseconds(1500)), on: exchange.bus,
                    options: .job)
            }
            try await exchange.timeOutFirstAttempt(of: "job", after: .milliseconds(1500))
            #expect(try await loading.value.text == "ok")
        }
    }

    @Test func missingBodyTimesOut() async throws {
        try await Exchange.run(by: .steady) {
            $0.number == 1
                ? .stallAfter(200, ["ETag": "\"a\""], body: [UInt8](repeating: 7, count: 1000), count: 500)
                : .part(of: [UInt8](repeating: 7, count: 1000), tag: "\"a\"", $0)
        } _: { exchange, client in
            let loading = Task {
                try await client.download(
                    exchange.clientRequest(), retrying: .steady.attemptTimeout(.seconds(2)), on: exchange.bus, options: .job)
            }
            try await exchange.server.untilRequests(1)
            exchange.clock.advance(by: .seconds(2))
            #expect(try await exchange.bus.parked("job").lastError as? RetryError == .attemptTimedOut)
            exchange.clock.advance(by: .seconds(1))
            let (file, _) = try await loading.value
            defer { try? FileManager.default.removeItem(at: file) }
            #expect(try Data(contentsOf: file).count == 1000)
        }
    }

    @Test func unsafeRequestThatTimedOutIsSentOnce() async throws {
        try await Exchange.run(by: .steady) { _ in
            .stall
        } _: { exchange, client in
            let loading = Task {
                try await client.execute(
                    exchange.clientRequest(.POST), retrying: .steady.attemptTimeout(.seconds(2)), on: exchange.bus, options: .job)
            }
            try await exchange.server.untilRequests(1)
            exchange.clock.advance(by: .seconds(2))
            await #expect(throws: RetryError.attemptTimedOut) { _ = try await loading.value }
            #expect(exchange.server.requests.count == 1)
        }
    }

    @Test func policyDeadlineEndsJob() async throws {
        try await Exchange.run(by: .steady) { _ in
            .stall
        } _: { exchange, client in
            let loading = Task {
                try await client.execute(
                    exchange.clientRequest(), retrying: .steady.giveUpAfter(elapsed: .seconds(7)), on: exchange.bus)
            }
            try await exchange.server.untilRequests(1)
            exchange.clock.advance(by: .seconds(7))
            await #expect(throws: RetryError.deadline) { _ = try await loading.value }
        }
    }

    /// Uses real time, like the client.
    @Test func clientTimeoutEndsSilence() async throws {
        var configuration = HTTPClient.Configuration()
        configuration.timeout.read = .milliseconds(200)
        #expect(configuration.leavingRetriesToBus().timeout.read == .milliseconds(200), "a value that is set stays")
        try await Exchange.run(by: configuration.leavingRetriesToBus()) {
            $0.number == 1 ? .stall : .respond(200, [:], "ok")
        } _: { exchange, client in
            let events = exchange.bus.events
            let response = try await client.execute(
                exchange.clientRequest(), retrying: .steady.backoff(.immediate).giveUpAfter(maxAttempts: nil), on: exchange.bus)
            #expect(try await response.text == "ok")
            let failed = try #require(await events.first { $0.kind == .attemptFailed }?.failure)
            #expect(failed.error as? HTTPClientError == .readTimeout && failed.fault == .unknown && failed.isCharged)
        }
    }

    @Test func configurationLeavesRetriesToBus() {
        let configuration = HTTPClient.Configuration.steady
        #expect(!configuration.connectionPool.retryConnectionEstablishment && configuration.timeout.read == .seconds(60))
    }

    @Test func cancellationEndsRequest() async throws {
        try await Exchange.run(by: .steady) { _ in
            .stall
        } _: { exchange, client in
            let loading = Task { try await client.execute(exchange.clientRequest(), retrying: .steady, on: exchange.bus) }
            let downloading = Task { try await client.download(exchange.clientRequest(), retrying: .steady, on: exchange.bus) }
            try await exchange.cancelUnanswered(loading, downloading)
            try await exchange.server.untilNoConnections()
        }
    }
}
#endif
