import Foundation
import FoundationNetworking
import MisbehavingServer
import ReachableHTTP
import ReachableRetry
import Testing

#if AsyncHTTPClient
import AsyncHTTPClient
import NIOHTTP1
#endif

/// Responses that are none; a fault of the client then ends the process.
@Suite(.timeLimit(.minutes(20))) struct MalformedResponseTests {
    private static let heads = [
        "HTTP/1.1 000 -", "HTTP/1.1 000", "HTTP/1.1 0 -", "HTTP/1.1 99 -", "HTTP/1.1 1000 -", "HTTP/1.1 99999999999999999999 -",
        "HTTP/1.1 -1 -", "HTTP/1.1 abc -", "HTTP/1.1", "HTTP/1.1\t200 -", "HTTP/9.9 200 -", "ICY 200 OK", "hello", "",
        "HTTP/1.1 200 -\r\nno colon", "HTTP/1.1 200 -\r\n: x", "HTTP/1.1 200 -\r\n folded: x", "HTTP/1.1 200 -\r\nA\u{0}: b",
        "HTTP/1.1 200 -\r\nContent-Length: -1", "HTTP/1.1 200 -\r\nContent-Length: x",
    ]

    @Test func malformedHeadsEndAttempts() async {
        await #expect(processExitsWith: .success) {
            for head in Self.heads {
                try await Exchange.run(answering(.raw(Array("\(head)\r\n\r\nbody".utf8)))) { exchange in
                    let request = try exchange.request()
                    await #expect(throws: URLError.self, "\(head)") {
                        _ = try await exchange.session.data(
                            for: request, retrying: .steady.giveUpAfter(maxAttempts: 1), on: exchange.bus)
                    }
                }
            }
        }
    }

    /// Latin-1, as of older servers.
    private static let latin = Array("HTTP/1.1 200 -\r\nX-Name: caf".utf8) + [0xe9] + Array("\r\nContent-Length: 2\r\n\r\nok".utf8)

    @Test func headerInAnotherEncodingIsNamed() async throws {
        try await Exchange.run(answering(.raw(Self.latin))) { exchange in
            let request = try exchange.request()
            let error = try await #require(throws: URLError.self) {
                _ = try await exchange.session.data(
                    for: request, retrying: .steady.giveUpAfter(maxAttempts: 1), on: exchange.bus)
            }
            #expect(error.localizedDescription.contains("header of the response is not UTF-8") && "\(error)".contains("HTTPClient"))
        }
    }

    #if AsyncHTTPClient
    @Test func headerInAnotherEncodingIsTakenByTheClient() async throws {
        try await Exchange.run(by: .steady, answering(.raw(Self.latin))) { exchange, client in
            let response = try await client.execute(exchange.clientRequest(), retrying: .steady, on: exchange.bus)
            #expect(try await response.text == "ok" && response.headers.contains(name: "X-Name"))
        }
    }

    @Test func malformedHeadsEndAttemptsOfTheClient() async {
        await #expect(processExitsWith: .success) {
            let client = HTTPClient(configuration: HTTPClient.Configuration().leavingRetriesToBus())
            for head in Self.heads + ["HTTP/1.1 001 -", "HTTP/1.1 099 -"] {
                try await Exchange.run(answering(.raw(Array("\(head)\r\n\r\nbody".utf8)))) { exchange in
                    let request = HTTPClientRequest(url: try #require(exchange.request().url?.absoluteString))
                    let result = await Task {
                        try await client.execute(request, retrying: .steady.giveUpAfter(maxAttempts: 1), on: exchange.bus)
                    }.result
                    guard head.hasPrefix("HTTP/1.1 0"), head.hasSuffix(" -") else { return }
                    #expect(throws: HTTPParserError.invalidStatus, "\(head)") { try result.get() }
                }
            }
            try await client.shutdown()
        }
    }
    #endif
}
