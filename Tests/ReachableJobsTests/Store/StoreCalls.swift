import FoundationEssentials
import ReachableJobs

/// Short calls of stores, for the queue `default` and the kind `kind`.
extension JobStore {
    func register() async throws(JobStoreError) -> WorkerID { try await register(queue: "default", node: "node") }

    @discardableResult
    func push(_ name: String, _ change: (inout NewJob) -> Void = { _ in }) async throws(JobStoreError) -> DurableJobID {
        try await push([NewJob.named(name, change)], limit: nil)[0].id
    }

    /// Claims from all lanes.
    func claim(_ worker: WorkerID, _ limit: Int = 100, edge: Int64 = .min) async throws(JobStoreError) -> Claims {
        let lanes = try await lanes(worker)
        let open = lanes.map { ClaimRequest.Open(lane: $0.id, edge: edge) }
        return try await claim(ClaimRequest(worker: worker, limit: limit, lanes: open, lastKnownLane: lanes.last?.id ?? 0))
    }

    /// The lanes of a worker's queue.
    func lanes(_ worker: WorkerID) async throws(JobStoreError) -> [Lane] {
        try await claim(ClaimRequest(worker: worker, limit: 0, lanes: [], lastKnownLane: 0)).newLanes
    }

    func succeed(_ jobs: [Claims.Claimed], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        try await finish(jobs.map { AttemptResult($0.ticket, .succeeded, counters: $0.job.counters) }, by: worker)
    }

    func succeed(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        try await finish(tickets.map { AttemptResult($0, .succeeded, counters: .init()) }, by: worker)
    }

    /// The names of all jobs, by position.
    func names() async throws(JobStoreError) -> [String] { try await find(JobFilter()).map(\.name) }

    /// Waits until the jobs meet a condition.
    func waitForJobs(until isMet: ([DurableJob]) -> Bool) async throws {
        var hints = changes().makeAsyncIterator()
        while try await !isMet(find(JobFilter())) {
            // The end of the stream is that of the test's time.
            if await hints.next() == nil { throw CancellationError() }
        }
    }
}

extension Claims {
    /// The names of the claimed jobs.
    var names: [String] { jobs.map(\.job.name) }
}

extension NewJob {
    /// A job whose payload is its name.
    static func named(_ name: String, _ change: (inout NewJob) -> Void = { _ in }) -> NewJob {
        var job = NewJob(queue: "default", kind: "kind", payload: Data(name.utf8))
        change(&job)
        return job
    }

    /// A job of `jobs-probe`.
    static func effect(_ name: String) -> NewJob {
        NewJob(queue: "default", kind: "effect", payload: Data(#"{"name":"\#(name)"}"#.utf8))
    }
}

extension DurableJob {
    /// The payload of a test's job.
    var name: String { String(decoding: payload, as: UTF8.self) }
}

/// Expects a store's error, and returns it.
func storeError(_ body: () async throws -> Void) async -> JobStoreError? {
    do {
        try await body()
        return nil
    } catch {
        return error as? JobStoreError
    }
}
