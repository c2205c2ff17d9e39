import FoundationEssentials
import ReachabilityTesting
import ReachableJobs
import ReachableRetry

/// A memory store on a manual clock with one worker, and short calls for tests.
struct StoreDesk {
    let clock = ManualClock()
    let store: MemoryStore
    var worker: WorkerID

    init() async throws {
        store = MemoryStore(clock: clock, date: { Date(timeIntervalSince1970: 1_800_000_000) })
        worker = try await store.register(queue: "q", node: "n")
    }

    /// Pushes a job whose payload is its name; returns its identity.
    @discardableResult
    func push(_ name: String, limit: Int? = nil, _ change: (inout NewJob) -> Void = { _ in }) async throws -> PushReceipt {
        var job = NewJob(queue: "q", kind: "k", payload: Data(name.utf8))
        change(&job)
        return try await store.push([job], limit: limit)[0]
    }

    /// Claims from all lanes.
    func claim(_ limit: Int = 100, edge: StoreInstant? = nil, laneLimit: Int = .max) async throws -> Claims {
        let known = try await store.claim(ClaimRequest(worker: worker, limit: 0, lanes: [], lastKnownLane: 0)).newLanes
        let lanes = known.map { ClaimRequest.Open(lane: $0.id, limit: laneLimit, edge: edge) }
        return try await store.claim(ClaimRequest(worker: worker, limit: limit, lanes: lanes, lastKnownLane: 0))
    }

    /// Claims from all lanes; returns the payloads.
    func names(_ limit: Int = 100, edge: StoreInstant? = nil) async throws -> [String] {
        try await claim(limit, edge: edge).jobs.map { String(decoding: $0.job.payload, as: UTF8.self) }
    }

    func job(_ id: DurableJobID) async throws -> DurableJob? {
        var filter = JobFilter()
        filter.idPrefix = id.description
        return try await store.find(filter).first
    }

    @discardableResult
    func finish(_ claimed: Claims.Claimed, _ outcome: AttemptResult.Outcome, hold: Duration? = nil) async throws -> Bool {
        let result = AttemptResult(claimed.ticket, outcome, counters: claimed.job.counters, holdsDestination: hold)
        return try await store.finish([result], by: worker)[0] != .refused
    }

    /// Lets time pass in steps in which the worker extends its lease.
    func pass(_ duration: Duration) async throws {
        var rest = duration
        while rest > .zero {
            clock.advance(by: min(rest, StoreLease.heartbeat))
            rest -= StoreLease.heartbeat
            _ = try await store.extend(worker)
        }
    }
}
