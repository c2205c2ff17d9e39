#if SQLite
import ReachabilityTesting
import ReachableJobs

/// A SQLite store that counts its failures.
struct WatchedStore: JobStore {
    let store: SQLiteStore
    /// The errors of all calls, in their order.
    let failures = Rendezvous<[JobStoreError.Code]>([])

    private func watch<T: Sendable>(_ body: () async throws(JobStoreError) -> T) async throws(JobStoreError) -> T {
        do throws(JobStoreError) {
            return try await body()
        } catch {
            failures.change { $0.append(error.code) }
            throw error
        }
    }

    func push(_ jobs: [NewJob], limit: Int?) async throws(JobStoreError) -> [PushReceipt] {
        try await watch { () throws(JobStoreError) in try await store.push(jobs, limit: limit) }
    }
    func register(queue: String, node: String) async throws(JobStoreError) -> WorkerID {
        try await watch { () throws(JobStoreError) in try await store.register(queue: queue, node: node) }
    }
    func unregister(_ worker: WorkerID) async throws(JobStoreError) {
        try await watch { () throws(JobStoreError) in try await store.unregister(worker) }
    }
    func extend(_ worker: WorkerID) async throws(JobStoreError) -> WorkerStatus {
        try await watch { () throws(JobStoreError) in try await store.extend(worker) }
    }
    func status(of worker: WorkerID) async throws(JobStoreError) -> WorkerStatus {
        try await watch { () throws(JobStoreError) in try await store.status(of: worker) }
    }
    func claim(_ request: ClaimRequest) async throws(JobStoreError) -> Claims {
        try await watch { () throws(JobStoreError) in try await store.claim(request) }
    }
    func expire(queue: String, limit: Int) async throws(JobStoreError) -> ExpiredJobs {
        try await watch { () throws(JobStoreError) in try await store.expire(queue: queue, limit: limit) }
    }
    func start(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [Bool] {
        try await watch { () throws(JobStoreError) in try await store.start(tickets, by: worker) }
    }
    func finish(_ results: [AttemptResult], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        try await watch { () throws(JobStoreError) in try await store.finish(results, by: worker) }
    }
    func giveBack(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        try await watch { () throws(JobStoreError) in try await store.giveBack(tickets, by: worker) }
    }
    func cancel(_ ids: [DurableJobID]) async throws(JobStoreError) -> [CancelOutcome] {
        try await watch { () throws(JobStoreError) in try await store.cancel(ids) }
    }
    func retry(_ ids: [DurableJobID], limit: Int?) async throws(JobStoreError) -> [RetryOutcome] {
        try await watch { () throws(JobStoreError) in try await store.retry(ids, limit: limit) }
    }
    func endBackoff(_ ids: [DurableJobID]) async throws(JobStoreError) -> [Bool] {
        try await watch { () throws(JobStoreError) in try await store.endBackoff(ids) }
    }
    func setPaused(_ isPaused: Bool, queue: String) async throws(JobStoreError) {
        try await watch { () throws(JobStoreError) in try await store.setPaused(isPaused, queue: queue) }
    }
    func find(_ filter: JobFilter) async throws(JobStoreError) -> [DurableJob] {
        try await watch { () throws(JobStoreError) in try await store.find(filter) }
    }
    func explain(_ ids: [DurableJobID]) async throws(JobStoreError) -> [JobExplanation?] {
        try await watch { () throws(JobStoreError) in try await store.explain(ids) }
    }
    func workers(of queue: String?) async throws(JobStoreError) -> [RegisteredWorker] {
        try await watch { () throws(JobStoreError) in try await store.workers(of: queue) }
    }
    func count(queue: String) async throws(JobStoreError) -> [JobCount] {
        try await watch { () throws(JobStoreError) in try await store.count(queue: queue) }
    }
    func prune(_ retention: Retention, limit: Int) async throws(JobStoreError) -> Int {
        try await watch { () throws(JobStoreError) in try await store.prune(retention, limit: limit) }
    }
    func changes() -> AsyncStream<Void> { store.changes() }
    var nodeTime: Int64 { store.nodeTime }
    var executor: (any TaskExecutor)? { store.executor }
}
#endif
