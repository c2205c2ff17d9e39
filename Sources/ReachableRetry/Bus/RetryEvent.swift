public import Reachability

/// Something that happened to a job, for logs and metrics.
public struct RetryEvent: Sendable {
    /// What happened.
    ///
    /// More may be added.
    public struct Kind: RawRepresentable, Hashable, Sendable {
        /// The stable name.
        public let rawValue: String
        /// Makes a kind from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The job begins to wait for the network or another condition: see ``RetryEvent/unmet``.
        ///
        /// Published each time, and again when what the job waits for first has changed.
        public static let waiting = Kind(rawValue: "waiting")
        /// An attempt starts.
        public static let attemptStarted = Kind(rawValue: "attemptStarted")
        /// An attempt failed: see ``RetryEvent/failure``.
        public static let attemptFailed = Kind(rawValue: "attemptFailed")
        /// The job waits before the next attempt: see ``RetryEvent/delay``.
        ///
        /// Not told if it waits for the network instead, or starts again at once.
        public static let backingOff = Kind(rawValue: "backingOff")
        /// The job has its result: the end.
        public static let succeeded = Kind(rawValue: "succeeded")
        /// The job gave up: the end; see ``RetryEvent/report``.
        public static let gaveUp = Kind(rawValue: "gaveUp")
        /// The job was cancelled: the end.
        public static let cancelled = Kind(rawValue: "cancelled")
    }

    /// What let an attempt start.
    ///
    /// More may be added.
    public struct Trigger: RawRepresentable, Hashable, Sendable {
        /// The stable name.
        public let rawValue: String
        /// Makes a trigger from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The job is new, and nothing but its turn was waited for.
        public static let first = Trigger(rawValue: "first")
        /// The delay after a failure was over, or there was none.
        public static let timer = Trigger(rawValue: "timer")
        /// The network came back, or changed.
        public static let reconnect = Trigger(rawValue: "reconnect")
        /// Another condition of the job became satisfied.
        public static let condition = Trigger(rawValue: "condition")
        /// Somebody asked to retry now: see ``RetryBus/retryNow(_:ignoringServerDelays:)``.
        public static let retryNow = Trigger(rawValue: "retryNow")
    }

    /// Something that a job waits for.
    public enum Unmet: Hashable, Sendable {
        /// A path of the network, to this scope.
        case network(Scope)
        /// Another condition, by its name.
        case condition(String)
    }

    /// Why an attempt failed.
    public struct Failure: Sendable {
        /// The operation's error.
        public var error: any Error
        /// The party that it was due to, as the bus sees it.
        public var fault: AttemptFailure.Fault
        /// If false, the error ended the job.
        public var mayRetry: Bool
        /// Whether it counts as one of the attempts that the policy allows.
        public var isCharged: Bool
    }

    /// What happened.
    public var kind: Kind
    /// To which job.
    public var job: JobID
    /// What the job wants to reach.
    public var scope: Scope
    /// The server or resource that the job talks to, if the caller named it.
    public var destination: String?
    /// How many attempts have been started.
    public var attempt: Int
    /// How long the job has waited for the network or another condition so far.
    public var waited: Duration
    /// When, on the bus's clock: the time since the bus was made.
    public var at: Duration
    /// What the job waits for, the network first; only with ``Kind/waiting``.
    public var unmet: [Unmet] = []
    /// What let the attempt start; only with ``Kind/attemptStarted``.
    public var trigger: Trigger?
    /// How much later the attempt would have started if its backoff had not ended early; only with ``Kind/attemptStarted``, and if
    /// a reconnect, a condition or ``RetryBus/retryNow(_:ignoringServerDelays:)`` ended it.
    public var saved: Duration?
    /// How long after the reconnect that the job waited for the attempt starts; only with ``Kind/attemptStarted``, and
    /// ``Trigger/reconnect``.
    ///
    /// `nil` for an attempt that follows one that was running when the network came back.
    public var sinceReconnect: Duration?
    /// Why the attempt failed; only with ``Kind/attemptFailed``.
    public var failure: Failure?
    /// How long the job waits unless a reconnect comes first; only with ``Kind/backingOff``.
    public var delay: Duration?
    /// How it went; only with ``Kind/gaveUp``.
    public var report: GiveUp?
}

extension RetryEvent.Unmet: CustomStringConvertible {
    /// In words: `the network`, `a way to 192.0.2.1`, `condition 'login'`.
    public var description: String {
        switch self {
        case .network(.internet): "the network"
        case .network(let scope): "a way to \(scope)"
        case .condition(let name): "condition '\(name)'"
        }
    }
}
