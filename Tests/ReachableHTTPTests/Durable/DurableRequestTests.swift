import Foundation
import FoundationNetworking
import MisbehavingServer
import Reachability
import ReachabilityTesting
import ReachableHTTP
import ReachableJobs
import ReachableRetry
import Synchronization
import Testing

/// Durable requests, from a store in memory to a real server.
@Suite(.timeLimit(.minutes(20))) struct DurableRequestTests {
    /// Returns a POST.
    private static func post(
        _ trial: DurableTrial, _ text: String = "order", _ idempotency: DurableIdempotency = .automatic
    ) throws -> DurableRequest {
        try DurableRequest(try trial.url(), method: "POST", body: Data(text.utf8), idempotency: idempotency)
    }

    private static func keys(_ trial: DurableTrial) -> [String?] { trial.server.requests.map { $0.headers["idempotency-key"] } }

    @Test func handlerGetsTheResponse() async throws {
        try await DurableTrial.run { request in
            .respond(201, ["X-Order": "7"], body: request.body.reversed())
        } _: { trial in
            let seen = Mutex<(DurableRequest, DurableResponse, String)?>(nil)
            let life = trial.launch { queue in
                queue.registerRequests(policy: DurableTrial.policy, options: trial.options) { request, response, attempt in
                    seen.withLock { $0 = (request, response, attempt.idempotencyKey) }
                }
            }
            let request = try DurableRequest(
                try trial.url("/orders"), method: "POST", headers: ["Content-Type": "text/plain"], body: Data("abc".utf8))
            let job = try await life.end(of: try await life.queue.push(request).id)
            #expect(job.state == .succeeded && job.kind == "http-request" && job.version == 1)
            let (parameters, response, key) = try #require(seen.withLock { $0 })
            #expect(parameters == request && key == job.idempotencyKey)
            #expect(response.status == 201 && response.header("x-order") == "7" && response.body == Data("cba".utf8))
            #expect(!response.isTruncated)
            let sent = try #require(trial.server.requests.first)
            #expect(sent.method == "POST" && sent.path == "/orders" && sent.headers["content-type"] == "text/plain")
            #expect(sent.headers["idempotency-key"] == key)
            await life.stop()
        }
    }

    @Test func keyIsTheSameAfterFailuresCrashesAndReboots() async throws {
        try await DurableTrial.run { request in
            switch request.number {
            case 1: .respond(503)
            case 2: .reset
            case 3, 4: .stall
            default: .respond(200)
            }
        } _: { trial in
            let first = trial.launch()
            let id = try await first.queue.push(try Self.post(trial)).id
            try await trial.server.untilRequests(3)
            await first.kill()
            let second = trial.launch()
            try await trial.server.untilRequests(4)
            await trial.world.reboot()
            await second.ended()
            let third = trial.launch()
            let job = try await third.end(of: id)
            #expect(job.state == .succeeded && job.counters.crashes == 1)
            #expect(Self.keys(trial) == Array(repeating: job.idempotencyKey, count: 5))
            #expect(trial.server.requests.last?.length == 5)
            await third.stop()
        }
    }

    @Test func keyIsConfigurable() async throws {
        try await DurableTrial.run { _ in
            .respond(200)
        } _: { trial in
            let url = try trial.url()
            let life = trial.launch()
            let requests = [
                try DurableRequest(url, method: "PUT"), try DurableRequest(url, method: "POST"),
                try DurableRequest(url, method: "POST", idempotency: .none),
                try DurableRequest(url, method: "PUT", idempotency: .job),
                try DurableRequest(url, method: "PUT", idempotency: .key("mine")),
                try DurableRequest(url, method: "POST", headers: ["idempotency-key": "own"]),
            ]
            var keys: [String] = []
            for request in requests { keys.append(try await life.end(of: life.queue.push(request).id).idempotencyKey) }
            #expect(Self.keys(trial) == [nil, keys[1], nil, keys[3], "mine", "own"])
            await life.stop()
        }
    }

    @Test func repeatableRequestsHaveAKeyOrAMethod() throws {
        let url = try #require(URL(string: "https://Example.org/a"))
        func options(_ method: String, _ idempotency: DurableIdempotency, _ headers: [String: String] = [:]) throws -> Bool {
            try DurableRequest(url, method: method, headers: headers, idempotency: idempotency).options.isRepeatable
        }
        for (method, idempotency) in [("PUT", .none), ("POST", .automatic), ("POST", .job), ("POST", .key("k"))]
            as [(String, DurableIdempotency)]
        {
            #expect(try options(method, idempotency))
        }
        for method in ["POST", "PATCH", "put"] { #expect(try !options(method, .none)) }
        #expect(try options("POST", .none, ["Idempotency-Key": "k"]))
    }

    @Test func placeIsThatOfTheServer() throws {
        func options(_ text: String) throws -> DurableOptions { try DurableRequest(try #require(URL(string: text))).options }
        let secure = try options("https://Example.org/a")
        #expect(secure.destination == "example.org:443" && secure.scope.description == "example.org port 443")
        let plain = try options("http://192.0.2.7:8080/")
        #expect(plain.destination == "192.0.2.7:8080" && plain.scope.description == "192.0.2.7 port 8080")
        #expect(try options("http://[2001:db8::1]/").scope.description == "2001:db8::1 port 80")
    }

    // MARK: - Limits

    /// The bytes that base64 encodes with characters that JSON escapes.
    @Test func largestRequestFitsTheStoreAndArrives() async throws {
        try await DurableTrial.run { _ in
            .respond(200)
        } _: { trial in
            let body = Data(repeating: 0xff, count: DurableRequest.largestBody)
            let request = try Self.largest(try trial.url(), body)
            #expect(try JSONEncoder().encode(request).count <= largestPayload)
            let life = trial.launch()
            let job = try await life.end(of: try await life.queue.push(request).id)
            #expect(job.state == .succeeded, "\(job.lastError ?? "")")
            #expect(trial.server.requests.map(\.length) == [body.count])
            #expect(trial.server.requests.map(\.sum) == [UInt64(body.count) * 255])
            await life.stop()
        }
    }

    /// Returns the request with the longest head that is accepted.
    private static func largest(_ url: URL, _ body: Data?) throws -> DurableRequest {
        func request(_ count: Int) throws -> DurableRequest {
            try DurableRequest(url, method: "PUT", headers: ["X": String(repeating: "x", count: count)], body: body)
        }
        let empty = try JSONEncoder().encode(try DurableRequest(url, method: "PUT", headers: ["X": ""], body: Data())).count
        let room = DurableRequest.largestHead - empty
        let error = #expect(throws: DurableHTTPError.self) { _ = try request(room + 1) }
        #expect(error?.code == .headTooLarge)
        return try request(room)
    }

    @Test func largerBodyIsRefused() throws {
        let url = try #require(URL(string: "http://example.org"))
        let error = #expect(throws: DurableHTTPError.self) {
            _ = try DurableRequest(url, method: "PUT", body: Data(count: DurableRequest.largestBody + 1))
        }
        #expect(error?.code == .bodyTooLarge)
        #expect(
            error?.description
                == "the body has 737281 bytes, more than 737280; next: write it to a file, and push a DurableUpload")
    }

    @Test(arguments: [
        ("ftp://example.org", "GET", [:], "unsupportedURL"), ("http:///a", "GET", [:], "unsupportedURL"),
        ("http://example.org", "", [:], "invalidMethod"), ("http://example.org", "GET /", [:], "invalidMethod"),
        ("http://example.org", "GET", ["A": "b\r\nC: d"], "invalidHeader"),
        ("http://example.org", "GET", ["A B": "c"], "invalidHeader"), ("http://example.org", "GET", ["": "c"], "invalidHeader"),
        ("http://example.org", "GET", ["A": "b", "a": "c"], "invalidHeader"),
    ])
    func partsThatCannotBeSentAreRefused(url: String, method: String, headers: [String: String], code: String) throws {
        let url = try #require(URL(string: url))
        let error = #expect(throws: DurableHTTPError.self) { _ = try DurableRequest(url, method: method, headers: headers) }
        #expect(error?.code.rawValue == code)
        #expect(throws: DurableHTTPError.self) { _ = try DurableRequest(url, idempotency: .key("a\nb")) }
    }

    @Test func storedFormStaysTheSame() throws {
        let url = try #require(URL(string: "https://example.org/a?b=c"))
        let request = try DurableRequest(
            url, method: "POST", headers: ["A": "b"], body: Data([0xff, 0xfe, 0xfb, 0x00]), idempotency: .key("k"))
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let text = String(decoding: try encoder.encode(request), as: UTF8.self)
        #expect(
            text == """
                {"body":"__77AA==","headers":{"A":"b"},"idempotency":{"key":"k"},"method":"POST","url":"https://example.org/a?b=c"}
                """)
        #expect(try JSONDecoder().decode(DurableRequest.self, from: Data(text.utf8)) == request)
        for idempotency in [DurableIdempotency.automatic, .none, .job] {
            let request = try DurableRequest(url, method: "PUT", idempotency: idempotency)
            #expect(try JSONDecoder().decode(DurableRequest.self, from: encoder.encode(request)) == request)
        }
    }

    // MARK: - Requests that must not be sent twice

    enum Cut: CaseIterable { case crash, reboot, stop }

    @Test(arguments: Cut.allCases) func cutOfAnUnkeyedRequestHasAnUnknownOutcome(cut: Cut) async throws {
        try await DurableTrial.run {
            $0.number == 1 ? .stall : .respond(200)
        } _: { trial in
            let first = trial.launch()
            let id = try await first.queue.push(try Self.post(trial, "pay", .none)).id
            try await trial.server.untilRequests(1)
            switch cut {
            case .crash: await first.kill()
            case .reboot: await trial.world.reboot()
            case .stop: await first.stop()
            }
            await first.ended()
            let second = trial.launch()
            // A worker that ends in good order writes the end itself.
            let job = try await (cut == .stop ? first : second).end(of: id)
            #expect(job.state == .failed && job.failureReason == "outcomeUnknown")
            #expect(trial.server.requests.count == 1)
            await second.stop()
        }
    }

    @Test func unkeyedRequestThatWasNotCarriedOutIsRepeated() async throws {
        try await DurableTrial.run {
            $0.number == 1 ? .respond(421) : .respond(200)
        } _: { trial in
            let job = try await trial.end(of: try Self.post(trial, "pay", .none))
            #expect(job.state == .succeeded && trial.server.requests.count == 2)
            #expect(Self.keys(trial) == [nil, nil])
        }
    }

    @Test func unkeyedRequestThatMayHaveBeenReceivedFails() async throws {
        try await DurableTrial.run { _ in
            .reset
        } _: { trial in
            let job = try await trial.end(of: try Self.post(trial, "pay", .none))
            #expect(job.state == .failed && trial.server.requests.count == 1)
        }
    }

    /// libcurl would send it a second time on a connection that it reuses.
    @Test(arguments: [nil, Data("pay".utf8)]) func unkeyedRequestNeverReusesAConnection(body: Data?) async throws {
        try await DurableTrial.run {
            $0.number == 3 ? .reset : .respond(200)
        } _: { trial in
            let life = trial.launch()
            let request = try DurableRequest(try trial.url(), method: "POST", body: body, idempotency: .none)
            for request in [request, try DurableRequest(try trial.url())] {
                #expect(try await life.end(of: life.queue.push(request).id).state == .succeeded)
            }
            #expect(try await life.end(of: life.queue.push(request).id).state == .failed)
            #expect(trial.server.requests.count == 3)
            await life.stop()
        }
    }

    private struct Broken: Error {}

    @Test(arguments: [(DurableIdempotency.none, 1), (.automatic, 2)])
    func handlerErrorRepeatsOnlyRepeatableRequests(idempotency: DurableIdempotency, count: Int) async throws {
        try await DurableTrial.run { _ in
            .respond(200)
        } _: { trial in
            let life = trial.launch { queue in
                queue.registerRequests(policy: DurableTrial.policy, options: trial.options) { _, _, attempt in
                    if attempt.number == 1 { throw Broken() }
                }
            }
            let job = try await life.end(of: try await life.queue.push(try Self.post(trial, "pay", idempotency)).id)
            #expect(job.state == (count == 1 ? .failed : .succeeded) && trial.server.requests.count == count)
            await life.stop()
        }
    }

    // MARK: - Statuses

    @Test(arguments: [400, 401, 404, 304]) func finalStatusFailsTheJob(status: Int) async throws {
        try await DurableTrial.run { _ in
            .respond(status, ["WWW-Authenticate": "Basic realm=\"a\""], "no")
        } _: { trial in
            let job = try await trial.end(of: try DurableRequest(try trial.url()))
            #expect(job.state == .failed && trial.server.requests.count == 1)
            #expect(job.lastError?.contains("status \(status)") == true)
        }
    }

    @Test func statusCanBeAccepted() async throws {
        try await DurableTrial.run { _ in
            .respond(404, [:], "no")
        } _: { trial in
            let request = try DurableRequest(try trial.url(), method: "DELETE")
            #expect(try await trial.end(of: request) { $0.acceptedStatuses = [404] }.state == .succeeded)
        }
    }

    @Test func serverOrdersADelay() async throws {
        try await DurableTrial.run {
            $0.number == 1 ? .respond(503, ["Retry-After": "60"]) : .respond(200)
        } _: { trial in
            let life = trial.launch()
            let id = try await life.queue.push(try Self.post(trial)).id
            try await life.failure()
            await trial.world.clock.advance(by: .seconds(59))
            #expect(trial.server.requests.count == 1)
            await trial.world.clock.advance(by: .seconds(1))
            #expect(try await life.end(of: id).state == .succeeded)
            await life.stop()
        }
    }

    @Test func eachAttemptGetsAFreshToken() async throws {
        try await DurableTrial.run {
            $0.number == 1 ? .respond(503) : .respond(200)
        } _: { trial in
            let job = try await trial.end(of: try Self.post(trial)) {
                $0.adapt = { request, attempt in
                    var request = request
                    request.setValue("Bearer \(attempt.number)", forHTTPHeaderField: "Authorization")
                    return request
                }
            }
            #expect(job.state == .succeeded)
            #expect(trial.server.requests.map { $0.headers["authorization"] } == ["Bearer 1", "Bearer 2"])
            #expect(Set(Self.keys(trial)) == [job.idempotencyKey])
        }
    }

    @Test(arguments: [1000, 999]) func bodyOfTheResponseIsBounded(limit: Int) async throws {
        try await DurableTrial.run { _ in
            .respond(200, [:], body: Array(repeating: 7, count: 1000))
        } _: { trial in
            let seen = Mutex<DurableResponse?>(nil)
            var options = trial.options
            options.largestResponse = limit
            let life = trial.launch { queue in
                queue.registerRequests(options: options) { _, response, _ in seen.withLock { $0 = response } }
            }
            _ = try await life.end(of: try await life.queue.push(try DurableRequest(try trial.url())).id)
            let response = try #require(seen.withLock { $0 })
            #expect(response.body.count == limit && response.isTruncated == (limit < 1000))
            await life.stop()
        }
    }

    @Test func offlineRequestWaits() async throws {
        try await DurableTrial.run { _ in
            .respond(200)
        } _: { trial in
            try trial.world.network.pull("eth0")
            let life = trial.launch()
            var request = try Self.post(trial)
            request.options.scope = .internet
            let id = try await life.queue.push(request).id
            await trial.world.clock.advance(by: .seconds(3600))
            #expect(trial.server.requests.isEmpty)
            try trial.world.network.plug("eth0")
            #expect(try await life.end(of: id).counters.charged == 0)
            #expect(trial.server.requests.count == 1)
            await life.stop()
        }
    }

    // MARK: - Secrets

    @Test func textsShowNoSecret() async throws {
        try await DurableTrial.run { _ in
            .reset
        } _: { trial in
            let url = try #require(URL(string: "http://user:secret@127.0.0.1:\(trial.server.port)/secret?token=secret"))
            let request = try DurableRequest(
                url, method: "POST", headers: ["Authorization": "secret"], body: Data("secret".utf8), idempotency: .none)
            #expect(
                "\(request)" == "POST 127.0.0.1:\(trial.server.port), 6 bytes" && !String(reflecting: request).contains("secret"))
            let job = try await trial.end(of: request)
            let text = try #require(job.lastError)
            #expect(!text.contains("secret") && job.state == .failed, "\(text)")
        }
    }
}
