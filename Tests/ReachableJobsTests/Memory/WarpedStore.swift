import ReachableJobs

/// A memory store with replaceable methods.
struct WarpedStore: JobStore {
    let store: MemoryStore
    var pushing: @Sendable ([NewJob], Int?) async throws(JobStoreError) -> [PushReceipt]
    var registering: @Sendable (String, String) async throws(JobStoreError) -> WorkerID
    var unregistering: @Sendable (WorkerID) async throws(JobStoreError) -> Void
    var extending: @Sendable (WorkerID) async throws(JobStoreError) -> WorkerStatus
    var claiming: @Sendable (ClaimRequest) async throws(JobStoreError) -> Claims
    var expiring: @Sendable (String, Int) async throws(JobStoreError) -> ExpiredJobs
    var starting: @Sendable ([JobTicket], WorkerID) async throws(JobStoreError) -> [Bool]
    var finishing: @Sendable ([AttemptResult], WorkerID) async throws(JobStoreError) -> [FinishOutcome]
    var givingBack: @Sendable ([JobTicket], WorkerID) async throws(JobStoreError) -> [FinishOutcome]
    var cancelling: @Sendable ([DurableJobID]) async throws(JobStoreError) -> [CancelOutcome]
    var retrying: @Sendable ([DurableJobID], Int?) async throws(JobStoreError) -> [RetryOutcome]
    var hurrying: @Sendable ([DurableJobID]) async throws(JobStoreError) -> [Bool]
    var pausing: @Sendable (Bool, String) async throws(JobStoreError) -> Void
    var finding: @Sendable (JobFilter) async throws(JobStoreError) -> [DurableJob]
    var explaining: @Sendable ([DurableJobID]) async throws(JobStoreError) -> [JobExplanation?]
    var listing: @Sendable (String?) async throws(JobStoreError) -> [RegisteredWorker]
    var counting: @Sendable (String) async throws(JobStoreError) -> [JobCount]
    var pruning: @Sendable (Retention, Int) async throws(JobStoreError) -> Int
    var hinting: @Sendable () -> AsyncStream<Void>

    init(_ store: MemoryStore) {
        self.store = store
        pushing = { (jobs, limit) throws(JobStoreError) in try await store.push(jobs, limit: limit) }
        registering = { (queue, node) throws(JobStoreError) in try await store.register(queue: queue, node: node) }
        unregistering = { (worker) throws(JobStoreError) in try await store.unregister(worker) }
        extending = { (worker) throws(JobStoreError) in try await store.extend(worker) }
        claiming = { (request) throws(JobStoreError) in try await store.claim(request) }
        expiring = { (queue, limit) throws(JobStoreError) in try await store.expire(queue: queue, limit: limit) }
        starting = { (tickets, worker) throws(JobStoreError) in try await store.start(tickets, by: worker) }
        finishing = { (results, worker) throws(JobStoreError) in try await store.finish(results, by: worker) }
        givingBack = { (tickets, worker) throws(JobStoreError) in try await store.giveBack(tickets, by: worker) }
        cancelling = { (ids) throws(JobStoreError) in try await store.cancel(ids) }
        retrying = { (ids, limit) throws(JobStoreError) in try await store.retry(ids, limit: limit) }
        hurrying = { (ids) throws(JobStoreError) in try await store.endBackoff(ids) }
        pausing = { (isPaused, queue) throws(JobStoreError) in try await store.setPaused(isPaused, queue: queue) }
        finding = { (filter) throws(JobStoreError) in try await store.find(filter) }
        explaining = { (ids) throws(JobStoreError) in try await store.explain(ids) }
        listing = { (queue) throws(JobStoreError) in try await store.workers(of: queue) }
        counting = { (queue) throws(JobStoreError) in try await store.count(queue: queue) }
        pruning = { (retention, limit) throws(JobStoreError) in try await store.prune(retention, limit: limit) }
        hinting = { store.changes() }
    }

