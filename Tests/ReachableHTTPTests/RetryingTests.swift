import Foundation
import FoundationNetworking
import MisbehavingServer
import ReachabilityTesting
import ReachableHTTP
import ReachableRetry
import Synchronization
import TestSupport
import Testing

/// Requests to a real server, repeated by a bus in virtual time.
@Suite(.timeLimit(.minutes(20))) struct RetryingTests {
    /// Options that name the job.
    private static let job = HTTPRetryOptions.with { $0.job.id = "job" }

    @Test func successIsReturned() async throws {
        try await Exchange.run { _ in
            .respond(200, ["X": "y"], "hello")
        } _: { exchange in
            let (data, response) = try await exchange.session.data(
                for: try exchange.request(), retrying: .steady, on: exchange.bus)
            #expect(String(decoding: data, as: UTF8.self) == "hello" && response.value(forHTTPHeaderField: "X") == "y")
            #expect(exchange.server.requests.count == 1)
        }
    }

    @Test(arguments: [403, 408, 429, 500, 503]) func serverDelayIsWaitedOut(status: Int) async throws {
        try await Exchange.run {
            $0.number == 1 ? .respond(status, ["Retry-After": "30"]) : .respond(200, [:], "ok")
        } _: { exchange in
            let loading = Task { [request = try exchange.request()] in
                try await exchange.session.data(for: request, retrying: .steady, on: exchange.bus, options: Self.job)
            }
            let parked = try await exchange.bus.parked("job")
            #expect(parked.hardDelay == .seconds(30) && parked.charged == 1)
            #expect(parked.destination == "127.0.0.1:\(exchange.server.port)")
            #expect((parked.lastError as? HTTPStatusError)?.status == status)
            exchange.bus.retryNow()
            try exchange.network.pull("eth0")
            try exchange.network.plug("eth0")
            #expect(try await exchange.bus.parked("job").hardDelay == .seconds(30), "the server's delay still applies")
            exchange.clock.advance(by: .seconds(30))
            #expect(try await loading.value.0 == Data("ok".utf8))
        }
    }

    /// A proxy may add its own.
    @Test func longestServerDelayCounts() async throws {
        let answer = "HTTP/1.1 503 -\r\nRetry-After: 5\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n"
        try await Exchange.run(answering(first: .raw(Array(answer.utf8)))) { exchange in
            let loading = Task { [request = try exchange.request()] in
                try await exchange.session.data(for: request, retrying: .steady, on: exchange.bus, options: Self.job)
            }
            #expect(try await exchange.bus.parked("job").hardDelay == .seconds(30))
            exchange.clock.advance(by: .seconds(30))
            #expect(try await loading.value.0 == Data("ok".utf8))
        }
    }

    /// An informational response is no answer.
    @Test(arguments: [102, 103]) func answerFollowsInformation(status: Int) async throws {
        let answer = "HTTP/1.1 \(status) -\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 -\r\nContent-Length: 2\r\n\r\nok"
        try await Exchange.run(answering(first: .raw(Array(answer.utf8)))) { exchange in
            let (data, response) = try await exchange.session.data(
                for: try exchange.request(), retrying: .steady, on: exchange.bus)
            #expect(data == Data("ok".utf8) && response.statusCode == 200 && exchange.server.requests.count == 1)
        }
    }

    @Test(arguments: [408, 429, 500, 502, 503, 504]) func transientStatusIsRetried(status: Int) async throws {
        try await Exchange.run {
            $0.number == 1 ? .respond(status) : .respond(204)
        } _: { exchange in
            let loading = Task { [request = try exchange.request("DELETE")] in
                try await exchange.session.data(for: request, retrying: .steady, on: exchange.bus, options: Self.job)
            }
            let parked = try await exchange.bus.parked("job")
            #expect(parked.charged == 1 && parked.softDelay == .seconds(1) && parked.hardDelay == nil)
            exchange.clock.advance(by: .seconds(1))
            #expect(try await loading.value.1.statusCode == 204)
        }
    }

    /// libcurl would send it a second time on a connection that it reuses.
    @Test(arguments: [nil, Data("pay".utf8)]) func unkeyedRequestIsSentOnceOnAnyConnection(body: Data?) async throws {
        try await Exchange.run {
            $0.number == 3 ? .reset : .respond(200)
        } _: { exchange in
            func send(_ method: String) async throws {
                let request = try exchange.request(method)
                if let body, method == "POST" {
                    _ = try await exchange.session.upload(for: request, from: body, retrying: .steady, on: exchange.bus)
                } else {
                    _ = try await exchange.session.data(for: request, retrying: .steady, on: exchange.bus)
                }
            }
            try await send("POST")
            try await send("GET")
            await #expect(throws: URLError.self) { try await send("POST") }
            #expect(exchange.server.requests.count == 3)
        }
    }

    @Test func permanentStatusIsReturnedOrThrown() async throws {
        try await Exchange.run { _ in
            .respond(404, [:], "not here")
        } _: { exchange in
            let giveUps = Counter()
            let policy = RetryPolicy.steady.onGiveUp { _ in giveUps.add() }
            let (data, response) = try await exchange.session.data(for: try exchange.request(), retrying: policy, on: exchange.bus)
            #expect(response.statusCode == 404 && String(decoding: data, as: UTF8.self) == "not here")
            #expect(giveUps.value == 0, "a value is no failure")
            let error = try await #require(throws: HTTPStatusError.self) {
                _ = try await exchange.session.data(
                    for: try exchange.request(), retrying: policy, on: exchange.bus, options: .with { $0.errorStatuses = .thrown })
            }
            #expect(error.status == 404 && error.data == Data("not here".utf8) && error.description.contains("404"))
            #expect(exchange.server.requests.count == 2 && giveUps.value == 1)
        }
    }

    @Test(arguments: [HTTPRetryOptions.ErrorStatuses.returned, .thrown])
    func lastTransientStatusIsResult(statuses: HTTPRetryOptions.ErrorStatuses) async throws {
        try await Exchange.run {
            .respond(503, [:], "busy \($0.number)")
        } _: { exchange in
            let policy = RetryPolicy.steady.backoff(.immediate)
            let options = HTTPRetryOptions.with { $0.errorStatuses = statuses }
            let result: Data
            do {
                let (data, response) = try await exchange.session.data(
                    for: try exchange.request(), retrying: policy, on: exchange.bus, options: options)
                #expect(statuses == .returned && response.statusCode == 503)
                result = data
            } catch let error as HTTPStatusError {
                #expect(statuses == .thrown && error.status == 503)
                result = error.data
            }
            #expect(String(decoding: result, as: UTF8.self) == "busy 4" && exchange.server.requests.count == 4)
        }
    }

    @Test func refusedConnectionIsServersFault() async throws {
        try await Exchange.run { _ in
            .respond(200)
        } _: { exchange in
            let events = exchange.bus.events
            exchange.server.stop()
            let request = try exchange.request()
            let error = try await #require(throws: URLError.self) {
                _ = try await exchange.session.data(
                    for: request, retrying: .steady.backoff(.immediate), on: exchange.bus)
            }
            #expect(error.code == .cannotConnectToHost)
            let failed = try #require(await events.first { $0.kind == .attemptFailed }?.failure)
            #expect(failed.fault == .server && failed.isCharged)
        }
    }

    /// The system rejects connections to a broadcast address: no packet leaves this machine.
    @Test func unconnectedRequestIsRepeatedWithAnyMethod() async throws {
        try await Exchange.run { _ in
            .respond(200)
        } _: { exchange in
            let events = exchange.bus.events
            var request = try exchange.request("POST")
            request.url = URL(string: "http://255.255.255.255/")
            let loading = Task { [request] in
                try await exchange.session.data(for: request, retrying: .steady, on: exchange.bus)
            }
            let failed = try #require(await events.first { $0.kind == .attemptFailed }?.failure)
            #expect((failed.error as? URLError)?.code == .unknown && failed.mayRetry && failed.fault == .server, "\(failed)")
            loading.cancel()
            _ = await loading.result
        }
    }

    @Test func unreadableFileEndsUpload() async throws {
        try await Exchange.run { _ in
            .respond(201)
        } _: { exchange in
            let folder = try TemporaryFolder()
            for (name, code) in [("missing", CocoaError.Code.fileReadNoSuchFile), (".", .fileReadUnknown)] {
                let error = try await #require(throws: CocoaError.self) {
                    _ = try await exchange.session.upload(
                        for: try exchange.request("PUT"), fromFile: folder.url.appendingPathComponent(name), retrying: .steady,
                        on: exchange.bus)
                }
                #expect(error.code == code)
            }
            #expect(exchange.server.requests.isEmpty)
        }
    }

    /// The port is closed, and the name is longer than allowed, so that its lookup needs no network.
    @Test(arguments: [true, false]) func refusalInOutageIsNotCharged(isRefusal: Bool) async throws {
        try await Exchange.run { _ in
            .respond(200)
        } _: { exchange in
            var request = try exchange.request()
            if isRefusal {
                exchange.server.stop()
            } else {
                let unknown = try #require(URL(string: "http://\(String(repeating: "a", count: 64)).invalid/"))
                request.url = unknown
            }
            let options = HTTPRetryOptions.with {
                $0.job.id = "job"
                // The cable is pulled just before the request is sent.
                $0.adapt = { [network = exchange.network] request, attempt in
                    if attempt.number == 1 { try network.pull("eth0") }
                    return request
                }
            }
            let events = exchange.bus.events
            let loading = Task { [request] in
                try await exchange.session.data(for: request, retrying: .steady, on: exchange.bus, options: options)
            }
            let failed = try #require(await events.first { $0.kind == .attemptFailed }?.failure)
            #expect((failed.error as? URLError)?.code == (isRefusal ? .cannotConnectToHost : .cannotFindHost))
            #expect(failed.fault == .network && !failed.isCharged)
            #expect(try await exchange.bus.parked("job").unmet == ["internet"])
            loading.cancel()
            _ = await loading.result
        }
    }

    @Test(arguments: [
        Reply.reset, .breakOff(200, body: Array(repeating: 7, count: 100_000), after: 5000),
        .stopShort(200, body: Array(repeating: 7, count: 100_000), after: 5000), .stopShort(200, body: [1], after: 0),
    ])
    func brokenConnectionIsRetried(reply: Reply) async throws {
        try await Exchange.run {
            $0.number == 1 ? reply : .respond(200, [:], "ok")
        } _: { exchange in
            let events = exchange.bus.events
            let (data, _) = try await exchange.session.data(
                for: try exchange.request(), retrying: .steady.backoff(.immediate), on: exchange.bus)
            #expect(data == Data("ok".utf8))
            let failed = try #require(await events.first { $0.kind == .attemptFailed }?.failure)
            #expect(failed.fault == .unknown && failed.isCharged, "\(failed)")
        }
    }

    @Test(arguments: [
        Reply.reset, .stopShort(200, body: Array(repeating: 7, count: 100_000), after: 5000),
    ])
    func connectionBrokenByOutageIsNotCharged(reply: Reply) async throws {
        let network = Mutex<Exchange?>(nil)
        let answer: @Sendable (Request) -> Reply = { request in
            guard request.number == 1 else { return .respond(200, [:], "ok") }
            try? network.withLock { $0 }?.network.pull("eth0")
            return reply
        }
        try await Exchange.run(answer) { exchange in
            network.withLock { $0 = exchange }
            defer { network.withLock { $0 = nil } }
            let loading = Task { [request = try exchange.request()] in
                try await exchange.session.data(for: request, retrying: .steady, on: exchange.bus, options: Self.job)
            }
            let parked = try await exchange.bus.parked("job")
            #expect(parked.unmet == ["internet"] && parked.charged == 0 && parked.networkFailures == 1)
            try exchange.network.plug("eth0")
            #expect(try await loading.value.0 == Data("ok".utf8) && exchange.clock.now.offset == .zero)
        }
    }

    @Test func offlineNothingIsSent() async throws {
        try await Exchange.run { _ in
            .respond(200, [:], "ok")
        } _: { exchange in
            try exchange.network.pull("eth0")
            let loading = Task { [request = try exchange.request("POST")] in
                try await exchange.session.data(for: request, retrying: .steady, on: exchange.bus, options: Self.job)
            }
            #expect(try await exchange.bus.parked("job").unmet == ["internet"])
            #expect(exchange.server.requests.isEmpty)
            exchange.clock.advance(by: .seconds(3600))
            try exchange.network.plug("eth0")
            #expect(try await loading.value.1.statusCode == 200)
        }
    }

    @Test func unsafeRequestIsSentOnce() async throws {
        try await Exchange.run { _ in
            .respond(503)
        } _: { exchange in
            let (_, response) = try await exchange.session.upload(
                for: try exchange.request("POST"), from: Data([1, 2]), retrying: .steady, on: exchange.bus)
            #expect(response.statusCode == 503 && exchange.server.requests.map(\.length) == [2])
        }
    }

    @Test(arguments: [HTTPIdempotency.key, .key("mine"), .assured])
    func keyIsSameInAllAttempts(idempotency: HTTPIdempotency) async throws {
        try await Exchange.run { _ in
            .respond(500)
        } _: { exchange in
            // Two failures in a row: after more the gate closes for a while.
            let policy = RetryPolicy.steady.backoff(.immediate).giveUpAfter(maxAttempts: 2)
            for _ in 1...2 {
                _ = try await exchange.session.upload(
                    for: try exchange.request("POST"), from: Data([1, 2]), retrying: policy, on: exchange.bus,
                    options: .with { $0.idempotency = idempotency })
            }
            let keys = exchange.server.requests.map { $0.headers["idempotency-key"] }
            try #require(keys.count == 4)
            #expect(keys[0] == keys[1] && keys[2] == keys[3])
            switch idempotency {
            case .assured: #expect(keys[0] == nil)
            case .key: #expect(keys[0].flatMap { UUID(uuidString: $0) } != nil && keys[0] != keys[2])
            default: #expect(keys[0] == "mine" && keys[2] == "mine")
            }
        }
    }

    @Test func eachAttemptIsAdapted() async throws {
        try await Exchange.run {
            $0.number < 3 ? .respond(500) : .respond(200)
        } _: { exchange in
            let options = HTTPRetryOptions.with {
                $0.idempotency = .key
                $0.adapt = { request, attempt in
                    var request = request
                    request.setValue("token \(attempt.number)", forHTTPHeaderField: "Authorization")
                    return request
                }
            }
            _ = try await exchange.session.data(
                for: try exchange.request(), retrying: .steady.backoff(.immediate), on: exchange.bus, options: options)
            #expect(exchange.server.requests.map { $0.headers["authorization"] } == ["token 1", "token 2", "token 3"])
            #expect(Set(exchange.server.requests.map { $0.headers["idempotency-key"] }).count == 1)
        }
    }

    @Test func adapterErrorFailsAttempt() async throws {
        struct NoToken: Error {}
        try await Exchange.run { _ in
            .respond(200)
        } _: { exchange in
            let events = exchange.bus.events
            let options = HTTPRetryOptions.with {
                $0.adapt = { request, attempt in
                    if attempt.number < 3 { throw NoToken() }
                    return request
                }
            }
            let policy = RetryPolicy.steady.backoff(.immediate)
            _ = try await exchange.session.data(
                for: try exchange.request("POST"), retrying: policy, on: exchange.bus, options: options)
            let failed = try #require(await events.first { $0.kind == .attemptFailed }?.failure)
            #expect(failed.error is NoToken && failed.fault == .unknown)
            await #expect(throws: NoToken.self) {
                _ = try await exchange.session.data(
                    for: try exchange.request(), retrying: policy.giveUpOnErrors { $0 is NoToken }, on: exchange.bus,
                    options: options)
            }
        }
    }

    /// An adapter may send requests of its own.
    @Test func adapterStatusErrorIsNotReturned() async throws {
        try await Exchange.run { _ in
            .respond(401)
        } _: { exchange in
            let request = try exchange.request()
            let options = HTTPRetryOptions.with {
                $0.adapt = { [session = exchange.session, bus = exchange.bus] request, _ in
                    let login = HTTPRetryOptions.with { $0.errorStatuses = .thrown }
                    _ = try await session.data(for: request, retrying: .steady, on: bus, options: login)
                    return request
                }
            }
            await #expect(throws: HTTPStatusError.self) {
                _ = try await exchange.session.data(
                    for: request, retrying: .steady.giveUpAfter(maxAttempts: 1), on: exchange.bus, options: options)
            }
        }
    }

    @Test func policyPrecedesClassifier() async throws {
        try await Exchange.run { _ in
            .respond(404)
        } _: { exchange in
            let policy = RetryPolicy.steady.backoff(.immediate).classify {
                ($0 as? HTTPStatusError)?.status == 404 ? .transient : nil
            }
            let options = HTTPRetryOptions.with { $0.errorStatuses = .thrown }
            _ = try? await exchange.session.data(for: try exchange.request(), retrying: policy, on: exchange.bus, options: options)
            #expect(exchange.server.requests.count == 4)
        }
    }

    @Test func otherSchemesAreNotSent() async throws {
        try await Exchange.run { _ in
            .respond(200)
        } _: { exchange in
            for text in ["file:///etc/hosts", "data:,x", "ftp://127.0.0.1/"] {
                let request = URLRequest(url: try #require(URL(string: text)))
                await #expect(throws: URLError(.unsupportedURL)) {
                    _ = try await exchange.session.data(for: request, retrying: .steady, on: exchange.bus)
                }
            }
        }
    }
}
