#if AsyncHTTPClient
import AsyncHTTPClient
import Foundation
import NIOHTTP1
import ReachableHTTP
import ReachableRetry

struct Backup: Sendable {
    let server: String
    let token: @Sendable () async throws -> String
    let client: HTTPClient
    var bus = RetryBus.shared

    static func makeClient() -> HTTPClient { HTTPClient(configuration: HTTPClient.Configuration().leavingRetriesToBus()) }

    /// One hour for an attempt, one week for the whole; an upload whose network is lost ends after 5 s and waits.
    private var policy: RetryPolicy {
        .default.attemptTimeout(.seconds(3600)).giveUpAfter(elapsed: .seconds(604_800))
            .interruptsAttempt(.whenUnsatisfied(grace: .seconds(5)))
    }

    private var options: HTTPClientRetryOptions {
        var options = HTTPClientRetryOptions()
        options.errorStatuses = .thrown
        options.adapt = { request, _ in
            var request = request
            // Renewed while the job waited.
            request.headers.replaceOrAdd(name: "Authorization", value: "Bearer \(try await token())")
            return request
        }
        return options
    }

    func store(_ archive: URL) async throws {
        var request = HTTPClientRequest(url: "\(server)/archives/\(archive.lastPathComponent)")
        request.method = .PUT
        _ = try await client.upload(request, fromFile: archive, retrying: policy, on: bus, options: options)
    }

    func restore(_ name: String) async throws -> URL {
        let request = HTTPClientRequest(url: "\(server)/archives/\(name)")
        return try await client.download(request, retrying: policy, on: bus, options: options).0
    }
}
#endif
