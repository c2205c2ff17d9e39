/// The story of a job that gave up.
///
/// Told by ``RetryPolicy/onGiveUp(_:)`` and ``RetryEvent/story``. Jobs that succeed or are cancelled have none.
public struct GiveUp: Sendable {
    /// Why a job gave up.
    ///
    /// More may be added.
    public struct Reason: RawRepresentable, Hashable, Sendable {
        /// The stable name.
        public let rawValue: String
        /// Makes a reason from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The error was permanent.
        public static let permanent = Reason(rawValue: "permanent")
        /// As many attempts were charged as the policy allows.
        public static let attempts = Reason(rawValue: "attempts")
        /// The budget that the job shares with others denied another attempt.
        public static let budget = Reason(rawValue: "budget")
        /// The time that the policy gave the job was over, or would have been before the server's order allowed another attempt.
        public static let deadline = Reason(rawValue: "deadline")
        /// The network stayed away for longer than the policy waits.
        public static let waitLimit = Reason(rawValue: "waitLimit")
        /// A condition ended without being satisfied.
        public static let conditionEnded = Reason(rawValue: "conditionEnded")
        /// The bus was shut down.
        public static let shutDown = Reason(rawValue: "shutDown")
    }

    /// The job.
    public var job: JobID
    /// Why it gave up.
    public var reason: Reason
    /// How many attempts were started.
    public var attempts: Int
    /// How many of them were charged.
    public var charged: Int
    /// How many of them the network broke off.
    public var connectivityFailures: Int
    /// How long the job waited for the network or other conditions, backoff not included.
    public var waited: Duration
    /// How long it lasted in all, from its submission.
    public var elapsed: Duration
    /// Why the last attempt failed; `nil` if there was none.
    public var lastError: (any Error)?
}
