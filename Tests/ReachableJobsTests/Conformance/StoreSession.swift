import FoundationEssentials
import ReachableJobs
import Testing

/// Short calls for the check of one requirement on a store of its own.
///
/// The payload of each job is its name.
struct StoreSession: Sendable {
    /// The queue of most jobs, and their kind.
    static let (queue, kind) = ("mail", "send")

    let candidate: JobStoreConformance.Candidate
    var store: any JobStore { candidate.store }

    func expectError(
        _ code: JobStoreError.Code, sourceLocation: SourceLocation = #_sourceLocation, _ body: () async throws -> some Sendable
    ) async {
        let error = await storeError { _ = try await body() }
        #expect(error?.code == code, sourceLocation: sourceLocation)
    }

    /// Expects a hint in new streams of the store and its peer while a body runs or after it.
    func expectHints(sourceLocation: SourceLocation = #_sourceLocation, _ body: () async throws -> Void) async throws {
        let streams = [store.changes(), store.changes(), candidate.peer.changes()]
        try await body()
        // A stream without a hint ends with the test's time.
        for stream in streams { #expect(await stream.first { _ in true } != nil, sourceLocation: sourceLocation) }
    }

    // MARK: - Calls

    func job(_ name: String, _ change: (inout NewJob) -> Void = { _ in }) -> NewJob {
        var job = NewJob(queue: Self.queue, kind: Self.kind, payload: Data(name.utf8))
        change(&job)
        return job
    }

    @discardableResult
    func push(_ name: String, limit: Int? = nil, _ change: (inout NewJob) -> Void = { _ in }) async throws -> PushReceipt {
        try await push(job(name, change), limit: limit)
    }

    @discardableResult
    func push(_ job: NewJob, limit: Int? = nil) async throws -> PushReceipt {
        try one(try await store.push([job], limit: limit))
    }

    func register(queue: String = StoreSession.queue, node: String = "node") async throws -> WorkerID {
        try await store.register(queue: queue, node: node)
    }

    /// Claims from the lanes that a condition selects.
    func claim(
        _ worker: WorkerID, _ limit: Int = 100, laneLimit: Int = .max, edge: Int64 = .min,
        from isOpen: (Lane) -> Bool = { _ in true }
    ) async throws -> Claims {
        let lanes = try await newLanes(of: worker)
        let open = lanes.filter(isOpen).map { ClaimRequest.Open(lane: $0.id, limit: laneLimit, edge: edge) }
        return try await store.claim(
            ClaimRequest(worker: worker, limit: limit, lanes: open, lastKnownLane: lanes.last?.id ?? 0))
    }

    /// Returns the lanes of a worker's queue behind one.
    func newLanes(of worker: WorkerID, after last: Lane.ID = 0) async throws -> [Lane] {
        try await store.claim(ClaimRequest(worker: worker, limit: 0, lanes: [], lastKnownLane: last)).newLanes
    }

    /// Claims; returns the names of the jobs.
    func names(
        _ worker: WorkerID, _ limit: Int = 100, laneLimit: Int = .max, edge: Int64 = .min,
        from isOpen: (Lane) -> Bool = { _ in true }
    ) async throws -> [String] {
        try await claim(worker, limit, laneLimit: laneLimit, edge: edge, from: isOpen).names
    }

    /// Claims the only job that may run.
    func claimOne(_ worker: WorkerID) async throws -> Claims.Claimed { try one(try await claim(worker).jobs) }

    func start(_ claimed: Claims.Claimed, by worker: WorkerID) async throws -> Bool {
        try one(try await store.start([claimed.ticket], by: worker))
    }

    /// Records a result; returns false if it is refused.
    @discardableResult
    func finish(
        _ claimed: Claims.Claimed, by worker: WorkerID, _ outcome: AttemptResult.Outcome, hold: Duration? = nil,
        error: String? = nil, _ change: (inout DurableJob.Counters) -> Void = { _ in }
    ) async throws -> Bool {
        var counters = claimed.job.counters
        change(&counters)
        let result = AttemptResult(claimed.ticket, outcome, counters: counters, error: error, holdsDestination: hold)
        return try one(try await store.finish([result], by: worker)) != .refused
    }

    @discardableResult
    func giveBack(_ jobs: [Claims.Claimed], by worker: WorkerID) async throws -> [FinishOutcome] {
        try await store.finish(jobs.map { .givenBack($0.ticket) }, by: worker)
    }

    @discardableResult
    func cancel(_ id: DurableJobID) async throws -> CancelOutcome { try one(try await store.cancel([id])) }

    @discardableResult
    func retry(_ id: DurableJobID) async throws -> RetryOutcome { try one(try await store.retry([id], limit: nil)) }

    func find(_ change: (inout JobFilter) -> Void = { _ in }) async throws -> [DurableJob] {
        var filter = JobFilter()
        change(&filter)
        return try await store.find(filter)
    }

    func found(_ id: DurableJobID) async throws -> DurableJob { try one(try await find { $0.idPrefix = id.description }) }

    func state(_ id: DurableJobID) async throws -> DurableJob.State { try await found(id).state }

    /// Lets time pass; the workers extend their leases meanwhile.
    func pass(_ duration: Duration, _ workers: WorkerID...) async throws {
        if workers.isEmpty { return try await candidate.passTime(duration) }
        var rest = duration
        while rest > .zero {
            try await candidate.passTime(min(rest, StoreLease.heartbeat))
            rest -= StoreLease.heartbeat
            for worker in workers { _ = try await store.extend(worker) }
        }
    }

    /// Returns the only answer of a call.
    private func one<Value>(_ values: [Value], sourceLocation: SourceLocation = #_sourceLocation) throws -> Value {
        try #require(values.count == 1, sourceLocation: sourceLocation)
        return values[0]
    }
}
