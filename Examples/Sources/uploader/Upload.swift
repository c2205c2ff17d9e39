import Foundation
import FoundationNetworking
import Reachability
import ReachableHTTP
import ReachableJobs
import ReachableRetry

/// The job: the server gets one file of the outbox.
struct Upload: JobParameters {
    static let jobName = "upload"
    var parcel: Parcel
    var host: String
    /// The time after which it gives up, waiting included.
    var timeLimit: Duration?

    /// The path to this server counts, wherever it is.
    var options: DurableOptions {
        DurableOptions(to: .host(host), destination: host, timeLimit: timeLimit)
    }
}

/// Makes the request of an attempt.
struct Uploader {
    let server: URL
    let outbox: Outbox
    var session = URLSession.shared

    /// Uploads a file and moves it to the sent files; returns false if it is not in the outbox any more.
    ///
    /// A program that is killed in between makes the request again, with the same key: PUT may be repeated.
    func send(_ parcel: Parcel, key: String) async throws -> Bool {
        guard outbox.contains(parcel) else { return false }
        var request = URLRequest(url: server.appendingPathComponent(parcel.name))
        request.httpMethod = "PUT"
        request.setValue(key, forHTTPHeaderField: "Idempotency-Key")
        _ = try await session.attempt(request, fromFile: outbox.file(of: parcel))
        try outbox.markSent(parcel)
        return true
    }
}

extension RetryPolicy {
    /// Retries until the upload succeeds or the server refuses it.
    ///
    /// An attempt is interrupted after 2 s without the network, instead of after a minute without an answer.
    static let upload = RetryPolicy(.exponential(initial: .milliseconds(500), maximum: .seconds(300)).jitter(.full))
        .giveUpAfter(maxAttempts: nil)
        .interruptsAttempt(.whenUnsatisfied(grace: .seconds(2)))
        .classifyingHTTP()
}
