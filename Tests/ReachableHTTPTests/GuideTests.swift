import Foundation
import FoundationNetworking
import MisbehavingServer
import ReachabilityTesting
import ReachableHTTP
import ReachableRetry
import TestSupport
import Testing

/// The examples of the library's pages.
@Suite(.timeLimit(.minutes(20))) struct GuideTests {
    private func untilBackingOff(_ events: inout AsyncStream<RetryEvent>.AsyncIterator) async throws {
        while try #require(await events.next(isolation: #isolation)).kind != .backingOff {}
    }

    @Test(arguments: [
        ("ReachableHTTP", "StorePhoto"), ("RepeatingRequests", "PhotoService"), ("HTTPClientRequests", "Backup"),
        ("DurableRequests", "OrderService"),
    ])
    func pageShowsCompiledFile(page: String, example: String) throws {
        var compiled = try Documents.text("Tests/ReachableHTTPTests/Guide/\(example).swift")
        let trait = (begin: "#if AsyncHTTPClient\n", end: "#endif\n")
        if compiled.hasPrefix(trait.begin), compiled.hasSuffix(trait.end) {
            compiled = String(compiled.dropFirst(trait.begin.count).dropLast(trait.end.count))
        }
        #expect(try Documents.swiftBlocks("Sources/ReachableHTTP/ReachableHTTP.docc/\(page).md") == [compiled])
    }

    @Test func photoIsStoredAfterOneCall() async throws {
        try await Exchange.run { _ in
            .respond(201)
        } _: { exchange in
            let status = try await store(Data([1, 2]), at: try #require(try exchange.request().url), on: exchange.bus)
            #expect(status == 201 && exchange.server.requests.map(\.length) == [2])
        }
    }

    @Test func photoHasOneKeyInAllAttempts() async throws {
        try await Exchange.run {
            $0.number == 1 ? .reset : .respond(201)
        } _: { exchange in
            let count = Counter()
            let service = PhotoService(
                server: try #require(try exchange.request().url),
                token: { "\(count.add())" }, bus: exchange.bus, session: exchange.session)
            var events = exchange.bus.events.makeAsyncIterator()
            let sending = Task { try await service.send(Data([1, 2, 3])) }
            try await untilBackingOff(&events)
            exchange.bus.retryNow()
            try await sending.value
            let requests = exchange.server.requests
            #expect(requests.map { $0.headers["authorization"] } == ["Bearer 1", "Bearer 2"])
            #expect(requests.map(\.length) == [3, 3] && Set(requests.map { $0.headers["idempotency-key"] }).count == 1)
        }
    }

    @Test func lockedPhotoIsRetried() async throws {
        try await Exchange.run { request in
            switch request.number {
            case 1: .respond(423)
            case 2: .respond(200, [:], "sea")
            default: .respond(404)
            }
        } _: { exchange in
            let service = PhotoService(
                server: try #require(try exchange.request().url), token: { "" }, bus: exchange.bus, session: exchange.session)
            var events = exchange.bus.events.makeAsyncIterator()
            let fetching = Task { try await service.fetch("sea.jpg") }
            try await untilBackingOff(&events)
            exchange.bus.retryNow()
            let file = try await fetching.value
            defer { try? FileManager.default.removeItem(at: file) }
            #expect(
                try String(contentsOf: file, encoding: .utf8) == "sea" && exchange.server.requests.last?.path == "/photos/sea.jpg")
            await #expect(throws: HTTPStatusError.self) { _ = try await service.fetch("gone.jpg") }
        }
    }
}
