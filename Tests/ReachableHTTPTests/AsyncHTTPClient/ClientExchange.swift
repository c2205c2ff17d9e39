#if AsyncHTTPClient
import AsyncHTTPClient
import Foundation
import MisbehavingServer
import NIOCore
import NIOHTTP1
import ReachableHTTP
import ReachableRetry
import Testing

extension Exchange {
    /// Runs an exchange with a client.
    static func run(
        by configuration: HTTPClient.Configuration, _ answer: @escaping @Sendable (Request) -> Reply,
        _ body: @Sendable (Exchange, HTTPClient) async throws -> Void
    ) async throws {
        try await run(answer) { exchange in
            let client = HTTPClient(configuration: configuration)
            do {
                try await body(exchange, client)
            } catch {
                try await client.shutdown()
                throw error
            }
            try await client.shutdown()
        }
    }

    func clientRequest(_ method: HTTPMethod = .GET, _ path: String = "/") -> HTTPClientRequest {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(server.port)\(path)")
        request.method = method
        return request
    }
}

extension HTTPClient.Configuration {
    /// The recommended configuration.
    static var steady: Self { Self().leavingRetriesToBus() }
}

extension HTTPClientRetryOptions {
    /// Returns changed default options.
    static func with(_ change: (inout HTTPClientRetryOptions) -> Void) -> HTTPClientRetryOptions {
        var options = HTTPClientRetryOptions()
        change(&options)
        return options
    }

    /// Options that name the job.
    static var job: HTTPClientRetryOptions { .with { $0.job.id = "job" } }
}

extension HTTPClientResponse {
    var text: String {
        get async throws { String(buffer: try await body.collect(upTo: 1 << 20)) }
    }
}
#endif
