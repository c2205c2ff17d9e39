import Foundation
import FoundationNetworking
import MisbehavingServer
import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

@testable import ReachableHTTP

/// Downloads from a real server that ends connections early.
@Suite(.timeLimit(.minutes(20))) struct DownloadTests {
    private static let body = (0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
    private static let policy = RetryPolicy.steady.backoff(.immediate)

    private func download(_ exchange: Exchange, _ options: HTTPRetryOptions = .init()) async throws -> (Data, HTTPURLResponse) {
        let (file, response) = try await exchange.session.download(
            for: try exchange.request(), retrying: Self.policy, on: exchange.bus, options: options)
        defer { try? FileManager.default.removeItem(at: file) }
        return (try Data(contentsOf: file), response)
    }

    @Test func downloadContinuesAfterReceivedBytes() async throws {
        try await Exchange.run { request in
            switch request.number {
            case 1: .breakOff(200, ["ETag": "\"a\""], body: Self.body, after: 30_000)
            case 2: .respond(503, ["ETag": "\"other\""], "busy")
            default: .part(of: Self.body, tag: "\"a\"", request)
            }
        } _: { exchange in
            let (data, response) = try await download(exchange)
            #expect(Array(data) == Self.body && response.statusCode == 206)
            #expect(exchange.server.requests.map { $0.headers["range"] } == [nil, "bytes=30000-", "bytes=30000-"])
            #expect(exchange.server.requests.map { $0.headers["if-range"] } == [nil, "\"a\"", "\"a\""])
            #expect(exchange.server.requests.allSatisfy { $0.headers["accept-encoding"] == "identity" })
        }
    }

    @Test func partsAddUp() async throws {
        try await Exchange.run { request in
            let rest = Array(Self.body[(request.firstByte ?? 0)...])
            let range = "bytes \(request.firstByte ?? 0)-99999/100000"
            return switch request.number {
            case 1: .breakOff(200, ["ETag": "\"a\""], body: rest, after: 30_000)
            case 2: .stopShort(206, ["ETag": "\"a\"", "Content-Range": range], body: rest, after: 20_000)
            // A complete response with less than the requested range.
            case 3: .respond(206, ["ETag": "\"a\"", "Content-Range": "bytes 50000-59999/100000"], body: Array(rest[..<10_000]))
            default: .part(of: Self.body, tag: "\"a\"", request)
            }
        } _: { exchange in
            let data = try await download(exchange).0
            #expect(Array(data) == Self.body)
            #expect(exchange.server.requests.map(\.firstByte) == [nil, 30_000, 50_000, 60_000])
        }
    }

    @Test(arguments: [[:], ["ETag": "W/\"a\""], ["ETag": "\"a\"", "Accept-Ranges": "none"]])
    func withoutStrongValidatorDownloadStartsAgain(headers: [String: String]) async throws {
        try await Exchange.run { request in
            request.number == 1
                ? .breakOff(200, headers, body: Self.body, after: 30_000) : .respond(200, headers, body: Self.body.reversed())
        } _: { exchange in
            let (data, response) = try await download(exchange)
            #expect(Array(data) == Self.body.reversed() && response.statusCode == 200)
            #expect(exchange.server.requests.map { $0.headers["range"] } == [nil, nil])
        }
    }

    @Test func changedRepresentationStartsAgain() async throws {
        let other = Array(Self.body[..<10_000].reversed())
        try await Exchange.run { request in
            request.number == 1
                ? .breakOff(200, ["ETag": "\"a\""], body: Self.body, after: 30_000) : .part(of: other, tag: "\"b\"", request)
        } _: { exchange in
            let data = try await download(exchange).0
            #expect(Array(data) == other, "no byte of the longer file is left")
        }
    }

    @Test(arguments: [
        Reply.respond(206, ["Content-Range": "bytes 0-9/100000"], "0123456789"), .respond(416, [:], "no"),
    ])
    func mismatchedPartStartsAgain(reply: Reply) async throws {
        try await Exchange.run { request in
            switch request.number {
            case 1: .breakOff(200, ["ETag": "\"a\""], body: Self.body, after: 30_000)
            case 2: reply
            default: .part(of: Self.body, tag: "\"a\"", request)
            }
        } _: { exchange in
            let data = try await download(exchange).0
            #expect(Array(data) == Self.body)
            #expect(exchange.server.requests.map(\.firstByte) == [nil, 30_000, nil])
        }
    }

    @Test(arguments: DownloadScene.allCases) func wrongPartsAreNeverJoined(scene: DownloadScene) async throws {
        try await Exchange.run {
            scene.reply(to: $0)
        } _: { exchange in
            let data = try await download(exchange).0
            #expect(Array(data) == scene.file)
        }
    }

    @Test(arguments: CutScene.allCases) func progressIsNoFailure(scene: CutScene) async throws {
        try await Exchange.run {
            scene.reply(to: $0)
        } _: { exchange in
            let loading = Task { [request = try exchange.request()] in
                try await exchange.session.download(
                    for: request, retrying: .steady.giveUpAfter(maxAttempts: 2), on: exchange.bus,
                    options: .with { $0.job.id = "job" })
            }
            for _ in 0..<scene.failures {
                _ = try await exchange.bus.parked("job")
                exchange.clock.advance(by: .seconds(1))
            }
            switch scene {
            case .continues:
                let (file, _) = try await loading.value
                defer { try? FileManager.default.removeItem(at: file) }
                #expect(try Array(Data(contentsOf: file)) == CutScene.file && exchange.server.requests.count == 4)
            case .ignoresRanges:
                await #expect(throws: (any Error).self) { _ = try await loading.value }
                #expect(exchange.server.requests.count == 3)
            }
        }
    }

    @Test(arguments: WholeScene.allCases) func wholeIsProven(scene: WholeScene) async throws {
        try await Exchange.run {
            scene.reply(to: $0)
        } _: { exchange in
            let (data, response) = try await download(exchange)
            #expect(Array(data) == scene.file && response.statusCode < 300)
            let attempts = exchange.server.requests.map(\.firstByte)
            #expect(attempts.count == (scene == .limitedParts ? 3 : scene == .lostLastChunk ? 2 : 4), "\(attempts)")
        }
    }

    /// Foundation would unpack it: a digest of the file would not hold.
    @Test func packedFileIsRefused() async throws {
        try await Exchange.run(answering(.packed)) { exchange in
            let error = try await #require(throws: URLError.self) { _ = try await download(exchange) }
            #expect(error.code == .cannotDecodeRawData && error.localizedDescription.contains("Content-Encoding: gzip"))
            #expect(exchange.server.requests.count == 1)
            let (data, _) = try await download(exchange, .with { $0.acceptsEncodedDownloads = true })
            #expect(data == Data("hello\n".utf8))
        }
    }

    @Test func errorStatusIsReturnedOrThrown() async throws {
        try await Exchange.run { _ in
            .respond(404, [:], "not here")
        } _: { exchange in
            let (data, response) = try await download(exchange)
            #expect(data == Data("not here".utf8) && response.statusCode == 404)
            let error = try await #require(throws: HTTPStatusError.self) {
                _ = try await download(exchange, .with { $0.errorStatuses = .thrown })
            }
            #expect(error.status == 404 && error.data == data)
        }
    }

    @Test func errorResponseAfterPartHasItsOwnBody() async throws {
        try await Exchange.run { request in
            request.number == 1 ? .breakOff(200, ["ETag": "\"a\""], body: Self.body, after: 30_000) : .respond(410, [:], "gone")
        } _: { exchange in
            let (data, response) = try await download(exchange)
            #expect(data == Data("gone".utf8) && response.statusCode == 410)
        }
    }

    @Test func failedDownloadLeavesNoFile() async throws {
        let folder = try TemporaryFolder()
        try await Exchange.run {
            $0.number < 4 ? .breakOff(200, ["ETag": "\"a\""], body: Self.body, after: 30_000) : .reset
        } _: { exchange in
            let options = HTTPRetryOptions.with {
                $0.downloadDirectory = folder.url
                $0.resumesDownloads = false
            }
            await #expect(throws: URLError.self) { _ = try await download(exchange, options) }
            #expect(exchange.server.requests.count == 4)
            #expect(folder.names.isEmpty)
            await #expect(throws: CocoaError.self) {
                _ = try await download(
                    exchange, .with { $0.downloadDirectory = folder.url.appendingPathComponent("missing") })
            }
            #expect(exchange.server.requests.count == 4, "nothing is sent without a file")
        }
    }

    @Test func uploadOfFileStartsAgain() async throws {
        let folder = try TemporaryFolder()
        let file = URL(fileURLWithPath: try folder.write(Self.body, to: "upload"))
        try await Exchange.run {
            $0.number == 1 ? .reset : .respond(201)
        } _: { exchange in
            let (_, response) = try await exchange.session.upload(
                for: try exchange.request("PUT"), fromFile: file, retrying: Self.policy, on: exchange.bus)
            #expect(response.statusCode == 201)
            let sum = Self.body.reduce(into: UInt64(0)) { $0 += UInt64($1) }
            #expect(exchange.server.requests.map(\.sum) == [sum, sum])
        }
    }
}
