import Foundation
import FoundationNetworking
import MisbehavingServer
import ReachabilityTesting
import ReachableHTTP
import ReachableRetry
import TestSupport
import Testing

/// Requests as values of `Job`, and the options for their place on a bus.
@Suite(.timeLimit(.minutes(20))) struct JobTests {
    private static let policy = RetryPolicy.steady.backoff(.immediate)

    @Test func jobHasAValue() async throws {
        try await Exchange.run(answering(first: .respond(503))) { exchange in
            let job = exchange.session.job(for: try exchange.request(), retrying: Self.policy, on: exchange.bus)
            #expect(exchange.server.requests.isEmpty, "a cold job sends nothing")
            let (data, response) = try await job.value
            #expect(data == Data("ok".utf8) && response.statusCode == 200)
        }
    }

    @Test func eachLifeHasItsOwnKey() async throws {
        try await Exchange.run { request in
            request.number.isMultiple(of: 2) ? .respond(201) : .respond(503)
        } _: { exchange in
            let options = HTTPRetryOptions.with { $0.idempotency = .key }
            let job = exchange.session.uploadJob(
                for: try exchange.request("POST"), from: Data([1, 2]), retrying: Self.policy, on: exchange.bus, options: options)
            try await exchange.expectKeyPerLife(of: job)
        }
    }

    /// Both lives run at the same time; each failure is classified by its own request.
    @Test func concurrentLivesDoNotMix() async throws {
        try await Exchange.run { request in
            if request.headers["x-life"] == "0" { return .respond(404) }
            return request.number < 4 ? .respond(503) : .respond(200, [:], "ok")
        } _: { exchange in
            let lives = Counter()
            let options = HTTPRetryOptions.with {
                $0.adapt = { request, attempt in
                    var request = request
                    if attempt.number == 1 {
                        request.setValue("\(lives.add() - 1)", forHTTPHeaderField: "X-Life")
                    }
                    return request
                }
            }
            let job = exchange.session.job(for: try exchange.request(), retrying: Self.policy, on: exchange.bus, options: options)
            async let first = job.value
            async let second = job.value
            let statuses = [try await first.1.statusCode, try await second.1.statusCode]
            #expect(Set(statuses) == [404, 200])
        }
    }

    @Test func submittedUploadReportsEvents() async throws {
        try await Exchange.run {
            $0.number == 1 ? .respond(503) : .respond(201)
        } _: { exchange in
            let folder = try TemporaryFolder()
            let photo = folder.url.appendingPathComponent("photo")
            try Data([1, 2, 3]).write(to: photo)
            let job = exchange.session.uploadJob(
                for: try exchange.request("PUT"), fromFile: photo, retrying: Self.policy, on: exchange.bus)
            try await exchange.expectEventsOfUpload(job) { $0.1.statusCode }
            #expect(exchange.server.requests.map(\.length) == [3, 3])
        }
    }

    @Test func downloadJobHasAFilePerLife() async throws {
        try await Exchange.run(Exchange.threeBodies) { exchange in
            let folder = try TemporaryFolder()
            var options = HTTPRetryOptions.with { $0.downloadDirectory = folder.url }
            let job = exchange.session.downloadJob(
                for: try exchange.request(), retrying: Self.policy, on: exchange.bus, options: options)
            options.errorStatuses = .thrown
            let failing = exchange.session.downloadJob(
                for: try exchange.request(), retrying: Self.policy, on: exchange.bus, options: options)
            try await exchange.expectFilePerLife(in: folder, of: job, failing, status: \.statusCode)
        }
    }

    @Test func jobForAnotherSchemeFails() async throws {
        try await Exchange.run { _ in
            .respond(200)
        } _: { exchange in
            let request = URLRequest(url: try #require(URL(string: "file:///etc/hosts")))
            let job = exchange.session.job(for: request, retrying: Self.policy, on: exchange.bus)
            await #expect(throws: URLError(.unsupportedURL)) { _ = try await job.value }
        }
    }

    // MARK: - Options

    @Test func callersOfOneNameShareRequest() async throws {
        try await Exchange.run(answering(first: .respond(503))) { exchange in
            let options = HTTPRetryOptions.with { $0.joining = "feed" }
            let request = try exchange.request()
            let callers = try await exchange.share(3) {
                try await exchange.session.data(for: request, retrying: .steady, on: exchange.bus, options: options).0
            }
            exchange.clock.advance(by: .seconds(1))
            for caller in callers { #expect(try await caller.value == Data("ok".utf8)) }
            #expect(exchange.server.requests.count == 2)
        }
    }

    @Test func callersOfOneNameShareErrorResponse() async throws {
        try await Exchange.run { _ in
            .respond(503, [:], "busy")
        } _: { exchange in
            let options = HTTPRetryOptions.with { $0.joining = "feed" }
            let policy = RetryPolicy.steady.giveUpAfter(maxAttempts: 2)
            let request = try exchange.request()
            let callers = try await exchange.share(2) {
                try await exchange.session.data(for: request, retrying: policy, on: exchange.bus, options: options)
            }
            exchange.clock.advance(by: .seconds(1))
            for caller in callers { #expect(try await caller.value.1.statusCode == 503) }
        }
    }

    @Test func sharedDownloadOutlivesItsFirstCaller() async throws {
        try await Exchange.run(answering(first: .respond(503))) { exchange in
            let options = HTTPRetryOptions.with { $0.joining = "feed" }
            let request = try exchange.request()
            let callers = try await exchange.share(2) {
                try await exchange.session.download(for: request, retrying: .steady, on: exchange.bus, options: options).0
            }
            callers[0].cancel()
            _ = await callers[0].result
            exchange.clock.advance(by: .seconds(1))
            let file = try await callers[1].value
            #expect(try Data(contentsOf: file) == Data("ok".utf8))
            try FileManager.default.removeItem(at: file)
        }
    }

    @Test(arguments: [HTTPDestination.hostAndPort, .none, .named("photos")])
    func destinationCanBeNamed(destination: HTTPDestination) async throws {
        try await Exchange.run {
            $0.number == 1 ? .respond(503) : .respond(200)
        } _: { exchange in
            let loading = Task { [request = try exchange.request()] in
                try await exchange.session.data(
                    for: request, retrying: .steady, on: exchange.bus,
                    options: .with {
                        $0.job.id = "job"
                        $0.destination = destination
                    })
            }
            let name = try await exchange.bus.parked("job").destination
            switch destination {
            case .hostAndPort: #expect(name == "127.0.0.1:\(exchange.server.port)")
            case .none: #expect(name == nil)
            default: #expect(name == "photos")
            }
            exchange.clock.advance(by: .seconds(1))
            _ = try await loading.value
        }
    }

    @Test func encodedAndUnresumedDownloadsAreOptions() async throws {
        let body = Array(repeating: UInt8(7), count: 1000)
        try await Exchange.run { request in
            request.number.isMultiple(of: 2)
                ? .respond(200, ["ETag": "\"a\""], body: body) : .breakOff(200, ["ETag": "\"a\""], body: body, after: 500)
        } _: { exchange in
            for isResumed in [true, false] {
                let options = HTTPRetryOptions.with {
                    ($0.acceptsEncodedDownloads, $0.resumesDownloads) = (isResumed, isResumed)
                }
                let (file, _) = try await exchange.session.download(
                    for: try exchange.request(), retrying: Self.policy, on: exchange.bus, options: options)
                #expect(try Array(Data(contentsOf: file)) == body)
                try FileManager.default.removeItem(at: file)
            }
            let requests = exchange.server.requests
            #expect(requests.allSatisfy { $0.headers["accept-encoding"] != "identity" })
            #expect(requests.map { $0.headers["range"] } == [nil, "bytes=500-", nil, nil])
        }
    }
}
