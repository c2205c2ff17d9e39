internal import Reachability

/// The error of a job that ended without a result and without an error of its operation.
///
/// ``RetryBus/retry(_:to:options:isolation:operation:)`` throws it if no attempt was made, if time cut the last one, or if the
/// bus rejected the job. Its description names a remedy.
public struct RetryError: Error, Hashable, Sendable {
    /// The reason of the end of a job or an attempt.
    ///
    /// More may be added.
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The stable name.
        public let rawValue: String
        /// Creates a code from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The job's deadline passed.
        public static let deadline = Code(rawValue: "deadline")
        /// The machine was offline for longer than the policy waits.
        public static let waitLimit = Code(rawValue: "waitLimit")
        /// A condition of the job ended without being satisfied.
        public static let conditionEnded = Code(rawValue: "conditionEnded")
        /// The attempt exceeded the policy's timeout.
        public static let attemptTimedOut = Code(rawValue: "attemptTimedOut")
        /// The bus cut the attempt after a loss, as the policy demands.
        ///
        /// A job ends with it if the attempt may not be repeated.
        public static let attemptInterrupted = Code(rawValue: "attemptInterrupted")
        /// The budget of the policy denied another attempt.
        ///
        /// A job that gives up for this reason throws its operation's last error.
        public static let budget = Code(rawValue: "budget")
        /// A job of the same name is pending.
        public static let duplicateID = Code(rawValue: "duplicateID")
        /// The bus was shut down.
        public static let shutDown = Code(rawValue: "shutDown")
    }

    /// The reason.
    public var code: Code

    /// Creates an error.
    public init(_ code: Code) { self.code = code }

    /// The job's deadline passed.
    public static let deadline = RetryError(.deadline)
    /// The machine was offline for longer than the policy waits.
    public static let waitLimit = RetryError(.waitLimit)
    /// A condition of the job ended without being satisfied.
    public static let conditionEnded = RetryError(.conditionEnded)
    /// The attempt exceeded the policy's timeout.
    public static let attemptTimedOut = RetryError(.attemptTimedOut)
    /// The bus cut the attempt after a loss.
    public static let attemptInterrupted = RetryError(.attemptInterrupted)
    /// The budget of the policy denied another attempt.
    public static let budget = RetryError(.budget)
    /// A job of the same name is pending.
    public static let duplicateID = RetryError(.duplicateID)
    /// The bus was shut down.
    public static let shutDown = RetryError(.shutDown)
}

extension RetryError {
    /// True for the errors of attempts that the bus cut.
    package var isCut: Bool { self == .attemptTimedOut || self == .attemptInterrupted }
}

extension RetryError: CustomStringConvertible {
    /// The reason and a remedy.
    public var description: String {
        switch code {
        case .deadline: "The time for the job was over. Allow more: RetryPolicy.giveUpAfter(elapsed:)."
        case .waitLimit: "The network stayed away for too long. Wait longer: RetryPolicy.connectivity(.wait(upTo:))."
        case .conditionEnded: "A condition of the job ended without being satisfied. Submit the job again when it can be."
        case .attemptTimedOut: "The attempt took too long. Allow more: RetryPolicy.attemptTimeout(_:)."
        case .attemptInterrupted:
            "The network was lost during an attempt that must not be repeated. See if it was carried out, then submit it again."
        case .budget: "The retry budget was spent. Wait until the server is well, or allow more: RetryPolicy.budget(_:)."
        case .duplicateID: "A job of the same name is pending. Cancel that one first: RetryBus.cancel(_:)."
        case .shutDown: "The bus was shut down. Create another one."
        default: "The job ended: \(code.rawValue)."
        }
    }
}

/// The report of a job that gave up.
///
/// Comes with ``RetryPolicy/onGiveUp(_:)`` and ``RetryEvent/report``, and as an error with ``RetryPolicy/throwsReport()``. Jobs
/// that succeed or are cancelled have none.
public struct GiveUp: Error, Sendable {
    /// The reason for giving up.
    ///
    /// More may be added.
    public struct Reason: RawRepresentable, Hashable, Sendable {
        /// The stable name.
        public let rawValue: String
        /// Creates a reason from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The error was permanent.
        public static let permanent = Reason(rawValue: "permanent")
        /// The policy's limit of charged attempts was reached.
        public static let attempts = Reason(rawValue: "attempts")
        /// The budget that the job shares with others denied another attempt.
        public static let budget = Reason(rawValue: "budget")
        /// The job's deadline passed, or a server ordered a delay beyond it.
        public static let deadline = Reason(rawValue: "deadline")
        /// The machine was offline for longer than the policy waits.
        public static let waitLimit = Reason(rawValue: "waitLimit")
        /// A condition ended without being satisfied.
        public static let conditionEnded = Reason(rawValue: "conditionEnded")
        /// The bus was shut down.
        public static let shutDown = Reason(rawValue: "shutDown")
    }

    /// The job.
    public var job: JobID
    /// The reason for giving up.
    public var reason: Reason
    /// The number of started attempts.
    public var attempts: Int
    /// The number of charged attempts.
    public var charged: Int
    /// The number of attempts that the network broke.
    public var networkFailures: Int
    /// The time that the job waited for the network or other conditions, without backoff.
    public var waited: Duration
    /// The time since its submission.
    public var elapsed: Duration
    /// The error of the last attempt; `nil` if there was none.
    public var lastError: (any Error)?
}

extension GiveUp: CustomStringConvertible {
    /// The report as text, with the last error's description.
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

extension GiveUp {
    /// Creates the report of a job that ended elsewhere.
    package init(of job: JobID, reason: Reason, past: JobPast) {
        self.init(
            job: job, reason: reason, attempts: past.started, charged: past.charged, networkFailures: past.networkFailures,
            waited: .zero, elapsed: past.elapsed)
    }
}
