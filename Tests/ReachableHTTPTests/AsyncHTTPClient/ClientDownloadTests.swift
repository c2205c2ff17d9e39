#if AsyncHTTPClient
import AsyncHTTPClient
import Foundation
import MisbehavingServer
import NIOCore
import NIOHTTP1
import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

@testable import ReachableHTTP

/// Downloads by async-http-client from a real server that ends connections early, as in `DownloadTests`.
@Suite(.timeLimit(.minutes(20))) struct ClientDownloadTests {
    private static let body = (0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
    private static let policy = RetryPolicy.steady.backoff(.immediate)

    private func download(
        _ exchange: Exchange, _ client: HTTPClient, _ options: HTTPClientRetryOptions = .init()
    ) async throws -> (Data, HTTPClientResponse) {
        let (file, response) = try await client.download(
            exchange.clientRequest(), retrying: Self.policy, on: exchange.bus, options: options)
        defer { try? FileManager.default.removeItem(at: file) }
        return (try Data(contentsOf: file), response)
    }

    @Test func downloadContinuesAfterReceivedBytes() async throws {
        try await Exchange.run(by: .steady) { request in
            switch request.number {
            case 1: .stopShort(200, ["ETag": "\"a\""], body: Self.body, after: 30_000)
            case 2: .respond(503, ["ETag": "\"other\""], "busy")
            default: .part(of: Self.body, tag: "\"a\"", request)
            }
        } _: { exchange, client in
            let (data, response) = try await download(exchange, client)
            #expect(Array(data) == Self.body && response.status == .partialContent)
            #expect(try await response.text.isEmpty, "the body is in the file")
            let requests = exchange.server.requests
            #expect(requests.map { $0.headers["range"] } == [nil, "bytes=30000-", "bytes=30000-"])
            #expect(requests.map { $0.headers["if-range"] } == [nil, "\"a\"", "\"a\""])
            #expect(requests.allSatisfy { $0.headers["accept-encoding"] == "identity" })
        }
    }

    @Test func partsAddUp() async throws {
        try await Exchange.run(by: .steady) { request in
            let first = request.firstByte ?? 0
            let rest = Array(Self.body[first...])
            let range = "bytes \(first)-99999/100000"
            return switch request.number {
            case 1: .stopShort(200, ["ETag": "\"a\""], body: rest, after: 30_000)
            case 2: .stopShort(206, ["ETag": "\"a\"", "Content-Range": range], body: rest, after: 20_000)
            // A complete response with less than the requested range.
            case 3: .respond(206, ["ETag": "\"a\"", "Content-Range": "bytes 50000-59999/100000"], body: Array(rest[..<10_000]))
            default: .part(of: Self.body, tag: "\"a\"", request)
            }
        } _: { exchange, client in
            let data = try await download(exchange, client).0
            #expect(Array(data) == Self.body)
            #expect(exchange.server.requests.map(\.firstByte) == [nil, 30_000, 50_000, 60_000])
        }
    }

    @Test func changedRepresentationStartsAgain() async throws {
        let other = Array(Self.body[..<10_000].reversed())
        try await Exchange.run(by: .steady) { request in
            request.number == 1
                ? .stopShort(200, ["ETag": "\"a\""], body: Self.body, after: 30_000) : .part(of: other, tag: "\"b\"", request)
        } _: { exchange, client in
            let data = try await download(exchange, client).0
            #expect(Array(data) == other, "no byte of the longer file is left")
        }
    }

    @Test(arguments: [
        Reply.respond(206, ["Content-Range": "bytes 0-9/100000"], "0123456789"), .respond(416, [:], "no"),
    ])
    func mismatchedPartStartsAgain(reply: Reply) async throws {
        try await Exchange.run(by: .steady) { request in
            switch request.number {
            case 1: .stopShort(200, ["ETag": "\"a\""], body: Self.body, after: 30_000)
            case 2: reply
            default: .part(of: Self.body, tag: "\"a\"", request)
            }
        } _: { exchange, client in
            let data = try await download(exchange, client).0
            #expect(Array(data) == Self.body)
            #expect(exchange.server.requests.map(\.firstByte) == [nil, 30_000, nil])
        }
    }

    @Test(arguments: DownloadScene.allCases) func wrongPartsAreNeverJoined(scene: DownloadScene) async throws {
        try await Exchange.run(by: .steady) {
            scene.reply(to: $0)
        } _: { exchange, client in
            let data = try await download(exchange, client).0
            #expect(Array(data) == scene.file)
        }
    }

    @Test(arguments: CutScene.allCases) func progressIsNoFailure(scene: CutScene) async throws {
        try await Exchange.run(by: .steady) {
            scene.reply(to: $0)
        } _: { exchange, client in
            let events = exchange.bus.events
            let loading = Task {
                try await client.download(
                    exchange.clientRequest(), retrying: .steady.giveUpAfter(maxAttempts: 2), on: exchange.bus, options: .job)
            }
            // The client drops what it has not handed over when the connection ends: the server need not come to an end in four.
            for await event in events {
                if event.kind == .backingOff { exchange.clock.advance(by: .seconds(1)) }
                if [.succeeded, .gaveUp].contains(event.kind) { break }
            }
            switch scene {
            case .continues:
                let (file, _) = try await loading.value
                defer { try? FileManager.default.removeItem(at: file) }
                #expect(try Array(Data(contentsOf: file)) == CutScene.file && exchange.server.requests.count >= 4)
            case .ignoresRanges:
                await #expect(throws: (any Error).self) { _ = try await loading.value }
            }
        }
    }

    @Test func packedFileIsStoredAsSent() async throws {
        try await Exchange.run(by: .steady, answering(.packed)) { exchange, client in
            let (data, response) = try await download(exchange, client)
            #expect(Array(data) == Reply.packedBytes && response.headers.first(name: "Content-Encoding") == "gzip")
        }
    }

    @Test(arguments: WholeScene.allCases) func wholeIsProven(scene: WholeScene) async throws {
        try await Exchange.run(by: .steady) {
            scene.reply(to: $0)
        } _: { exchange, client in
            let (data, response) = try await download(exchange, client)
            #expect(Array(data) == scene.file && response.status.code < 300)
        }
    }

    @Test func errorStatusIsReturnedOrThrown() async throws {
        try await Exchange.run(by: .steady) { request in
            request.number == 1
                ? .stopShort(200, ["ETag": "\"a\""], body: Self.body, after: 30_000) : .respond(410, [:], "gone")
        } _: { exchange, client in
            let (data, response) = try await download(exchange, client)
            #expect(data == Data("gone".utf8) && response.status == .gone)
            let error = try await #require(throws: HTTPClientStatusError.self) {
                _ = try await download(exchange, client, .with { $0.errorStatuses = .thrown })
            }
            #expect(error.status == 410 && error.body == ByteBuffer(string: "gone"))
        }
    }

    @Test func failedDownloadLeavesNoFile() async throws {
        let folder = try TemporaryFolder()
        try await Exchange.run(by: .steady) { _ in
            .breakOff(200, body: Self.body, after: 30_000)
        } _: { exchange, client in
            await #expect(throws: (any Error).self) {
                _ = try await download(exchange, client, .with { $0.downloadDirectory = folder.url })
            }
            #expect(exchange.server.requests.count == 4)
            #expect(folder.names.isEmpty)
        }
    }
}
#endif
