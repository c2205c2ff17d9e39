internal import ReachableRetry

/// The part that a worker knows of why jobs do not run: its claims, and its way to the network.
struct WorkerOutlook: Sendable {
    /// A part of a way that is not there.
    enum Unmet: Hashable, Sendable {
        /// The network; with its words.
        case network(String)
        /// A condition, by its name.
        case condition(String)
    }

    /// The worker in its store; `nil` before it is registered.
    var worker: WorkerID?
    /// True if it claims no more jobs.
    var isEnding = false
    /// The registered kinds.
    var kinds: [String: QueueCore.Kind] = [:]
    /// The number of jobs of each kind that it has claimed.
    var held: [String: Int] = [:]
    /// The claimed jobs that wait until no other one runs.
    var lonely: Set<DurableJobID> = []
    /// The claimed job that runs alone, so that no other is claimed.
    var alone: DurableJobID?
    /// True if it has claimed as many jobs as it may.
    var isFull = false
    /// The store's times of the last reconnects, which void the backoff of earlier network failures.
    var edges: [QueueCore.Reach: StoreInstant] = [:]
    /// The missing parts of each way, the network first.
    var unmet: [QueueCore.Reach: [Unmet]] = [:]
    /// The claimed jobs that are on the bus.
    var onBus: [DurableJobID: PendingJob] = [:]
}
