internal import FoundationEssentials
public import Reachability
public import ReachableRetry

/// The parameters of a kind of durable jobs.
///
/// ```swift
/// struct Upload: JobParameters {
///     static let jobName = "upload"
///     var file: String
///     var options: DurableOptions { .init(to: .host("photos.example.org"), serialKey: file) }
/// }
/// ```
///
/// The parameters are kept as JSON, so their coded form must stay readable as long as jobs are stored. Change ``jobVersion`` with
/// the form, and register the kind with `upgrading:` closures
/// (``JobQueue/registerJob(parameters:policy:conditions:maxConcurrent:upgrading:jobPolicy:handler:)``).
public protocol JobParameters: Codable, Sendable {
    /// The name of the kind, unique in its queue and the same in every release.
    static var jobName: String { get }
    /// The version of the coded form; 1 by default.
    static var jobVersion: Int { get }
    /// The job's place and limits.
    var options: DurableOptions { get }
}

extension JobParameters {
    /// 1.
    public static var jobVersion: Int { 1 }
    /// The internet, without a destination, normal priority and no keys.
    public var options: DurableOptions { DurableOptions() }
}

extension DurableJob {
    /// Returns the parameters of the job; `nil` if it is of another kind or version, or its payload cannot be decoded.
    public func parameters<Parameters: JobParameters>(as type: Parameters.Type) -> Parameters? {
        guard kind == Parameters.jobName, version == Parameters.jobVersion else { return nil }
        return try? JSONDecoder().decode(Parameters.self, from: payload)
    }
}

/// The place and the limits of a durable job.
public struct DurableOptions: Hashable, Sendable {
    /// The scope to reach.
    public var scope: Scope
    /// The server or resource that the job uses; `nil` by default.
    ///
    /// Jobs with the same scope and destination share a gate and the delays that a server orders.
    public var destination: String?
    /// The order among jobs that may run at the same time.
    public var priority: JobPriority
    /// The time before the first attempt; `nil` starts at once.
    public var delay: Duration?
    /// The time after the push at which the job gives up, also offline; `nil` sets no limit.
    public var timeLimit: Duration?
    /// The key of jobs that run one after the other in the order of their pushes, within the queue.
    public var serialKey: String?
    /// True if jobs with the same serial key run although this one failed; by default they wait until it is retried or cancelled.
    public var continuesAfterFailure: Bool
    /// False if an attempt that may have been carried out must not be repeated: a job whose attempt was cut, by a crash, a
    /// reboot, the end of its worker, a time limit or a lost path, fails with the reason `outcomeUnknown`.
    public var isRepeatable: Bool

    /// Creates options.
    public init(
        to scope: Scope = .internet, destination: String? = nil, priority: JobPriority = .normal, delay: Duration? = nil,
        timeLimit: Duration? = nil, serialKey: String? = nil, continuesAfterFailure: Bool = false, isRepeatable: Bool = true
    ) {
        (self.scope, self.destination, self.priority) = (scope, destination, priority)
        (self.delay, self.timeLimit, self.serialKey) = (delay, timeLimit, serialKey)
        (self.continuesAfterFailure, self.isRepeatable) = (continuesAfterFailure, isRepeatable)
    }
}

/// One run of a durable job.
public struct DurableAttempt: Sendable {
    /// The job.
    public let id: DurableJobID
    /// The attempt on the retry bus, with its number, its time limit and `reportProgress()`.
    public let attempt: Attempt
    /// The key by which a server recognizes repeated attempts: the same in all attempts of the job.
    public let idempotencyKey: String
    /// The text of the last failure, perhaps of another process.
    public let lastError: String?

    /// The number of the attempt, those of other processes included; the first is 1.
    public var number: Int { attempt.number }
}
