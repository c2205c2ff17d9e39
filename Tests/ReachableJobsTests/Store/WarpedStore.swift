import ReachableJobs

/// A store in front of another one: a test observes its calls, and takes some of them over.
struct WarpedStore: JobStore {
    /// Called with the name of each method that returns or throws.
    var onReturn: @Sendable (_ method: String) async throws -> Void = { _ in }
    var onClaim: @Sendable (ClaimRequest) -> Void = { _ in }
    /// These are called instead of the store.
    var onPush: (@Sendable ([NewJob], Int?) async throws -> [PushReceipt])?
    var onFinish: (@Sendable ([AttemptResult], WorkerID) async throws -> [FinishOutcome])?
    var onChanges: (@Sendable () -> AsyncStream<Void>)?
    private let current: @Sendable () -> any JobStore
    private var store: any JobStore { current() }

    /// Wraps a store, which may be another one in each call.
    init(_ store: @escaping @autoclosure @Sendable () -> any JobStore) { current = store }

    private func call<Answer: Sendable>(
        _ method: String = #function, _ body: () async throws -> Answer
    ) async throws(JobStoreError) -> Answer {
        do {
            let result: Result<Answer, any Error>
            do { result = .success(try await body()) } catch { result = .failure(error) }
            try await onReturn(method)
            return try result.get()
        } catch {
            throw error as? JobStoreError ?? JobStoreError(.unavailable, "\(error)", next: "look at the test")
        }
    }

    func push(_ jobs: [NewJob], limit: Int?) async throws(JobStoreError) -> [PushReceipt] {
        let push = onPush ?? { try await store.push($0, limit: $1) }
        return try await call { try await push(jobs, limit) }
    }
    func register(queue: String, node: String) async throws(JobStoreError) -> WorkerID {
        try await call { try await store.register(queue: queue, node: node) }
    }
    func unregister(_ worker: WorkerID) async throws(JobStoreError) { try await call { try await store.unregister(worker) } }
    func extend(_ worker: WorkerID) async throws(JobStoreError) -> [JobTicket] {
        try await call { try await store.extend(worker) }
    }
    func claim(_ request: ClaimRequest) async throws(JobStoreError) -> Claims {
        onClaim(request)
        return try await call { try await store.claim(request) }
    }
    func expire(queue: String, limit: Int) async throws(JobStoreError) -> ExpiredJobs {
        try await call { try await store.expire(queue: queue, limit: limit) }
    }
    func start(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [Bool] {
        try await call { try await store.start(tickets, by: worker) }
    }
    func finish(_ results: [AttemptResult], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        let finish = onFinish ?? { try await store.finish($0, by: $1) }
        return try await call { try await finish(results, worker) }
    }
    func cancel(_ ids: [DurableJobID]) async throws(JobStoreError) -> [CancelOutcome] {
        try await call { try await store.cancel(ids) }
    }
    func retry(_ ids: [DurableJobID], limit: Int?) async throws(JobStoreError) -> [RetryOutcome] {
        try await call { try await store.retry(ids, limit: limit) }
    }
    func endBackoff(_ ids: [DurableJobID]) async throws(JobStoreError) -> [Bool] {
        try await call { try await store.endBackoff(ids) }
    }
    func setPaused(_ isPaused: Bool, queue: String) async throws(JobStoreError) {
        try await call { try await store.setPaused(isPaused, queue: queue) }
    }
    func find(_ filter: JobFilter) async throws(JobStoreError) -> [DurableJob] { try await call { try await store.find(filter) } }
    func explain(_ ids: [DurableJobID]) async throws(JobStoreError) -> [JobExplanation?] {
        try await call { try await store.explain(ids) }
    }
    func workers(of queue: String?) async throws(JobStoreError) -> [RegisteredWorker] {
        try await call { try await store.workers(of: queue) }
    }
    func count(queue: String) async throws(JobStoreError) -> [JobCount] {
        try await call { try await store.count(queue: queue) }
    }
    func prune(_ retention: Retention, limit: Int) async throws(JobStoreError) -> Int {
        try await call { try await store.prune(retention, limit: limit) }
    }
    func changes() -> AsyncStream<Void> { onChanges?() ?? store.changes() }
    var nodeTime: Int64 { store.nodeTime }
    var executor: (any TaskExecutor)? { store.executor }
}
