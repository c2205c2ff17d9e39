/// A worker with a valid lease, as its store has it: the answer of ``JobQueue/workers``.
///
/// It is one moment's view, for people.
public struct RegisteredWorker: Hashable, Sendable, Identifiable {
    /// The worker's number.
    public var id: WorkerID
    /// The queue.
    public var queue: String
    /// The name of its machine and network: ``JobQueue/Configuration/node``.
    public var node: String
    /// The host name of its machine; `nil` if the store does not know it.
    public var host: String?
    /// The number of its process, in the process namespace of its machine; `nil` if the store does not know it.
    public var process: Int?
    /// The number of jobs that it has claimed.
    public var claims: Int
    /// The time since its last heartbeat.
    public var sinceHeartbeat: Duration
}
