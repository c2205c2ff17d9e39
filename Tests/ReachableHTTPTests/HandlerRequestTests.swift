import Foundation
import FoundationNetworking
import MisbehavingServer
import ReachabilityTesting
import ReachableHTTP
import ReachableRetry
import Testing

/// Requests that operations make themselves, and the policy that judges their errors.
@Suite(.timeLimit(.minutes(20))) struct HandlerRequestTests {
    private static let policy = RetryPolicy.steady.backoff(.immediate)

    /// libcurl itself sends a request again if a connection that it reuses ends without an answer (`Curl_retry_request`).
    private static let closing = ["Connection": "close"]

    private func retry(
        _ exchange: Exchange, _ method: String = "PUT", _ policy: RetryPolicy = policy.classifyingHTTP()
    ) async throws -> Int {
        let request = try exchange.request(method)
        return try await exchange.bus.retry(policy) { _ in
            try await exchange.session.attempt(request, from: Data("abc".utf8)).1.statusCode
        }
    }

    @Test func passingFailuresAreRepeated() async throws {
        try await Exchange.run { request in
            switch request.number {
            case 1: .respond(503, Self.closing)
            case 2: .reset
            default: .respond(201)
            }
        } _: { exchange in
            let status = try await retry(exchange)
            #expect(status == 201 && exchange.server.requests.map(\.length) == [3, 3, 3])
        }
    }

    @Test(arguments: [304, 401, 404]) func finalStatusIsThrown(status: Int) async throws {
        try await Exchange.run { _ in
            .respond(status, ["WWW-Authenticate": "Basic realm=\"a\""], "no")
        } _: { exchange in
            let error = await #expect(throws: HTTPStatusError.self) { _ = try await retry(exchange) }
            #expect(error?.status == status && exchange.server.requests.count == 1)
        }
    }

    @Test func requestThatMayHaveBeenReceivedIsNotRepeated() async throws {
        try await Exchange.run { request in
            request.number == 1 ? .respond(421, Self.closing) : .reset
        } _: { exchange in
            let policy = Self.policy.classifyingHTTP(isIdempotent: false)
            let error = await #expect(throws: URLError.self) { _ = try await retry(exchange, "POST", policy) }
            #expect(exchange.server.requests.count == 2 && error != nil)
        }
    }

    @Test func serversDelayIsObeyed() async throws {
        try await Exchange.run {
            $0.number == 1 ? .respond(503, ["Retry-After": "60"]) : .respond(200)
        } _: { exchange in
            let request = try exchange.request()
            let loading = Task {
                try await exchange.bus.retry(Self.policy.classifyingHTTP(), options: JobOptions(id: "job")) { _ in
                    try await exchange.session.attempt(request).1.statusCode
                }
            }
            _ = try await exchange.bus.parked("job")
            exchange.clock.advance(by: .seconds(59))
            #expect(exchange.server.requests.count == 1)
            exchange.clock.advance(by: .seconds(1))
            #expect(try await loading.value == 200)
        }
    }

    @Test func otherErrorsAreLeftToOtherClassifiers() async throws {
        struct Other: Error {}
        try await Exchange.run { _ in
            .respond(200)
        } _: { exchange in
            let policy = Self.policy.classifyingHTTP().classify { $0 is Other ? .permanent : nil }
            var count = 0
            await #expect(throws: Other.self) {
                try await exchange.bus.retry(policy) { _ in
                    count += 1
                    throw Other()
                }
            }
            #expect(count == 1)
        }
    }

    @Test func missingFileIsAnErrorAtOnce() async throws {
        try await Exchange.run { _ in
            .respond(200)
        } _: { exchange in
            let request = try exchange.request("PUT")
            await #expect(throws: CocoaError.self) {
                _ = try await exchange.session.attempt(request, fromFile: URL(fileURLWithPath: "/nowhere/file"))
            }
            #expect(exchange.server.requests.isEmpty)
        }
    }

    @Test func errorsShowNoURL() async throws {
        try await Exchange.run { _ in
            .reset
        } _: { exchange in
            let url = try #require(URL(string: "http://user:secret@127.0.0.1:\(exchange.server.port)/?token=secret"))
            let error = await #expect(throws: URLError.self) { _ = try await exchange.session.attempt(URLRequest(url: url)) }
            #expect(try !"\(#require(error))".contains("secret"))
        }
    }

    @Test func cancellationEndsTheAttempt() async throws {
        try await Exchange.run { _ in
            .stall
        } _: { exchange in
            let request = try exchange.request()
            let loading = Task { try await exchange.session.attempt(request) }
            try await exchange.server.untilRequests(1)
            loading.cancel()
            await #expect(throws: CancellationError.self) { _ = try await loading.value }
        }
    }
}
