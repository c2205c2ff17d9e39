import Foundation
import FoundationNetworking
import ReachableHTTP
import ReachableRetry

struct PhotoService: Sendable {
    let server: URL
    let token: @Sendable () async throws -> String
    var bus = RetryBus.shared
    var session = URLSession.shared

    private var policy: RetryPolicy { .default.attemptTimeout(.seconds(120)).giveUpAfter(elapsed: .seconds(86_400)) }

    func send(_ photo: Data) async throws {
        var request = URLRequest(url: server.appendingPathComponent("photos"))
        request.httpMethod = "POST"
        var options = HTTPRetryOptions()
        options.idempotency = .key  // one for all attempts: the server stores the photo once
        options.errorStatuses = .thrown
        options.adapt = { request, _ in
            var request = request
            request.setValue("Bearer \(try await token())", forHTTPHeaderField: "Authorization")  // renewed while the job waited
            return request
        }
        _ = try await session.upload(for: request, from: photo, retrying: policy, on: bus, options: options)
    }

    func fetch(_ name: String) async throws -> URL {
        var options = HTTPRetryOptions()
        options.errorStatuses = .thrown
        options.classifier = HTTPRetryClassifier { failure in
            failure.status == 423 ? .retryAs(.server) : .undecided  // locked: another client is still sending it
        }.otherwise(.standard)
        let request = URLRequest(url: server.appendingPathComponent("photos/\(name)"))
        return try await session.download(for: request, retrying: policy, on: bus, options: options).0
    }
}
