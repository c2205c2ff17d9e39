public import Reachability

/// A job that has not ended: the answer to "why is it not running".
///
/// ``reason`` says it in words, the rest in numbers.
public struct PendingJob: Sendable, Identifiable {
    /// What a job is doing.
    ///
    /// More may be added.
    public struct State: RawRepresentable, Hashable, Sendable {
        /// The stable name.
        public let rawValue: String
        /// Makes a state from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// Waits for ``PendingJob/unmet``.
        public static let waiting = State(rawValue: "waiting")
        /// Nothing is missing: it waits for its turn, as ``ReleasePolicy`` and ``RetryBus/Configuration/maxConcurrent`` have it.
        public static let queued = State(rawValue: "queued")
        /// Waits for ``RetryBus/resume(_:)``.
        public static let paused = State(rawValue: "paused")
        /// Waits after a failure, for ``PendingJob/softDelay`` and ``PendingJob/hardDelay``.
        public static let backingOff = State(rawValue: "backingOff")
        /// An attempt is running.
        public static let running = State(rawValue: "running")
    }

    /// The job's name.
    public var id: JobID
    /// What it is doing.
    public var state: State
    /// What it wants to reach.
    public var scope: Scope
    /// The server or resource that it talks to, if the caller named it.
    public var destination: String?
    /// How it ranks.
    public var priority: JobPriority
    /// The names of the conditions that it waits for; the scope's is the scope's description.
    public var unmet: [String]
    /// How long it waits at most because of its own backoff, from now; a reconnect ends that early.
    ///
    /// `nil` if it does not. See ``RetryBus/retryNow(_:ignoringServerDelays:)``.
    public var softDelay: Duration?
    /// How long it waits at least because the server said so, from now; nothing ends that early.
    ///
    /// `nil` if nobody said so.
    public var hardDelay: Duration?
    /// How long it has until ``RetryPolicy/giveUpAfter(elapsed:)`` ends it, from now; `nil` if it may take any time.
    public var timeLeft: Duration?
    /// How many attempts have been started, the running one included.
    public var attempts: Int
    /// How many of them were charged.
    public var charged: Int
    /// How many of them the network broke off.
    public var networkFailures: Int
    /// Why the last attempt failed; `nil` if none has.
    public var lastError: (any Error)?

    /// Whether the scope is among what it waits for, and what is missing there, in words.
    var isScopeUnmet = false
    var missing: String?
    /// What keeps it in line, and for how long if that is known.
    var hold: Hold?
    var holdDelay: Duration?
    /// What numbers of the system its errors stand for.
    var errnoReaders: [@Sendable (any Error) -> Int32?] = []
}
