import Foundation
import FoundationNetworking
import ReachableHTTP
import ReachableJobs
import ReachableRetry

struct OrderService: Sendable {
    let server: URL
    let token: @Sendable () async throws -> String
    let queue: JobQueue

    /// Registers the kinds; call it in each process that runs the queue, before it does.
    func register(session: URLSession = .shared) {
        var options = DurableHTTPOptions()
        options.session = session
        options.adapt = { request, _ in
            var request = request
            request.setValue("Bearer \(try await token())", forHTTPHeaderField: "Authorization")  // never stored
            return request
        }
        let policy = RetryPolicy.default.giveUpAfter(maxAttempts: nil)
        queue.registerRequests(policy: policy, options: options) { request, response, attempt in
            print("order \(attempt.id): \(response.status)")
        }
        queue.registerUploads(policy: policy, options: options)
        queue.registerDownloads(policy: policy, options: options)
    }

    /// Orders something, once: the server recognizes repeated attempts by the job's key.
    func order(_ item: String, for customer: String) async throws {
        var request = try DurableRequest(
            server.appendingPathComponent("orders"), method: "POST", headers: ["Content-Type": "application/json"],
            body: JSONEncoder().encode(["item": item]))
        request.options.serialKey = customer  // one after the other
        try await queue.push(request)
    }

    func store(_ photo: URL) async throws {
        let name = photo.lastPathComponent
        try await queue.push(DurableUpload(photo, to: server.appendingPathComponent("photos/\(name)")), unique: .keep(name))
    }

    func fetch(_ name: String, sha256: String, to file: URL) async throws {
        let url = server.appendingPathComponent("films/\(name)")
        try await queue.push(DurableDownload(url, to: file, sha256: sha256), unique: .keep(name))
    }
}
