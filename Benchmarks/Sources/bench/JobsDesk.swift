import CBench
import FoundationEssentials
import ReachableJobs

extension NewJob {
    /// A job of a hundred bytes.
    static func small() -> NewJob { NewJob(queue: "queue", kind: "kind", payload: Data(count: 100)) }
}

/// A store with a worker, which knows the lanes.
final class JobsDesk<Store: JobStore> {
    let store: Store
    let worker: WorkerID
    private var lanes: [Lane] = []

    init(_ store: Store) async throws {
        self.store = store
        worker = try await store.register(queue: "queue", node: "node")
        let first = try await store.push([.small()], limit: nil)[0]
        _ = try await store.cancel([first.id])
        try await learn()
    }

    /// Adds jobs that may not run; a first one that may is claimed, and runs for ever.
    func fill(_ count: Int, like other: NewJob) async throws {
        for _ in 0..<count / 1000 { try await add(1000, like: other) }
        try await add(count % 1000, like: other)
        try await learn()
        _ = try await claim(1)
    }

    /// Adds a job for each of many destinations, and one that may run.
    func spread(like other: NewJob, to count: Int) async throws {
        let jobs = (0..<count).map { number in
            var job = other
            (job.id, job.destination) = (DurableJobID(), "host\(number)")
            return job
        }
        _ = try await store.push(jobs + [.small()], limit: nil)
        try await learn()
    }

    // Not inlined: Swift 6.3 crashes while it optimizes such loops.
    @inline(never)
    private func add(_ count: Int, like other: NewJob) async throws {
        let jobs = (0..<count).map { _ in
            var job = other
            job.id = DurableJobID()
            return job
        }
        _ = try await store.push(jobs, limit: nil)
        try await beat()
    }

    private func learn() async throws {
        lanes = try await store.claim(ClaimRequest(worker: worker, limit: 0, lanes: [], lastKnownLane: 0)).newLanes
    }

    /// Extends the lease, outside of what is measured.
    func beat() async throws { _ = try await store.extend(worker) }

    func push(_ count: Int) async throws {
        _ = try await store.push((0..<count).map { _ in .small() }, limit: nil)
    }

    func claim(_ limit: Int) async throws -> Claims { try await claim(limit, from: open("kind")) }

    func claimClosed(_ limit: Int, edge: Int64) async throws -> Claims {
        try await claim(limit, from: open("closed", edge: edge))
    }

    /// Claims one job and gives it back; returns the microseconds of the claim.
    ///
    /// - Parameter isWide: True if one of the closed lane is claimed with it.
    func timeClaim(andFirstOfClosed isWide: Bool) async throws -> Double {
        let lanes = open("kind") + (isWide ? open("closed", limit: 1) : [])
        let start = bench_now()
        let tickets = try await claim(isWide ? 2 : 1, from: lanes).jobs.map(\.ticket)
        let time = Double(bench_now() - start) / 1000
        guard tickets.count == (isWide ? 2 : 1) else { throw BenchError("a job was not claimed") }
        try await store.giveBack(tickets, by: worker)
        return time
    }

    private func open(_ kind: String, limit: Int = .max, edge: Int64 = .min) -> [ClaimRequest.Open] {
        lanes.filter { $0.kind == kind }.map { ClaimRequest.Open(lane: $0.id, limit: limit, edge: edge) }
    }

    private func claim(_ limit: Int, from open: [ClaimRequest.Open]) async throws -> Claims {
        try await store.claim(
            ClaimRequest(worker: worker, limit: limit, lanes: open, lastKnownLane: lanes.last?.id ?? 0))
    }

    /// Runs jobs that do nothing.
    func run(_ count: Int, at size: Int) async throws {
        var left = count
        while left > 0 {
            let jobs = try await claim(min(size, left)).jobs
            if jobs.isEmpty { throw BenchError("there are too few jobs") }
            _ = try await store.start(jobs.map(\.ticket), by: worker)
            let results = jobs.map { AttemptResult($0.ticket, .succeeded, counters: $0.job.counters) }
            _ = try await store.finish(results, by: worker)
            left -= jobs.count
        }
    }
}
