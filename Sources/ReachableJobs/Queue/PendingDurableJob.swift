/// A durable job with the reasons why it is not running.
///
/// A snapshot. The reasons that only a worker knows, such as the network, are included if this process runs the queue.
public struct PendingDurableJob: Sendable, Identifiable {
    /// A reason why a job is not running.
    public struct Reason: Hashable, Sendable {
        /// The kind of a reason.
        ///
        /// More may be added.
        public struct Kind: RawRepresentable, Hashable, Sendable {
            /// The stable name.
            public let rawValue: String
            /// Creates a kind from its name.
            public init(rawValue: String) { self.rawValue = rawValue }

            /// The queue is paused.
            public static let paused = Kind(rawValue: "paused")
            /// No worker runs the queue.
            public static let worker = Kind(rawValue: "worker")
            /// A worker of another process runs the queue, and only that one knows more.
            public static let otherWorker = Kind(rawValue: "otherWorker")
            /// Another worker has claimed the job, and has not started it.
            public static let claimed = Kind(rawValue: "claimed")
            /// Waits for ``Reason/job``, which has the same key.
            public static let blocked = Kind(rawValue: "blocked")
            /// This process's worker has not registered the kind or the version, or cannot read the scope.
            public static let unregistered = Kind(rawValue: "unregistered")
            /// This process's worker cannot decode the payload.
            public static let undecodable = Kind(rawValue: "undecodable")
            /// The job's life has not begun.
            public static let notDue = Kind(rawValue: "notDue")
            /// Waits after a failure.
            public static let backingOff = Kind(rawValue: "backingOff")
            /// Waits because a server ordered it, for the job or for its destination.
            public static let serverDelay = Kind(rawValue: "serverDelay")
            /// The scope is not reachable.
            public static let network = Kind(rawValue: "network")
            /// A condition is not satisfied.
            public static let condition = Kind(rawValue: "condition")
            /// Waits for its turn, perhaps because of a limit or of a job that runs alone.
            public static let queued = Kind(rawValue: "queued")
            /// Waits on the retry bus: its gate, a limit or a budget.
            public static let bus = Kind(rawValue: "bus")
        }

        /// The kind.
        public var kind: Kind
        /// The reason as text: `waits for the network: eth0 has no carrier (noCarrier)`.
        ///
        /// It may contain the last error's text and the caller's names, but no payload. The wording may change with any release.
        public var words: String
        /// The time that is left, if time ends it; a reconnect ends the backoff of a network failure earlier.
        public var delay: Duration?
        /// The job that it waits for.
        public var job: DurableJobID?

        init(_ kind: Kind, _ words: String, delay: Duration? = nil, job: DurableJobID? = nil) {
            (self.kind, self.words, self.delay, self.job) = (kind, words, delay, job)
        }
    }

    /// The job with an empty payload.
    public var job: DurableJob
    /// The reasons, the most decisive first; empty if the job is running or has ended.
    public var reasons: [Reason]
    /// The worker that has claimed it, one of ``JobQueue/workers``; `nil` unless the job is running.
    public var worker: WorkerID?

    /// The job's identity.
    public var id: DurableJobID { job.id }
    /// The reasons as text.
    public var waitingFor: [String] { reasons.map(\.words) }
    /// The time after which no delay holds the job back; `nil` if none does now.
    ///
    /// The job may wait longer, for reasons without a time.
    public var startsIn: Duration? { reasons.compactMap(\.delay).max() }

    package let now: StoreInstant

    init(_ explanation: JobExplanation, seenBy outlook: WorkerOutlook?, on node: String? = nil) {
        (job, worker, now) = (explanation.job, explanation.worker, explanation.now)
        reasons = ReasonFinder(explanation, seenBy: outlook, on: node).reasons
    }
}

extension PendingDurableJob: CustomStringConvertible {
    /// The reasons in one text, or the state of a job that is running or has ended.
    public var reason: String {
        switch job.state {
        case .available: waitingFor.joined(separator: ", and ")
        case .running where !reasons.isEmpty: waitingFor.joined(separator: ", and ")
        case .running: "attempt \(max(1, job.counters.started)) is running"
        case .succeeded: "succeeded"
        case .failed: "failed\(job.failureReason.map { ": \($0)" } ?? "")"
        case .cancelled: "cancelled"
        }
    }

    /// The job's identity and its ``reason``.
    public var description: String { "\(id): \(reason)" }
}

extension JobQueue {
    /// Returns why jobs are not running, in the order of the identities; jobs that the store does not have are left out.
    ///
    /// Reads the store once. In a process that does not run the queue, the answer has what the store alone knows.
    public func pending(_ ids: [DurableJobID]) async throws(JobStoreError) -> [PendingDurableJob] {
        let explanations = try await store.explain(ids).compactMap(\.self)
        // The bus's words cost more with each of its jobs.
        let outlook = worker?.outlook { outlook in explanations.contains { $0.worker == outlook.worker && !$0.isStarted } }
        return explanations.map {
            PendingDurableJob($0, seenBy: $0.job.queue == configuration.name ? outlook : nil, on: configuration.node)
        }
    }

    /// Returns why a job is not running, as text: an empty array if it is running, has ended or is unknown.
    ///
    /// ```
    /// waits for the network: eth0 has no carrier (noCarrier)
    /// ```
    public func waitingFor(_ id: DurableJobID) async throws(JobStoreError) -> [String] {
        try await pending([id]).first?.waitingFor ?? []
    }
}