    func push(_ jobs: [NewJob], limit: Int?) async throws(JobStoreError) -> [PushReceipt] { try await pushing(jobs, limit) }
    func register(queue: String, node: String) async throws(JobStoreError) -> WorkerID {
        try await registering(queue, node)
    }
    func unregister(_ worker: WorkerID) async throws(JobStoreError) { try await unregistering(worker) }
    func extend(_ worker: WorkerID) async throws(JobStoreError) -> WorkerStatus { try await extending(worker) }
    func status(of worker: WorkerID) async throws(JobStoreError) -> WorkerStatus { try await store.status(of: worker) }
    func claim(_ request: ClaimRequest) async throws(JobStoreError) -> Claims { try await claiming(request) }
    func expire(queue: String, limit: Int) async throws(JobStoreError) -> ExpiredJobs { try await expiring(queue, limit) }
    func start(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [Bool] {
        try await starting(tickets, worker)
    }
    func finish(_ results: [AttemptResult], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        try await finishing(results, worker)
    }
    func giveBack(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        try await givingBack(tickets, worker)
    }
    func cancel(_ ids: [DurableJobID]) async throws(JobStoreError) -> [CancelOutcome] { try await cancelling(ids) }
    func retry(_ ids: [DurableJobID], limit: Int?) async throws(JobStoreError) -> [RetryOutcome] {
        try await retrying(ids, limit)
    }
    func endBackoff(_ ids: [DurableJobID]) async throws(JobStoreError) -> [Bool] { try await hurrying(ids) }
    func setPaused(_ isPaused: Bool, queue: String) async throws(JobStoreError) { try await pausing(isPaused, queue) }
    func find(_ filter: JobFilter) async throws(JobStoreError) -> [DurableJob] { try await finding(filter) }
    func explain(_ ids: [DurableJobID]) async throws(JobStoreError) -> [JobExplanation?] { try await explaining(ids) }
    func workers(of queue: String?) async throws(JobStoreError) -> [RegisteredWorker] { try await listing(queue) }
    func count(queue: String) async throws(JobStoreError) -> [JobCount] { try await counting(queue) }
    func prune(_ retention: Retention, limit: Int) async throws(JobStoreError) -> Int { try await pruning(retention, limit) }
    func changes() -> AsyncStream<Void> { hinting() }
    var nodeTime: Int64 { store.nodeTime }

    // MARK: - Changes of arguments

    /// Changes each job before it is pushed.
    func changingPushed(_ change: @escaping @Sendable (inout NewJob) -> Void) -> WarpedStore {
        var copy = self
        copy.pushing = { [pushing] (jobs, limit) throws(JobStoreError) in
            var jobs = jobs
            for index in jobs.indices { change(&jobs[index]) }
            return try await pushing(jobs, limit)
        }
        return copy
    }

    /// Changes each result before it is recorded.
    func changingResults(_ change: @escaping @Sendable (inout AttemptResult) -> Void) -> WarpedStore {
        var copy = self
        copy.finishing = { [finishing] (results, worker) throws(JobStoreError) in
            var results = results
            for index in results.indices { change(&results[index]) }
            return try await finishing(results, worker)
        }
        return copy
    }

    /// Changes each request for jobs.
    func changingRequests(_ change: @escaping @Sendable (inout ClaimRequest) -> Void) -> WarpedStore {
        var copy = self
        copy.claiming = { [claiming] (request) throws(JobStoreError) in
            var request = request
            change(&request)
            return try await claiming(request)
        }
        return copy
    }

    /// Changes each answer to a claim.
    func changingClaims(_ change: @escaping @Sendable (inout Claims) -> Void) -> WarpedStore {
        var copy = self
        copy.claiming = { [claiming] (request) throws(JobStoreError) in
            var claims = try await claiming(request)
            change(&claims)
            return claims
        }
        return copy
    }

    /// Changes each explanation.
    func changingExplanations(_ change: @escaping @Sendable (inout JobExplanation) -> Void) -> WarpedStore {
        var copy = self
        copy.explaining = { [explaining] (ids) throws(JobStoreError) in
            try await explaining(ids).map { explanation in
                guard var explanation else { return nil }
                change(&explanation)
                return explanation
            }
        }
        return copy
    }

    /// Changes each worker that is listed.
    func changingListed(_ change: @escaping @Sendable (inout RegisteredWorker) -> Void) -> WarpedStore {
        var copy = self
        copy.listing = { [listing] (queue) throws(JobStoreError) in
            var workers = try await listing(queue)
            for index in workers.indices { change(&workers[index]) }
            return workers
        }
        return copy
    }

    /// Returns the job with an identity.
    func job(_ id: DurableJobID) async throws(JobStoreError) -> DurableJob? {
        var filter = JobFilter()
        filter.idPrefix = id.description
        return try await store.find(filter).first
    }
}
