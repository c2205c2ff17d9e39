internal import ReachableRetry

/// The part that a worker knows of why jobs do not run: its claims, and the state of its network and conditions.
struct WorkerOutlook: Sendable {
    var worker: WorkerID?
    var isEnding = false
    var kinds: [String: QueueCore.Kind] = [:]
    var held: [String: Int] = [:]
    var lonely: Set<DurableJobID> = []
    /// The claimed job that runs alone, so that no other is claimed.
    var alone: DurableJobID?
    var isFull = false
    /// The node's times of the last edges, which end the backoff of earlier network failures, and of the worker's beginning.
    var edges: [QueueCore.KindScope: Int64] = [:]
    var began = Int64.min
    var undecodable: Set<DurableJobID> = []
    /// The things that the jobs of a kind and scope wait for, the network first.
    var unmet: [QueueCore.KindScope: [PendingDurableJob.Reason]] = [:]
    var onBus: [DurableJobID: PendingJob] = [:]
}
