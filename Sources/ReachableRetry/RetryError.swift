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
