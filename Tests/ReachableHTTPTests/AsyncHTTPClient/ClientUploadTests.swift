#if AsyncHTTPClient
import AsyncHTTPClient
import Foundation
import Glibc
import MisbehavingServer
import NIOCore
import NIOHTTP1
import ReachabilityTesting
import ReachableHTTP
import ReachableRetry
import TestSupport
import Testing

/// Uploads by async-http-client: each attempt sends all of it.
@Suite(.timeLimit(.minutes(20))) struct ClientUploadTests {
    /// More than two parts, and not a multiple of a part.
    private static let body = (0..<300_001).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
    private static let sum = body.reduce(into: UInt64(0)) { $0 += UInt64($1) }
    private static let policy = RetryPolicy.steady.backoff(.immediate)

    private func expectTwice(
        _ upload: @Sendable (Exchange, HTTPClient) async throws -> HTTPClientResponse
    ) async throws {
        try await Exchange.run(by: .steady) {
            $0.number == 1 ? .reset : .respond(201, [:], "thanks")
        } _: { exchange, client in
            let response = try await upload(exchange, client)
            #expect(try await response.text == "thanks" && response.status == .created)
            #expect(exchange.server.requests.map(\.sum) == [Self.sum, Self.sum])
            #expect(exchange.server.requests.map { $0.headers["content-length"] } == ["300001", "300001"])
        }
    }

    @Test func bytesAreSentTwice() async throws {
        try await expectTwice { exchange, client in
            try await client.upload(
                exchange.clientRequest(.PUT), from: ByteBuffer(bytes: Self.body), retrying: Self.policy, on: exchange.bus)
        }
    }

    @Test func requestsOwnBodyIsSentTwice() async throws {
        try await expectTwice { exchange, client in
            var request = exchange.clientRequest(.PUT)
            request.body = .bytes(Self.body)
            return try await client.execute(request, retrying: Self.policy, on: exchange.bus)
        }
    }

    @Test func fileIsSentTwice() async throws {
        let folder = try TemporaryFolder()
        let file = URL(fileURLWithPath: try folder.write(Self.body, to: "upload"))
        try await expectTwice { exchange, client in
            try await client.upload(exchange.clientRequest(.PUT), fromFile: file, retrying: Self.policy, on: exchange.bus)
        }
    }

    @Test func bodyIsMadeForEachAttempt() async throws {
        let made = Recorder<Int>()
        try await expectTwice { exchange, client in
            let options = HTTPClientRetryOptions.with {
                $0.adapt = { request, attempt in
                    var request = request
                    request.headers.add(name: "Attempt", value: "\(attempt.number)")
                    return request
                }
            }
            let response = try await client.upload(
                exchange.clientRequest(.PUT), retrying: Self.policy, on: exchange.bus, options: options
            ) { attempt in
                made.record(attempt.number)
                let (stream, continuation) = AsyncStream.makeStream(of: ByteBuffer.self)
                for start in stride(from: 0, to: Self.body.count, by: 100_000) {
                    continuation.yield(ByteBuffer(bytes: Self.body[start..<min(start + 100_000, Self.body.count)]))
                }
                continuation.finish()
                return .stream(stream, length: .known(Int64(Self.body.count)))
            }
            #expect(exchange.server.requests.map { $0.headers["attempt"] } == ["1", "2"])
            return response
        }
        #expect(made.value == [1, 2])
    }

    @Test func failingBodyFunctionFailsAttempt() async throws {
        struct MissingBody: Error {}
        try await Exchange.run(by: .steady) { _ in
            .respond(201)
        } _: { exchange, client in
            let response = try await client.upload(
                exchange.clientRequest(.POST), retrying: Self.policy, on: exchange.bus
            ) { attempt in
                if attempt.number < 3 { throw MissingBody() }
                return .bytes(ByteBuffer(string: "body"))
            }
            #expect(response.status == .created && exchange.server.requests.map(\.length) == [4])
        }
    }

    @Test(arguments: ["missing", "."]) func unreadableFileEndsJob(name: String) async throws {
        let folder = try TemporaryFolder()
        let file = folder.url.appendingPathComponent(name)
        try await Exchange.run(by: .steady) { _ in
            .respond(201)
        } _: { exchange, client in
            let events = exchange.bus.events
            await #expect(throws: (any Error).self) {
                // The clock stands still: only an immediate repetition would be seen.
                let policy = RetryPolicy.steady.backoff(.immediate)
                _ = try await client.upload(exchange.clientRequest(.PUT), fromFile: file, retrying: policy, on: exchange.bus)
            }
            let failed = try #require(await events.first { $0.kind == .attemptFailed }?.failure)
            #expect(failed.fault == .unknown, "\(failed)")
        }
    }

    @Test func shorterFileEndsJob() async throws {
        let folder = try TemporaryFolder()
        let file = folder.url.appendingPathComponent("upload")
        // Larger than the system's buffers: the end has not been read when the beginning arrives.
        let size = 64_000_000
        try Data().write(to: file)
        try FileHandle(forUpdating: file).truncate(atOffset: UInt64(size))
        let shorten: @Sendable (Request, Int) -> Void = { _, count in
            if count < size / 100 { try? FileHandle(forUpdating: file).truncate(atOffset: 1000) }
        }
        let server = try MisbehavingServer(progress: shorten) { _ in .respond(201) }
        defer { server.stop() }
        try await Exchange.run(by: .steady) { _ in
            .respond(500)
        } _: { exchange, client in
            var request = exchange.clientRequest(.PUT)
            request.url = "http://127.0.0.1:\(server.port)/"
            await #expect(throws: HTTPClientError.bodyLengthMismatch) {
                _ = try await client.upload(request, fromFile: file, retrying: Self.policy, on: exchange.bus)
            }
        }
        #expect(server.requests.count == 1)
    }

    /// The system takes bytes for longer than the client waits for an answer.
    @Test func slowLineIsNoSilence() async throws {
        let size = 5 << 20
        let server = try MisbehavingServer(
            receiveBuffer: 1 << 16, progress: { _, _ in poll(nil, 0, 60) }, answer: { _ in .respond(201) })
        defer { server.stop() }
        var configuration = HTTPClient.Configuration()
        configuration.timeout.read = .seconds(1)
        try await Exchange.run(by: configuration.leavingRetriesToBus()) { _ in
            .respond(500)
        } _: { exchange, client in
            var request = exchange.clientRequest(.PUT)
            request.url = "http://127.0.0.1:\(server.port)/"
            let response = try await client.upload(
                request, from: ByteBuffer(repeating: 7, count: size), retrying: Self.policy, on: exchange.bus)
            #expect(response.status == .created && server.requests.last?.length == size)
        }
    }

    @Test func emptyBodyIsSent() async throws {
        try await Exchange.run(by: .steady) { _ in
            .respond(201)
        } _: { exchange, client in
            _ = try await client.upload(exchange.clientRequest(.PUT), from: ByteBuffer(), retrying: Self.policy, on: exchange.bus)
            #expect(exchange.server.requests.map(\.length) == [0])
        }
    }
}
#endif
