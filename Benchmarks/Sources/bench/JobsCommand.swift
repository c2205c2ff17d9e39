import ArgumentParser
import CBench
import CJobsFloor
import Dispatch
import FoundationEssentials
import Glibc
import ReachableJobs
import Synchronization

/// The command `bench jobs`.
struct JobsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "jobs", abstract: "What a durable job costs in SQLite, beside C with the same statements.")

    @Option(help: "How many jobs there are that may not run.")
    var jobs = 1_000_000

    @Option(help: "How often all is measured.")
    var rounds = 15

    @Option(help: "How many pushes of one job a round has.")
    var pushes = 300

    @Option(help: "Where the files are.")
    var directory = "/tmp"

    func run() throws {
        guard jobs > 0, pushes > 0 else { throw ValidationError("there must be jobs") }
        let path = "\(directory)/reachable-jobs-bench-\(getpid())"
        try BenchError.check(mkdir(path, 0o700) == 0 ? 0 : -errno, "mkdir \(path)")
        defer { JobsRun.delete(path) }
        let (isOver, error) = (DispatchSemaphore(value: 0), Failure())
        let run = JobsRun(path, jobs: jobs, rounds: rounds, pushes: pushes)
        Task {
            do { try await run.measure() } catch let thrown { error.value.withLock { $0 = thrown } }
            isOver.signal()
        }
        isOver.wait()
        if let error = error.value.withLock(\.self) { throw error }
    }

    private final class Failure: Sendable {
        let value = Mutex<(any Error)?>(nil)
    }
}

/// Our store and the floor, in turns.
private struct JobsRun {
    private let path: String
    private let jobs: Int
    private let rounds: Int
    private let pushes: Int

    init(_ path: String, jobs: Int, rounds: Int, pushes: Int) {
        (self.path, self.jobs, self.rounds, self.pushes) = (path, jobs, rounds, pushes)
    }

    static func delete(_ path: String) {
        try? FileManager.default.removeItem(atPath: path)
    }

    func measure() async throws {
        print("jobs: SQLite in \(path); medians of \(rounds) rounds, with quartiles\n")
        print(row(["work", "µs a job", "C µs a job", "× C", "goal", ""]))
        print("|---|---|---|---|---|---|")
        try await measurePairs()
        print("")
        print(row(["claim of one job", "µs", "× empty", "goal", ""]))
        print("|---|---|---|---|---|")
        try await measureClaims()
    }

    // MARK: Beside C

    private func measurePairs() async throws {
        let (ours, theirs) = (try await Desk("\(path)/ours.db"), try await Desk("\(path)/floor.db"))
        guard let floor = floor_open(theirs.store.path, theirs.worker.rawValue) else { throw BenchError("the floor did not open") }
        defer { floor_close(floor) }
        var times: [[(Double, Double)]] = [[], [], [], []]
        for _ in 0..<rounds {
            times[0].append(
                (
                    try await time(pushes) { try await ours.push(1) },
                    try await time(pushes) { try check(floor_push(floor, 1)) }
                ))
            try await ours.beat()
            try await ours.run(pushes, at: 100)
            for _ in 0..<(pushes + 99) / 100 { try runFloor(floor, 100) }
            times[1].append(
                (
                    try await time(1) { try await ours.push(1000) } / 1000,
                    try await time(1) { try check(floor_push(floor, 1000)) } / 1000
                ))
            try await ours.beat()
            times[2].append((try await time(500) { try await ours.run(1, at: 1) }, try await time(500) { try runFloor(floor, 1) }))
            try await ours.beat()
            times[3].append(
                (
                    try await time(1) { try await ours.run(500, at: 100) } / 500,
                    try await time(1) { for _ in 0..<5 { try runFloor(floor, 100) } } / 500
                ))
        }
        let rows = [
            ("push one, committed", 1.25), ("push a thousand", 1.8), ("run one at a time", 2.5), ("run a hundred at a time", 2.5),
        ]
        for ((name, goal), times) in zip(rows, times) {
            let ratios = times.map { $0.0 / $0.1 }.sorted()
            let ratio = median(ratios)
            print(
                row([
                    name, decimal(median(times.map(\.0)), 1), decimal(median(times.map(\.1)), 1),
                    "\(decimal(ratio)) [\(decimal(ratios[ratios.count / 4]))..\(decimal(ratios[ratios.count * 3 / 4]))]",
                    "≤ \(decimal(goal)) × C", ratio <= goal ? "holds" : "MISSED",
                ]))
        }
    }

    private func runFloor(_ floor: OpaquePointer, _ count: Int32) throws {
        try check(floor_claim(floor, count))
        try check(floor_start(floor))
        try check(floor_finish(floor))
    }

    private func check(_ code: Int32) throws {
        if code != 0 { throw BenchError("the floor failed with SQLite's code \(code)") }
    }

    /// Microseconds of each.
    private func time(_ count: Int, _ body: () async throws -> Void) async throws -> Double {
        let start = bench_now()
        for _ in 0..<count { try await body() }
        return Double(bench_now() - start) / Double(count) / 1000
    }

