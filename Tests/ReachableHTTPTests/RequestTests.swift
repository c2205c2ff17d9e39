import Foundation
import FoundationNetworking
import ReachableRetry
import Testing

@testable import ReachableHTTP

/// The changes to a request before it is sent.
@Suite struct RequestTests {
    private func request(_ text: String) throws -> URLRequest { URLRequest(url: try #require(URL(string: text))) }

    @Test(arguments: [
        ("http://Example.com/a", "example.com:80"), ("HTTPS://example.com", "example.com:443"),
        ("https://example.com:8443/", "example.com:8443"), ("http://192.0.2.1", "192.0.2.1:80"),
        ("http://[2001:db8::1]:81/", "[2001:db8::1]:81"),
    ])
    func destinationIsHostAndPort(text: String, destination: String) throws {
        #expect(try request(text).destination == destination)
    }

    @Test(arguments: [
        (own: 60.0, session: 60.0, attempt: nil as Duration?, expected: 60.0), (60, 30, nil, 30), (10, 30, nil, 10),
        (0.5, 60, nil, 1),
        (1.25, 60, nil, 2), (0, 60, nil, 1), (-5, 60, nil, 1), (.nan, 60, nil, 60), (.infinity, 60, nil, 3_155_760_000),
        (1e300, 60, nil, 3_155_760_000), (5, 60, .milliseconds(1500), 5), (1, 60, .milliseconds(1500), 3),
        (60, 60, .seconds(600), 601), (60, 60, .seconds(Int64.max), 3_155_760_000),
    ])
    func timeoutIsRoundedAndBounded(own: Double, session: Double, attempt: Duration?, expected: Double) throws {
        var request = try request("http://192.0.2.1")
        request.timeoutInterval = own
        request.setTimeout(RetryPolicy.default.attemptTimeout(attempt), session)
        #expect(request.timeoutInterval == expected)
    }

    @Test func existingKeyIsKept() throws {
        var request = try request("http://192.0.2.1")
        request.setValue("mine", forHTTPHeaderField: "idempotency-key")
        request.add(.key)
        #expect(request.value(forHTTPHeaderField: "Idempotency-Key") == "mine")
        request.add(.key("other"))
        #expect(request.value(forHTTPHeaderField: "Idempotency-Key") == "other")
    }
}
