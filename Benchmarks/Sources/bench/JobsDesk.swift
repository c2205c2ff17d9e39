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

    /// Claims jobs and gives them back; returns the microseconds of each.
    func timeClaim(_ count: Int, from open: [ClaimRequest.Open]) async throws -> (claim: Double, giveBack: Double) {
        let start = bench_now()
        let tickets = try await claim(count, from: open).jobs.map(\.ticket)
        let end = bench_now()
        guard tickets.count == count else { throw BenchError("a claim of \(count) jobs got \(tickets.count)") }
        _ = try await store.finish(tickets.map(AttemptResult.givenBack), by: worker)
        return (Double(end - start) / 1000, Double(bench_now() - end) / 1000)
    }

    func open(_ kind: String, limit: Int = .max, edge: Int64 = .min) -> [ClaimRequest.Open] {
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