    // MARK: Among many

    private func measureClaims() async throws {
        var (following, waiting, elsewhere) = (Desk.job(), Desk.job(), Desk.job())
        (following.serialKey, waiting.delay, elsewhere.kind) = ("key", .seconds(100_000), "closed")
        let empty = try await Desk("\(path)/empty.db")
        let base = try await claims(empty)
        print(row(["from an empty store", decimal(base, 1), "1.00", "", ""]))
        let blocked = try await Desk("\(path)/blocked.db")
        try await blocked.fill(jobs, like: following)
        try await report("among \(jobs) that follow another", claims(blocked), base)
        let delayed = try await Desk("\(path)/delayed.db")
        try await delayed.fill(jobs, like: waiting)
        try await report("among \(jobs) that wait for a time", claims(delayed), base)
        let closed = try await Desk("\(path)/closed.db")
        try await closed.fill(jobs, like: elsewhere)
        try await report("among \(jobs) of a closed lane", claims(closed), base)
        try await measureReconnect(closed)
    }

    private func report(_ name: String, _ value: Double, _ base: Double) {
        print(row([name, decimal(value, 1), decimal(value / base), "≤ 2 × empty", value <= 2 * base ? "holds" : "MISSED"]))
    }

    private func claims(_ desk: Desk) async throws -> Double {
        try await desk.beat()
        try await desk.push(1)
        var times: [Double] = []
        for _ in 0..<rounds * 20 { times.append(try await desk.timeClaim()) }
        return median(times)
    }

    /// All jobs failed because of the network; then it is back.
    private func measureReconnect(_ desk: Desk) async throws {
        try await desk.beat()
        let now = try await desk.claim(0).now.nanoseconds
        let (since, until) = (now, now + 100_000_000_000)
        let sql = """
            INSERT INTO reachable_outages (lane, number, node, first, last, last_until)
            SELECT id, 1, 'node', \(since), \(since), \(until) FROM reachable_lanes WHERE kind = 'closed';
            UPDATE reachable_jobs SET outage = 1, due = \(until), soft_until = \(until), soft_since = \(since), soft_network = 1,
            soft_outage = 1 WHERE kind = 'closed';
            PRAGMA wal_checkpoint(TRUNCATE);
            """
        try check(floor_execute(desk.store.path, sql))
        try await desk.beat()
        guard try await desk.claimClosed(16, edge: nil).jobs.isEmpty else { throw BenchError("a delayed job was claimed") }
        let edge = try await desk.claim(0).now
        let memory = memoryHeld(by: "self").now
        let start = bench_now()
        let claims = try await desk.claimClosed(16, edge: edge)
        let first = Double(bench_now() - start) / 1000
        guard claims.jobs.count == 16 else { throw BenchError("the reconnect freed \(claims.jobs.count) jobs") }
        let grown = memoryHeld(by: "self").now - memory
        print(
            row([
                "sixteen, at a reconnect of \(jobs)", decimal(first, 1), "", "≤ 5000 µs, memory + \(decimal(grown, 1)) MB",
                first <= 5000 && grown <= 64 ? "holds" : "MISSED",
            ]))
    }
}

/// A store with a worker, which knows the lanes.
private final class Desk {
    let store: SQLiteStore
    let worker: WorkerID
    private var lanes: [Lane] = []

    init(_ path: String) async throws {
        store = try SQLiteStore(path: path)
        worker = try await store.register(queue: "queue", node: "node")
        let first = try await store.push([Desk.job()], limit: nil)[0]
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

    static func job() -> NewJob { NewJob(queue: "queue", kind: "kind", payload: Data(count: 100)) }

    /// Extends the lease, outside of what is measured.
    func beat() async throws { _ = try await store.extend(worker) }

    func push(_ count: Int) async throws {
        _ = try await store.push((0..<count).map { _ in Desk.job() }, limit: nil)
    }

    func claim(_ limit: Int) async throws -> Claims { try await claim(limit, from: lanes.filter { $0.kind == "kind" }, edge: nil) }

    func claimClosed(_ limit: Int, edge: StoreInstant?) async throws -> Claims {
        try await claim(limit, from: lanes.filter { $0.kind == "closed" }, edge: edge)
    }

    /// Claims the only job and gives it back; returns the microseconds of the claim.
    func timeClaim() async throws -> Double {
        let start = bench_now()
        let tickets = try await claim(1).jobs.map(\.ticket)
        let time = Double(bench_now() - start) / 1000
        guard tickets.count == 1 else { throw BenchError("the only job was not claimed") }
        try await store.giveBack(tickets, by: worker)
        return time
    }

    private func claim(_ limit: Int, from lanes: [Lane], edge: StoreInstant?) async throws -> Claims {
        let open = lanes.map { ClaimRequest.Open(lane: $0.id, edge: edge) }
        return try await store.claim(
            ClaimRequest(worker: worker, limit: limit, lanes: open, lastKnownLane: self.lanes.last?.id ?? 0))
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
