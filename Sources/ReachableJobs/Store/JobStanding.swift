/// The part that a store knows of why a job does not run: the answer of ``JobStore/explain(_:)``.
///
/// It is one moment's view. What only a worker knows, such as the network and the registered kinds, is not in it.
public struct JobStanding: Hashable, Sendable, Identifiable {
    /// Another job with one of the job's keys, which has to end or to be released first.
    public struct Blocker: Hashable, Sendable {
        /// The key that both jobs have.
        public enum Key: String, Hashable, Sendable {
            /// ``DurableJob/serialKey``.
            case serial
            /// ``DurableJob/uniqueKey``.
            case unique
        }

        /// The other job.
        public var id: DurableJobID
        /// The state of the other job; `failed` if it failed for good, and blocks until it is retried or cancelled.
        public var state: DurableJob.State
        /// The key.
        public var key: Key

        /// Creates a blocker.
        public init(id: DurableJobID, state: DurableJob.State, key: Key) { (self.id, self.state, self.key) = (id, state, key) }
    }

    /// The job with an empty payload: the answer is meant to be shown.
    public var job: DurableJob
    /// The node that the backoff of a network failure binds; `nil` if it binds all nodes, has ended, or there is none.
    public var boundNode: String?
    /// The workers with a valid lease that could not decode the payload, and do not claim the job again; empty unless the job is
    /// available.
    public var undecodableBy: Set<WorkerID>
    /// True if the job's queue is paused.
    public var isPaused: Bool
    /// The number of workers of the job's queue whose lease is valid.
    public var workers: Int
    /// The end of a server's order for the job's destination; `nil` if there is none in the future.
    public var holdUntil: StoreInstant?
    /// The first job that it waits for, of each key; empty unless the job is available.
    public var blockers: [Blocker]
    /// The worker that has claimed it; `nil` unless the job is running.
    public var worker: WorkerID?
    /// True if the attempt of the present claim has started.
    public var isStarted: Bool
    /// The store's time.
    public var now: StoreInstant

    /// The job's identity.
    public var id: DurableJobID { job.id }

    /// Creates an answer.
    public init(
        job: DurableJob, isPaused: Bool, workers: Int, holdUntil: StoreInstant?, blockers: [Blocker], worker: WorkerID?,
        isStarted: Bool, now: StoreInstant, boundNode: String? = nil, undecodableBy: Set<WorkerID> = []
    ) {
        (self.job, self.isPaused, self.workers, self.holdUntil) = (job, isPaused, workers, holdUntil)
        (self.blockers, self.worker, self.isStarted, self.now) = (blockers, worker, isStarted, now)
        (self.boundNode, self.undecodableBy) = (boundNode, undecodableBy)
    }
}
