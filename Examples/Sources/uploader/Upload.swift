import Foundation
import FoundationNetworking
import Reachability
import ReachableHTTP
import ReachableRetry

/// Brings one file to the server.
struct Upload {
    let server: URL
    let outbox: Outbox
    let policy: RetryPolicy
    let bus: RetryBus
    var session = URLSession.shared

    /// Uploads a file, however long that takes, and moves it to those that were sent.
    ///
    /// Who stops the program between the two has the file uploaded once more: a PUT may be repeated.
    func callAsFunction(_ parcel: Parcel) async throws {
        var request = URLRequest(url: server.appendingPathComponent(parcel.name))
        request.httpMethod = "PUT"
        var options = HTTPRetryOptions()
        // The way to this server counts, be it in the next room or at the other end of the world.
        options.scope = .host(server.host() ?? "")
        options.errorStatuses = .thrown
        options.job.id = JobID(parcel.name)
        let (data, response) = try await session.upload(
            for: request, fromFile: outbox.file(of: parcel), retrying: policy, on: bus, options: options)
        // A redirection that leads nowhere is no error, and nothing was stored.
        guard 200...299 ~= response.statusCode else { throw HTTPStatusError(response: response, data: data) }
        try outbox.markSent(parcel)
    }
}

extension RetryPolicy {
    /// Goes on until it succeeds: only the server knows what will never be.
    ///
    /// An attempt whose network is gone for two seconds ends there and then, instead of after a minute of silence.
    static let upload = RetryPolicy(.exponential(initial: .milliseconds(500), maximum: .seconds(300)).jitter(.full))
        .giveUpAfter(maxAttempts: nil)
        .interruptsAttempt(.whenUnsatisfied(grace: .seconds(2)))
}
