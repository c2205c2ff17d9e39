internal import FoundationEssentials
internal import ReachableJobs
internal import Synchronization

/// A check of one requirement on a store of its own: short calls, and findings as errors.
///
/// The payload of each job is its name, by which the findings call it.
final class StoreSession: Sendable {
    /// A violation.
    struct Finding: Error {
        var message: String
    }

    /// The candidate cannot do what the check needs.
    struct MissingMeans: Error {}

    /// The queue of most jobs, and their kind.
    static let (queue, kind) = ("mail", "send")

    let candidate: JobStoreConformance.Candidate
    /// The time limit for each expected hint.
    private let patience: Duration
    /// The lanes that each worker knows.
    private let lanes = Mutex<[WorkerID: [Lane]]>([:])

    init(_ candidate: JobStoreConformance.Candidate, _ patience: Duration) {
        (self.candidate, self.patience) = (candidate, patience)
    }

    var store: any JobStore { candidate.store }

    // MARK: - Expectations

    func expect(_ holds: Bool, _ message: @autoclosure () -> String) throws {
        if !holds { throw Finding(message: message()) }
    }

    func expect<Value: Equatable>(_ found: Value, is wanted: Value, _ what: @autoclosure () -> String) throws {
        if found != wanted { throw Finding(message: "\(what()): found \(found), expected \(wanted)") }
    }

    func expect<Value: Sendable>(
        _ code: JobStoreError.Code, from what: String, _ body: () async throws -> Value
    ) async throws {
        do {
            _ = try await body()
        } catch let error as JobStoreError where error.code == code {
            return
        }
        throw Finding(message: "\(what) did not throw `\(code.rawValue)`")
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
        try one(try await store.push([job], limit: limit), "push")
    }

    func register(queue: String = StoreSession.queue, node: String = "node") async throws -> WorkerID {
        try await store.register(queue: queue, node: node)
    }

    /// Claims from the lanes that a condition selects; all lanes stay named in each claim.
    func claim(
        _ worker: WorkerID, _ limit: Int = 100, laneLimit: Int = .max, edge: Int64 = .min,
        from isOpen: (Lane) -> Bool = { _ in true }
    ) async throws -> Claims {
        var known = lanes.withLock { $0[worker] ?? [] }
        func request(_ limit: Int) -> ClaimRequest {
            let opened = known.filter(isOpen).map { ClaimRequest.Open(lane: $0.id, limit: laneLimit, edge: edge) }
            return ClaimRequest(worker: worker, limit: limit, lanes: opened, lastKnownLane: known.last?.id ?? 0)
        }
        known += try await store.claim(request(0)).newLanes
        lanes.withLock { $0[worker] = known }
        return try await store.claim(request(limit))
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
        try await claim(worker, limit, laneLimit: laneLimit, edge: edge, from: isOpen).jobs.map(\.job.name)
    }

    /// Claims the only job that may run.
    func claimOne(_ worker: WorkerID) async throws -> Claims.Claimed { try one(try await claim(worker).jobs, "claim") }

    func start(_ claimed: Claims.Claimed, by worker: WorkerID) async throws -> Bool {
        try one(try await store.start([claimed.ticket], by: worker), "start")
    }

    @discardableResult
    func finish(
        _ claimed: Claims.Claimed, by worker: WorkerID, _ outcome: AttemptResult.Outcome, hold: Duration? = nil,
        error: String? = nil, _ change: (inout DurableJob.Counters) -> Void = { _ in }
    ) async throws -> Bool {
        var counters = claimed.job.counters
        change(&counters)
        let result = AttemptResult(claimed.ticket, outcome, counters: counters, error: error, holdsDestination: hold)
        return try one(try await store.finish([result], by: worker), "finish") != .refused
    }

    func cancel(_ id: DurableJobID) async throws -> CancelOutcome { try one(try await store.cancel([id]), "cancel") }

    func retry(_ id: DurableJobID) async throws -> RetryOutcome { try one(try await store.retry([id], limit: nil), "retry") }

    func find(_ change: (inout JobFilter) -> Void = { _ in }) async throws -> [DurableJob] {
        var filter = JobFilter()
        change(&filter)
        return try await store.find(filter)
    }

    func found(_ id: DurableJobID) async throws -> DurableJob {
        try one(try await find { $0.idPrefix = id.description }, "find with the identity \(id)")
    }

    func state(_ id: DurableJobID) async throws -> DurableJob.State { try await found(id).state }

    // MARK: - Surroundings

    /// Lets time pass; the workers extend their leases meanwhile.
    func pass(_ duration: Duration, _ workers: WorkerID...) async throws {
        guard !workers.isEmpty else { return try await candidate.passTime(duration) }
        var rest = duration
        while rest > .zero {
            try await candidate.passTime(min(rest, StoreLease.heartbeat))
            rest -= StoreLease.heartbeat
            for worker in workers { _ = try await store.extend(worker) }
        }
    }

    /// Expects a hint in new streams of the store and its peer while a body runs or soon after it.
    func expectHints(after what: String, _ body: () async throws -> Void) async throws {
        let streams = [store.changes(), store.changes(), candidate.peer.changes()]
        try await body()
        for stream in streams {
            let isHinted = try await withThrowingTaskGroup(of: Bool.self) { group in
                group.addTask {
                    for await _ in stream { return true }
                    return false
                }
                group.addTask { [patience] in
                    try await ContinuousClock().sleep(for: patience)
                    return false
                }
                defer { group.cancelAll() }
                return try await group.next() ?? false
            }
            try Task.checkCancellation()
            try expect(isHinted, "a stream gave no hint within \(patience) after \(what)")
        }
    }

    /// Returns the only answer of a call.
    private func one<Value>(_ values: [Value], _ what: String) throws -> Value {
        try expect(values.count, is: 1, "the number of answers of \(what)")
        return values[0]
    }
}

extension DurableJob {
    /// The payload of a check's job.
    var name: String { String(decoding: payload, as: UTF8.self) }
}
