import Foundation
import FoundationNetworking
import MisbehavingServer
import ReachabilityTesting
import ReachableHTTP
import ReachableRetry
import TestSupport
import Testing

/// Bodies of requests when the connection or the place of the resource changes.
@Suite(.timeLimit(.minutes(20))) struct UploadTests {
    /// Where a request's body comes from.
    enum Source: CaseIterable, Sendable { case data, file, request }

    private static let body = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
    private static let sum = body.reduce(into: UInt64(0)) { $0 += UInt64($1) }

    private func send(_ method: String, _ source: Source, _ exchange: Exchange) async throws -> (Data, HTTPURLResponse) {
        var request = try exchange.request(method)
        switch source {
        case .data: return try await exchange.session.attempt(request, from: Data(Self.body))
        case .request:
            request.httpBody = Data(Self.body)
            return try await exchange.session.attempt(request)
        case .file:
            let folder = try TemporaryFolder()
            let file = folder.url.appendingPathComponent("photo")
            try Data(Self.body).write(to: file)
            return try await exchange.session.attempt(request, fromFile: file)
        }
    }

    /// libcurl sends a request again if a connection that it reuses ends without an answer.
    @Test(arguments: Source.allCases) func bodyIsWholeOnAnotherConnection(source: Source) async throws {
        try await Exchange.run {
            $0.number == 2 ? .reset : .respond(201)
        } _: { exchange in
            for _ in 1...2 {
                let status = try await send("PUT", source, exchange).1.statusCode
                #expect(status == 201)
            }
            #expect(exchange.server.requests.map(\.sum) == [Self.sum, Self.sum, Self.sum])
        }
    }

    @Test(arguments: Source.allCases) func lengthIsAnnounced(source: Source) async throws {
        try await Exchange.run { _ in
            .respond(201)
        } _: { exchange in
            _ = try await send("POST", source, exchange)
            let request = try #require(exchange.server.requests.first)
            #expect(request.headers["content-length"] == "300000" && request.sum == Self.sum)
            #expect(request.headers["transfer-encoding"] == nil && request.headers["expect"] == nil)
            // Foundation takes the data of a request for a form's.
            let type = source == .request ? "application/x-www-form-urlencoded" : nil
            #expect(request.headers["content-type"] == type)
        }
    }

    @Test func typeOfTheSessionIsKept() async throws {
        try await Exchange.run { _ in
            .respond(201)
        } _: { exchange in
            let configuration = URLSessionConfiguration.ephemeral
            configuration.httpAdditionalHeaders = ["content-type": "image/jpeg"]
            let session = URLSession(configuration: configuration)
            defer { session.finishTasksAndInvalidate() }
            for type in ["image/jpeg", "text/plain"] {
                var request = try exchange.request("POST")
                if type != "image/jpeg" { request.setValue(type, forHTTPHeaderField: "Content-Type") }
                _ = try await session.attempt(request, from: Data(Self.body))
                #expect(exchange.server.requests.last?.headers["content-type"] == type)
            }
        }
    }

    /// Foundation would follow it without the body, and the server would store an empty photo.
    @Test(arguments: Source.allCases, [301, 307, 308]) func redirectOfABodyIsTheResponse(source: Source, status: Int) async throws {
        try await Exchange.run {
            $0.number == 1 ? .respond(status, ["Location": "/elsewhere"]) : .respond(200)
        } _: { exchange in
            let error = await #expect(throws: HTTPStatusError.self) { _ = try await send("PUT", source, exchange) }
            #expect(error?.status == status && exchange.server.requests.count == 1)
        }
    }

    @Test(arguments: Source.allCases, [302, 303]) func redirectToAPageIsFollowed(source: Source, status: Int) async throws {
        try await Exchange.run {
            $0.number == 1 ? .respond(status, ["Location": "/page"]) : .respond(200, [:], "thanks")
        } _: { exchange in
            let page = try await send("POST", source, exchange).0
            #expect(page == Data("thanks".utf8))
            let second = try #require(exchange.server.requests.last)
            #expect(second.method == "GET" && second.path == "/page" && second.length == 0)
            #expect(["content-length", "transfer-encoding", "content-type"].allSatisfy { second.headers[$0] == nil })
        }
    }

    /// The connection may end while the file is being read; Foundation's own upload would stop the program.
    @Test func cancelledUploadsEnd() async throws {
        let received = Rendezvous(0)
        let server = try MisbehavingServer(progress: { _, count in received.change { $0 = count } }, answer: { _ in .respond(201) })
        defer { server.stop() }
        let session = URLSession(configuration: .ephemeral)
        defer { session.finishTasksAndInvalidate() }
        let folder = try TemporaryFolder()
        let file = folder.url.appendingPathComponent("photo")
        try Data(repeating: 7, count: 1_000_000).write(to: file)
        var request = URLRequest(url: try #require(URL(string: "http://127.0.0.1:\(server.port)/")))
        request.httpMethod = "PUT"
        var random = SeededGenerator(seed: 5)
        for _ in 1...50 {
            let (goal, request) = (Int.random(in: 1...500_000, using: &random), request)
            received.change { $0 = 0 }
            let upload = Task {
                // An upload that ends early must not be waited for.
                defer { received.change { $0 = .max } }
                return try await session.attempt(request, fromFile: file)
            }
            try await received.wait { $0 >= goal }
            upload.cancel()
            _ = try? await upload.value
        }
        let status = try await session.attempt(request, fromFile: file).1.statusCode
        #expect(status == 201)
    }
}
