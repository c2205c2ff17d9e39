import Foundation
import FoundationNetworking
import Reachability
import ReachableHTTP
import ReachableRetry

/// Uploads one file to the server.
struct Upload {
    let server: URL
    let outbox: Outbox
    let policy: RetryPolicy
    let bus: RetryBus
    var session = URLSession.shared

    /// Uploads a file, however long that takes, and moves it to the sent files.
    ///
    /// A program that is stopped in between uploads the file again: PUT may be repeated.
    func callAsFunction(_ parcel: Parcel) async throws {
        var request = URLRequest(url: server.appendingPathComponent(parcel.name))
        request.httpMethod = "PUT"
        var options = HTTPRetryOptions()
        // The path to this server counts, wherever it is.
        options.scope = .host(server.host() ?? "")
        options.errorStatuses = .thrown
        options.job.id = JobID(parcel.name)
        let (data, response) = try await session.upload(
            for: request, fromFile: outbox.file(of: parcel), retrying: policy, on: bus, options: options)
        // A redirection without a target is no error, but nothing was stored.
        guard 200...299 ~= response.statusCode else { throw HTTPStatusError(response: response, data: data) }
        try outbox.markSent(parcel)
    }
}

extension RetryPolicy {
    /// Retries until the upload succeeds or the server refuses it.
    ///
    /// An attempt is interrupted after 2 s without the network, instead of after a minute without an answer.
    static let upload = RetryPolicy(.exponential(initial: .milliseconds(500), maximum: .seconds(300)).jitter(.full))
        .giveUpAfter(maxAttempts: nil)
        .interruptsAttempt(.whenUnsatisfied(grace: .seconds(2)))
}
