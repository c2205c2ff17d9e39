internal import FoundationEssentials
internal import Reachability
internal import ReachableRetry

struct JobKind: Sendable {
    let name: String
    let versions: Set<Int>
    /// The version that needs no upgrade.
    let version: Int
    /// True if its jobs have no policies of their own.
    let isPlain: Bool
    let policy: RetryPolicy
    let conditions: [Condition]
    let maxConcurrent: Int?
    /// Decodes a payload; returns the work of an attempt, or `nil` if no registered version of the kind can read it.
    let work: @Sendable (DurableJob) -> Work?

    struct Work: Sendable {
        typealias Perform = @Sendable (DurableAttempt) async throws -> Void

        let policy: RetryPolicy
        let perform: Perform
    }

    var rules: QueueCore.Kind {
        QueueCore.Kind(
            versions: versions, limit: maxConcurrent, maxAttempts: policy.rules.maxAttempts,
            isGated: policy.rules.isGated)
    }

    init<Parameters: JobParameters>(
        _ parameters: Parameters.Type, policy: RetryPolicy, conditions: [Condition], maxConcurrent: Int?,
        upgrading: [Int: @Sendable (Data) throws -> Parameters], jobPolicy: (@Sendable (Parameters) -> RetryPolicy)?,
        handler: @escaping @Sendable (Parameters, DurableAttempt) async throws -> Void
    ) {
        (name, version, isPlain) = (Parameters.jobName, Parameters.jobVersion, jobPolicy == nil)
        versions = Set(upgrading.keys).union([Parameters.jobVersion])
        (self.policy, self.conditions, self.maxConcurrent) = (policy, conditions, maxConcurrent.map { max(1, $0) })
        let decoder = JSONDecoder()
        work = { job in
            let upgrade = job.version == Parameters.jobVersion ? nil : upgrading[job.version]
            // The error may quote the payload.
            guard let parameters = try? upgrade?(job.payload) ?? decoder.decode(Parameters.self, from: job.payload)
            else { return nil }
            // The kind decides what its jobs wait for, before a job is read.
            let own = jobPolicy?(parameters).connectivity(policy.rules.connectivity)
            return Work(policy: own ?? policy) { attempt in try await handler(parameters, attempt) }
        }
    }

    /// True if nothing but a small payload has to be decoded before an attempt.
    func isReadAtOnce(_ job: DurableJob) -> Bool { isPlain && job.version == version && job.payload.count <= 4096 }

    var waitsForNetwork: Bool { policy.rules.waitsForScope }
}
