import CBench
import ReachableJobs

/// The claim of one job among many that may not run.
struct JobsClaims<Store: JobStore> {
    /// Makes an empty store with a name.
    let store: (String) async throws -> Store
    /// Executes SQL in a store, which it gets with its name, and lets the store write all that it has put off.
    let execute: (String, Store, String) throws -> Void
    /// The number of the others.
    let jobs: Int
    let rounds: Int
    /// The number of destinations of a queue that has many.
    private static var lanes: Int { 1000 }

    func measure() async throws {
        print(row(["claim of one job", "µs", "× empty", "goal", ""]))
        print("|---|---|---|---|---|")
        var (following, waiting, elsewhere) = (NewJob.small(), NewJob.small(), NewJob.small())
        (following.serialKey, waiting.delay, elsewhere.kind) = ("key", .seconds(100_000), "closed")
        let empty = try await JobsDesk(store("empty"))
        let base = try await claims(empty)
        print(row(["from an empty store", decimal(base, 1), "1.00", "", ""]))
        let blocked = try await JobsDesk(store("blocked"))
        try await blocked.fill(jobs, like: following)
        try await report("among \(jobs) that follow another", claims(blocked), base)
        let delayed = try await JobsDesk(store("delayed"))
        try await delayed.fill(jobs, like: waiting)
        try await report("among \(jobs) that wait for a time", claims(delayed), base)
        let closed = try await JobsDesk(store("closed"))
        try await closed.fill(jobs, like: elsewhere)
        try await report("among \(jobs) of a closed lane", claims(closed), base)
        let limited = try await claims(closed, andFirstOfClosed: true)
        print(row(["and of the first of \(jobs) of a lane that takes one", decimal(limited, 1), decimal(limited / base), "", ""]))
        try await measureReconnect(closed, "closed", of: "\(jobs)", goal: 5000)
        let spread = try await JobsDesk(store("spread"))
        try await spread.spread(like: elsewhere, to: Self.lanes)
        let many = try await claims(spread, andFirstOfClosed: true)
        print(row(["and of the first from \(Self.lanes) lanes", decimal(many, 1), decimal(many / base), "", ""]))
        try await measureReconnect(spread, "spread", of: "\(Self.lanes) lanes", goal: nil)
        print("")
    }

    private func report(_ name: String, _ value: Double, _ base: Double) {
        print(row([name, decimal(value, 1), decimal(value / base), "≤ 2 × empty", value <= 2 * base ? "holds" : "MISSED"]))
    }

    private func claims(_ desk: JobsDesk<Store>, andFirstOfClosed isWide: Bool = false) async throws -> Double {
        try await desk.beat()
        if !isWide { try await desk.push(1) }
        var times: [Double] = []
        for _ in 0..<rounds * 20 { times.append(try await desk.timeClaim(andFirstOfClosed: isWide)) }
        return median(times)
    }

    /// All jobs failed because of the network; then it is back.
    private func measureReconnect(_ desk: JobsDesk<Store>, _ name: String, of what: String, goal: Double?) async throws {
        try await desk.beat()
        let now = try await desk.claim(0).now.nanoseconds
        let (since, until) = (now, now + 100_000_000_000)
        let sql = """
            INSERT INTO reachable_outages (lane, number, node, first, last, last_until)
            SELECT id, 1, 'node', \(since), \(since), \(until) FROM reachable_lanes WHERE kind = 'closed';
            UPDATE reachable_jobs SET outage = 1, due = \(until), soft_until = \(until), soft_since = \(since), soft_network = true,
            soft_outage = 1 WHERE kind = 'closed';
            """
        try execute(name, desk.store, sql)
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
                "sixteen, at a reconnect of \(what)", decimal(first, 1), "",
                goal.map { "≤ \(decimal($0, 0)) µs, memory + \(decimal(grown, 1)) MB" } ?? "",
                goal.map { first <= $0 && grown <= 64 ? "holds" : "MISSED" } ?? "",
            ]))
    }
}
