/// A job ended without a result, and not by an error of its operation.
///
/// What ``RetryBus/retry(_:to:options:isolation:operation:)`` throws if no attempt was made, if time cut the
/// last one short, or if the bus did not take the job. Its description says what can be done.
public struct RetryError: Error, Hashable, Sendable {
    /// Why a job ended, or an attempt.
    ///
    /// More may be added.
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The stable name.
        public let rawValue: String
        /// Makes a code from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The time that the policy gave the job was over.
        public static let deadline = Code(rawValue: "deadline")
        /// The network stayed away for longer than the policy waits.
        public static let waitLimit = Code(rawValue: "waitLimit")
        /// A condition of the job ended without being satisfied.
        public static let conditionEnded = Code(rawValue: "conditionEnded")
        /// The attempt took longer than the policy allows.
        public static let attemptTimedOut = Code(rawValue: "attemptTimedOut")
        /// What the job needs was lost during the attempt, which the bus ended because the policy says so.
        ///
        /// A job ends with it if the attempt may not be repeated.
        public static let attemptInterrupted = Code(rawValue: "attemptInterrupted")
        /// The budget of the policy denied another attempt.
        ///
        /// A job that gives up for this reason throws its operation's last error, which there always is.
        public static let budget = Code(rawValue: "budget")
        /// A job of the same name is pending.
        public static let duplicateID = Code(rawValue: "duplicateID")
        /// The bus takes no more jobs.
        public static let shutDown = Code(rawValue: "shutDown")
    }

    /// Why.
    public var code: Code

    /// Makes an error.
    public init(_ code: Code) { self.code = code }

    /// The time that the policy gave the job was over.
    public static let deadline = RetryError(.deadline)
    /// The network stayed away for longer than the policy waits.
    public static let waitLimit = RetryError(.waitLimit)
    /// A condition of the job ended without being satisfied.
    public static let conditionEnded = RetryError(.conditionEnded)
    /// The attempt took longer than the policy allows.
    public static let attemptTimedOut = RetryError(.attemptTimedOut)
    /// What the job needs was lost during the attempt, which the bus ended.
    public static let attemptInterrupted = RetryError(.attemptInterrupted)
    /// The budget of the policy denied another attempt.
    public static let budget = RetryError(.budget)
    /// A job of the same name is pending.
    public static let duplicateID = RetryError(.duplicateID)
    /// The bus takes no more jobs.
    public static let shutDown = RetryError(.shutDown)
}

extension RetryError {
    /// If true, it stands for an attempt that the bus cut.
    var isCut: Bool { self == .attemptTimedOut || self == .attemptInterrupted }
}

extension RetryError: CustomStringConvertible {
    /// What happened, and what can be done about it.
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
/// Comes with ``RetryPolicy/onGiveUp(_:)`` and ``RetryEvent/report``, and as an error with ``RetryPolicy/throwsReport()``.
/// Jobs that
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
