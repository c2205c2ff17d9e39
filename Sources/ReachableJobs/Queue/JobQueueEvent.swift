/// A change that this process made or saw in a queue.
public struct JobQueueEvent: Sendable {
    /// The kind of a change.
    public enum Kind: Sendable {
        /// A job was pushed by this process.
        case pushed(PushReceipt.Outcome)
        /// An attempt with this number starts.
        case attemptStarted(Int)
        /// The job succeeded, and its store knows it.
        case succeeded
        /// The job gave up for a reason, with the text of its last failure.
        case failed(reason: String, String?)
        /// The job was cancelled.
        case cancelled
        /// An attempt failed with this text, and the job runs again.
        case willRetry(String?)
        /// A result was too late: the job belongs to another claim.
        case refused
        /// The store fails with an error, or works again (`nil`).
        case storeFailed(JobStoreError?)
    }

    /// The change.
    public var kind: Kind
    /// The job; `nil` for changes of the store.
    public var job: DurableJobID?

    init(_ kind: Kind, _ job: DurableJobID?) { (self.kind, self.job) = (kind, job) }

    /// `nil` for a job that was given back.
    init?(_ result: AttemptResult) {
        job = result.ticket.id
        switch result.outcome {
        case .succeeded: kind = .succeeded
        case .failed(let reason): kind = .failed(reason: reason, result.error)
        case .cancelled: kind = .cancelled
        case .again: kind = .willRetry(result.error)
        case .givenBack: return nil
        }
    }
}
