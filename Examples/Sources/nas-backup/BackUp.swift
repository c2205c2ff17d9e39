import Foundation
import Reachability
import ReachableHTTP
import ReachableJobs
import ReachableRetry

/// A job: the NAS gets a file.
struct BackUp: JobParameters {
    static let jobName = "back up"
    var file: String
    var server: URL

    /// Jobs wait for a path to the server, and those of one file run one after the other.
    var options: DurableOptions { DurableOptions(to: .host(server.host() ?? ""), destination: "nas", serialKey: file) }
}

/// The server of the NAS.
protocol BackupServer: Sendable {
    /// Stores a file; a request with a key that the server has seen changes nothing.
    func store(_ backup: BackUp, key: String) async throws
}

extension JobQueue {
    /// Registers the handlers of all kinds of jobs.
    func registerBackups(_ server: some BackupServer, when nasIsThere: Condition) {
        registerJob(parameters: BackUp.self, policy: .backups, conditions: [nasIsThere]) { backup, attempt in
            try await server.store(backup, key: attempt.idempotencyKey)
        }
    }
}

extension RetryPolicy {
    /// Tries until the NAS has the file or refuses it.
    static let backups = RetryPolicy(.exponential(initial: .seconds(1), maximum: .seconds(900)).jitter(.full))
        .giveUpAfter(maxAttempts: nil)
        .interruptsAttempt(.whenUnsatisfied(grace: .seconds(2)))
        .classifyingHTTP()
}
