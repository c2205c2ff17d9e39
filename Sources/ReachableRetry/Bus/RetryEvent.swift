public import Reachability

/// An event in the life of a job, for logs and metrics.
public struct RetryEvent: Sendable {
    /// The kind of an event.
    ///
    /// More may be added.
    public struct Kind: RawRepresentable, Hashable, Sendable {
        /// The stable name.
        public let rawValue: String
        /// Creates a kind from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The job begins to wait for the network or another condition: see ``RetryEvent/unmet``.
        ///
        /// Published each time, and again when the first unmet condition changes.
        public static let waiting = Kind(rawValue: "waiting")
        /// An attempt starts.
        public static let attemptStarted = Kind(rawValue: "attemptStarted")
        /// An attempt failed: see ``RetryEvent/failure``.
        public static let attemptFailed = Kind(rawValue: "attemptFailed")
        /// The job waits before the next attempt: see ``RetryEvent/delay``.
        ///
        /// Not published if the job waits for the network instead, or starts again at once.
        public static let backingOff = Kind(rawValue: "backingOff")
        /// The library cannot keep a promise of its own in this attempt: see ``RetryEvent/warning``.
        ///
        /// The log has each text once in the life of a process, at `warning`.
        public static let warning = Kind(rawValue: "warning")
        /// The job succeeded: the end.
        public static let succeeded = Kind(rawValue: "succeeded")
        /// The job gave up: the end; see ``RetryEvent/report``.
        public static let gaveUp = Kind(rawValue: "gaveUp")
        /// The job was cancelled: the end.
        public static let cancelled = Kind(rawValue: "cancelled")
    }

    /// The trigger of an attempt.
    ///
    /// More may be added.
    public struct Trigger: RawRepresentable, Hashable, Sendable {
        /// The stable name.
        public let rawValue: String
        /// Creates a trigger from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The job is new and waited at most for its turn.
        public static let first = Trigger(rawValue: "first")
        /// The delay after a failure ended, or there was none.
        public static let timer = Trigger(rawValue: "timer")
        /// The network came back, or changed.
        public static let reconnect = Trigger(rawValue: "reconnect")
        /// Another condition of the job became satisfied.
        public static let condition = Trigger(rawValue: "condition")
        /// A call of ``RetryBus/retryNow(_:ignoringServerDelays:)``.
        public static let retryNow = Trigger(rawValue: "retryNow")
    }

    /// An unmet condition of a job.
    public enum Unmet: Hashable, Sendable {
        /// A path to this scope.
        case network(Scope)
        /// Another condition, by its name.
        case condition(String)
    }

    /// The failure of an attempt.
    public struct Failure: Sendable {
        /// The operation's error.
        public var error: any Error
        /// The fault, as the bus determined it.
        public var fault: AttemptFailure.Fault
        /// If `false`, the error ended the job.
        public var mayRetry: Bool
        /// True if the attempt counts against the policy's limit.
        public var isCharged: Bool
    }

    /// The number of the event among those of its bus, from 1: a listener that is slow has lost those between two numbers.
    public var sequence: UInt64 = 0
    /// The kind.
    public var kind: Kind
    /// The job's name.
    public var job: JobID
    /// The job's scope.
    public var scope: Scope
    /// The job's server or resource, if the caller named it.
    public var destination: String?
    /// The number of started attempts.
    public var attempt: Int
    /// The time that the job has waited for the network or other conditions.
    public var waited: Duration
    /// The time on the bus's clock, counted from the bus's creation.
    public var at: Duration
    /// The unmet conditions, the network first; only with ``Kind/waiting``.
    public var unmet: [Unmet] = []
    /// The attempt's trigger; only with ``Kind/attemptStarted``.
    public var trigger: Trigger?
    /// The backoff that was left when a reconnect, a condition or ``RetryBus/retryNow(_:ignoringServerDelays:)`` ended it; only
    /// with ``Kind/attemptStarted``.
    public var saved: Duration?
    /// The time since the reconnect that the job waited for; only with ``Kind/attemptStarted`` and ``Trigger/reconnect``.
    ///
    /// `nil` if another attempt of the job was running at the reconnect.
    public var sinceReconnect: Duration?
    /// The attempt's failure; only with ``Kind/attemptFailed``.
    public var failure: Failure?
    /// The delay, unless a reconnect comes first; only with ``Kind/backingOff``.
    public var delay: Duration?
    /// The promise that is not kept, and what to do about it; only with ``Kind/warning``.
    public var warning: String?
    /// The job's report; only with ``Kind/gaveUp``.
    public var report: GiveUp?
}

extension RetryEvent.Unmet: CustomStringConvertible {
    /// The condition as text: `the network`, `a path to 192.0.2.1`, `condition 'login'`.
    public var description: String {
        switch self {
        case .network(.internet): "the network"
        case .network(let scope): "a path to \(scope)"
        case .condition(let name): "condition '\(name)'"
        }
    }
}
