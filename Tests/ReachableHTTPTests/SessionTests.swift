import Dispatch
import Foundation
import FoundationNetworking
import MisbehavingServer
import Reachability
import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

@testable import ReachableHTTP

/// The lifetimes of sessions, connections and files.
@Suite(.timeLimit(.minutes(20))) struct SessionTests {
    @Test func requestsOfOneSessionShareConnection() async throws {
        try await Exchange.run(answering(.ok)) { exchange in
            for _ in 1...3 {
                let (file, _) = try await exchange.session.download(
                    for: try exchange.request(), retrying: .steady, on: exchange.bus)
                try FileManager.default.removeItem(at: file)
                _ = try await exchange.session.data(for: try exchange.request(), retrying: .steady, on: exchange.bus)
            }
            #expect(exchange.server.requests.count == 6 && exchange.server.acceptedCount == 1)
        }
    }

    @Test func eachValidationOpensConnection() async throws {
        let server = try MisbehavingServer { $0.number == 2 ? .respond(302, ["Location": "/login"]) : .respond(200, [:], "ok") }
        defer { server.stop() }
        let url = try #require(URL(string: "http://127.0.0.1:\(server.port)/check"))
        let validator = HTTPPathValidator(url: url, expectedBody: "ok", timeout: .seconds(3600))
        let findings = [
            try await validator.validate(.unknown), try await validator.validate(.unknown), try await validator.validate(.unknown),
        ]
        let page = "http://127.0.0.1:\(server.port)/login"
        #expect(findings == [.validated, .captivePortal(page), .validated])
        #expect(server.requests.count == 3 && server.acceptedCount == 3)
    }

    @Test func companionLivesAsLongAsItsSession() {
        var session: URLSession? = URLSession(configuration: .ephemeral)
        let other = URLSession(configuration: .ephemeral)
        var companion = session.map { TaskSession.companion(of: $0, usesTLS: false, Attempt()) }
        #expect(companion != nil && session.map { TaskSession.companion(of: $0, usesTLS: false, Attempt()) } === companion)
        #expect(TaskSession.companion(of: other, usesTLS: false, Attempt()) !== companion)
        let isAlive = { [weak companion] in companion != nil }
        (session, companion) = (nil, nil)
        // Entries of deallocated sessions go when another one is added.
        let third = URLSession(configuration: .ephemeral)
        _ = TaskSession.companion(of: third, usesTLS: false, Attempt())
        #expect(!isAlive())
        withExtendedLifetime((other, third)) {}
    }

    @Test func redirectsCarryCookies() async throws {
        try await Exchange.run { request in
            request.path == "/"
                ? .respond(302, ["Location": "/there", "Set-Cookie": "a=b; Path=/"]) : .respond(200, [:], "there")
        } _: { exchange in
            let (data, response) = try await exchange.session.data(
                for: try exchange.request(), retrying: .steady, on: exchange.bus)
            #expect(data == Data("there".utf8) && response.url?.path == "/there")
            #expect(exchange.server.requests.map { $0.headers["cookie"] } == [nil, "a=b"])
        }
    }

    /// Also those of the session's configuration.
    @Test(arguments: [true, false]) func credentialsStayWithTheirOrigin(isOther: Bool) async throws {
        let other = try MisbehavingServer(answer: answering(.ok))
        defer { other.stop() }
        let target = isOther ? "http://127.0.0.1:\(other.port)/there" : "/there"
        try await Exchange.run { request in
            request.path == "/" ? .respond(302, ["Location": target]) : .ok
        } _: { exchange in
            let configuration = URLSessionConfiguration.ephemeral
            configuration.httpAdditionalHeaders = ["Authorization": "Bearer session", "X-Own": "kept"]
            let session = URLSession(configuration: configuration)
            defer { session.finishTasksAndInvalidate() }
            var request = try exchange.request()
            request.setValue("a=b", forHTTPHeaderField: "Cookie")
            request.setValue("Basic eA==", forHTTPHeaderField: "Proxy-Authorization")
            _ = try await session.data(for: request, retrying: .steady, on: exchange.bus)
            let first = try #require(exchange.server.requests.first)
            let second = try #require(isOther ? other.requests.first : exchange.server.requests.last)
            #expect(first.headers["authorization"] == "Bearer session" && first.headers["cookie"] == "a=b")
            #expect(second.path == "/there" && second.headers["x-own"] == "kept")
            for name in ["authorization", "cookie", "proxy-authorization"] {
                #expect(second.headers[name] == (isOther ? nil : first.headers[name]), "\(name)")
            }
        }
    }

    /// Foundation stops the program if a redirect is answered after its task was cancelled.
    @Test func redirectedRequestCanBeCancelled() async throws {
        try await Exchange.run { _ in
            .respond(302, ["Location": "/"])
        } _: { exchange in
            for index in 0..<100 {
                let loading = try exchange.load()
                try await exchange.server.untilRequests(2 * index)
                loading.cancel()
                _ = await loading.result
            }
            #expect(exchange.bus.pending.isEmpty)
        }
    }

    @Test func sessionDelegateDecidesAboutRedirects() async throws {
        final class Stayer: NSObject, URLSessionTaskDelegate {
            func urlSession(
                _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
                newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
            ) { completionHandler(nil) }
        }
        try await Exchange.run { _ in
            .respond(302, ["Location": "/there"], "moved")
        } _: { exchange in
            let session = URLSession(configuration: .ephemeral, delegate: Stayer(), delegateQueue: nil)
            defer { session.finishTasksAndInvalidate() }
            let (_, response) = try await session.data(for: try exchange.request(), retrying: .steady, on: exchange.bus)
            #expect(response.statusCode == 302 && exchange.server.requests.count == 1)
        }
    }

    @Test func storedResponsesAreNotUsed() async throws {
        try await Exchange.run(answering(.ok)) { exchange in
            let configuration = URLSessionConfiguration.ephemeral
            let (request, cache) = (try exchange.request(), URLCache(memoryCapacity: 1 << 20, diskCapacity: 0, diskPath: nil))
            let url = try #require(request.url)
            let stored = try #require(HTTPURLResponse(url: url, statusCode: 200, httpVersion: "HTTP/1.1", headerFields: [:]))
            cache.storeCachedResponse(CachedURLResponse(response: stored, data: Data("old".utf8)), for: request)
            configuration.urlCache = cache
            let session = URLSession(configuration: configuration)
            defer { session.finishTasksAndInvalidate() }
            let (data, _) = try await session.data(for: request, retrying: .steady, on: exchange.bus)
            #expect(data == Data("ok".utf8) && exchange.server.requests.count == 1)
            #expect(session.configuration.urlCache === cache, "the caller's configuration is unchanged")
        }
    }

    /// Foundation stops the program if a redirect is answered after the request has timed out.
    @Test func redirectMayBeAnsweredLate() async {
        await #expect(processExitsWith: .success) {
            final class Thinker: NSObject, URLSessionTaskDelegate {
                func urlSession(
                    _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
                    newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
                ) { DispatchQueue.global().asyncAfter(deadline: .now() + 1.5) { completionHandler(request) } }
            }
            try await Exchange.run { request in
                request.path == "/" ? .respond(302, ["Location": "/there"], "moved") : .ok
            } _: { exchange in
                let session = URLSession(configuration: .ephemeral, delegate: Thinker(), delegateQueue: nil)
                defer { session.finishTasksAndInvalidate() }
                var request = try exchange.request()
                request.timeoutInterval = 1
                let (_, response) = try await session.data(for: request, retrying: .steady, on: exchange.bus)
                try #require(response.statusCode == 302 && exchange.server.requests.count == 1)
            }
        }
    }

    @Test func sessionMayBeInvalidatedWhileItsJobsArePending() async throws {
        try await Exchange.run(answering(first: .respond(503))) { exchange in
            let session = URLSession(configuration: .ephemeral)
            let loading = Task { [request = try exchange.request()] in
                try await session.data(for: request, retrying: .steady, on: exchange.bus, options: .with { $0.job.id = "job" })
            }
            _ = try await exchange.bus.parked("job")
            session.invalidateAndCancel()
            exchange.clock.advance(by: .seconds(1))
            #expect(try await loading.value.0 == Data("ok".utf8))
        }
    }

    /// Runs in its own process, where Dispatch alone opens a few descriptors of its own.
    @Test func waitingDownloadsHoldNoDescriptors() async {
        await #expect(processExitsWith: .success) {
            try await Exchange.run(answering(.ok)) { exchange in
                try exchange.network.pull("eth0")
                let before = try openFiles().count
                let loading = try (0..<1100).map { index in
                    Task { [request = try exchange.request()] in
                        try await exchange.session.download(
                            for: request, retrying: .steady, on: exchange.bus, options: .with { $0.job.id = JobID("job \(index)") })
                    }
                }
                for index in 0..<1100 { _ = try await exchange.bus.parked(JobID("job \(index)")) }
                let during = try openFiles().count
                for task in loading { task.cancel() }
                for task in loading { _ = await task.result }
                print("descriptors: \(before) before, \(during) with 1100 downloads that wait")
                try #require(during < before + 100)
            }
        }
    }

    /// Breaks off a download, and resumes it from its partial file.
    ///
    /// - Parameters:
    ///   - whileParked: Checks the folder of the download before the second attempt.
    ///   - afterwards: Checks the result, whose bytes are the server's.
    private func resumeDownload(
        whileParked: @Sendable (TemporaryFolder) throws -> Void,
        afterwards: @Sendable (Exchange, TemporaryFolder, HTTPURLResponse) throws -> Void
    ) async throws {
        let body = Array(repeating: UInt8(7), count: 100_000)
        try await Exchange.run { request in
            request.number == 1
                ? .breakOff(200, ["ETag": "\"a\""], body: body, after: 30_000) : .part(of: body, tag: "\"a\"", request)
        } _: { exchange in
            let folder = try TemporaryFolder()
            let loading = Task { [request = try exchange.request(), folder] in
                try await exchange.session.download(
                    for: request, retrying: .steady, on: exchange.bus,
                    options: .with {
                        $0.job.id = "job"
                        $0.downloadDirectory = folder.url
                    })
            }
            _ = try await exchange.bus.parked("job")
            try whileParked(folder)
            exchange.clock.advance(by: .seconds(1))
            let (file, response) = try await loading.value
            #expect(try Array(Data(contentsOf: file)) == body)
            try afterwards(exchange, folder, response)
        }
    }

    @Test func interruptedDownloadsHoldNoDescriptors() async throws {
        try await resumeDownload { folder in
            let (files, descriptors) = (folder.names.count, try folder.openDescriptors)
            #expect(files == 1 && descriptors == 0)
        } afterwards: { _, folder, response in
            let descriptors = try folder.openDescriptors
            #expect(response.statusCode == 206 && descriptors == 0)
        }
    }

    @Test(arguments: [true, false]) func tidiedFileStartsAgain(isRemoved: Bool) async throws {
        try await resumeDownload { folder in
            let part = folder.url.appendingPathComponent(try #require(folder.names.first))
            if isRemoved {
                try FileManager.default.removeItem(at: part)
            } else {
                try Data([1, 2, 3]).write(to: part)
            }
        } afterwards: { exchange, _, _ in
            #expect(exchange.server.requests.map(\.firstByte) == [nil, nil])
        }
    }
}

extension TemporaryFolder {
    /// The number of its files that this process has open.
    fileprivate var openDescriptors: Int { get throws { try openFiles().values.count { $0.hasPrefix(path) } } }
}
