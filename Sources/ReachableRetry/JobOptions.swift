public import Reachability

/// The place of a job on its bus: destination, conditions, priority and name.
///
/// ```swift
/// try await bus.retry(policy, options: JobOptions(destination: "photos", priority: .bulk)) { _ in try await upload(photo) }
/// ```
///
/// `RetryBus.retry`, `RetryBus.job` and `AsyncSequence.retry` take the same options.
public struct JobOptions: Sendable {
    /// The server or resource that the job uses; `nil` by default.
    ///
    /// Jobs with the same scope and destination share a gate: an answer to one job, or a delay ordered by the server, applies to
    /// all of them.
    public var destination: String?
    /// The conditions that have to be satisfied besides the scope, all of them.
    ///
    /// A condition that becomes satisfied ends the backoff, as a reconnect does.
    public var conditions: [Condition]
    /// The order in which jobs start when several may.
    public var priority: JobPriority
    /// The name for ``RetryBus/cancel(_:)`` and its kin, unique among the jobs of a bus; `nil` lets the bus number the job.
    public var id: JobID?

    /// Creates the options of a job.
    public init(
        destination: String? = nil, when conditions: [Condition] = [], priority: JobPriority = .normal, id: JobID? = nil
    ) {
        self.destination = destination
        self.conditions = conditions
        self.priority = priority
        self.id = id
    }
}
