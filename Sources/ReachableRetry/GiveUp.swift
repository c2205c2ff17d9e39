/// The report of a job that gave up.
///
/// Comes with ``RetryPolicy/onGiveUp(_:)`` and ``RetryEvent/report``, and as an error with ``RetryPolicy/throwsReport()``. Jobs that
/// succeed or are cancelled have none.
public struct GiveUp: Error, Sendable {
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
    public var networkFailures: Int
    /// How long the job waited for the network or other conditions, backoff not included.
    public var waited: Duration
    /// How long it lasted in all, from its submission.
    public var elapsed: Duration
    /// Why the last attempt failed; `nil` if there was none.
    public var lastError: (any Error)?
}

extension GiveUp: CustomStringConvertible {
    /// The report in words, with the last error as that describes itself.
    ///
    /// The wording may change with any release.
    public var description: String {
        let count = attempts == 1 ? "1 attempt" : "\(attempts) attempts"
        let wait = waited > .zero ? ", \(waited.words) of them waiting" : ""
        let error = lastError.map { "; the last error: \($0)" } ?? ""
        return "gave up after \(attempts == 0 ? "no attempt" : count) in \(elapsed.words)\(wait): \(cause)\(error)"
    }

    private var cause: String {
        switch reason {
        case .permanent: "the error is permanent"
        case .attempts: "as many attempts were charged as the policy allows"
        case .budget: "the retry budget is spent"
        case .deadline: "the time for the job was over"
        case .waitLimit: "the network stayed away for too long"
        case .conditionEnded: "a condition of the job ended without being satisfied"
        case .shutDown: "the bus was shut down"
        default: reason.rawValue
        }
    }
}
