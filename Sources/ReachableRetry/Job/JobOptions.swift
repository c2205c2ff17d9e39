public import Reachability

/// The place of a job on its bus: destination, conditions, priority and name.
///
/// ```swift
/// try await bus.retry(policy, options: JobOptions(destination: "photos", priority: .bulk)) { _ in try await upload(photo) }
/// ```
///
/// `RetryBus.retry`, `RetryBus.job`, `RetryBus.sequence` and `AsyncSequence.retry` take the same options.
public struct JobOptions: Sendable {
    /// The server or resource that the job uses; `nil` by default.
    ///
    /// Jobs with the same scope and destination share a gate: an answer to one job, or a delay ordered by the server, applies to
    /// all of them.
    public var destination: String?
    /// The conditions that have to be satisfied besides the scope.
    ///
    /// A condition that becomes satisfied ends the backoff, as a reconnect does.
    public var conditions: [Condition]
    /// The order among jobs that may start at the same time.
    public var priority: JobPriority
    /// The job's name, unique on its bus, for methods such as ``RetryBus/cancel(_:)``; `nil` lets the bus number the job.
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

/// The order in which jobs start, as after a reconnect.
///
/// Jobs of the same priority start in the order in which they were submitted.
public enum JobPriority: Int, Hashable, Comparable, Sendable, CaseIterable {
    /// Background work: a backup, a batch of thumbnails.
    case bulk
    /// The default.
    case normal
    /// A person waits for it.
    case interactive

    /// True if the left priority is less urgent.
    public static func < (left: JobPriority, right: JobPriority) -> Bool { left.rawValue < right.rawValue }
}

/// The name of a job, from the caller or from the bus.
public struct JobID: Hashable, Sendable {
    enum Name: Hashable, Sendable {
        case chosen(String)
        /// Includes the job's key, which finds the job without a search.
        case numbered(UInt64, JobKey)
    }

    let name: Name

    /// True if the caller chose the name.
    var isChosen: Bool { if case .chosen = name { true } else { false } }

    init(_ name: Name) { self.name = name }

    /// Creates a name.
    public init(_ name: String) { self.name = .chosen(name) }
}

extension JobID: ExpressibleByStringLiteral {
    /// Creates a name.
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
