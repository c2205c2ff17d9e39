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

/// Which job starts first when several may, as after a reconnect.
///
/// Jobs of the same priority start in the order in which they were submitted.
public enum JobPriority: Int, Hashable, Comparable, Sendable, CaseIterable {
    /// Nobody waits for it: a backup, a batch of thumbnails.
    case bulk
    /// The usual.
    case normal
    /// A person is looking.
    case interactive

    /// Whether the left one gives way.
    public static func < (left: JobPriority, right: JobPriority) -> Bool { left.rawValue < right.rawValue }
}

/// Names a job: one that the caller chose, or one that the bus gives.
public struct JobID: Hashable, Sendable {
    enum Name: Hashable, Sendable {
        case chosen(String)
        /// With the job's place, where it is found at once.
        case numbered(UInt64, JobKey)
    }

    let name: Name

    /// Whether it is the caller's.
    var isChosen: Bool { if case .chosen = name { true } else { false } }

    init(_ name: Name) { self.name = name }

    /// Makes an identifier of the caller's.
    public init(_ name: String) { self.name = .chosen(name) }
}

extension JobID: ExpressibleByStringLiteral {
    /// Makes an identifier of the caller's.
    public init(stringLiteral value: String) { self.init(value) }
}

extension JobID: CustomStringConvertible {
    /// The caller's name, or `#` and the bus's number.
    public var description: String {
        switch name {
        case .chosen(let name): name
        case .numbered(let number, _): "#\(number)"
        }
    }
}
