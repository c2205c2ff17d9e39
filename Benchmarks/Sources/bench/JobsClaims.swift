import CBench
import Foundation
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
        let spread = try await JobsDesk(store("spread"))
        try await spread.spread(like: elsewhere, to: Self.lanes)
        let many = try await claims(spread, andFirstOfClosed: true)
        print(row(["and of the first from \(Self.lanes) lanes", decimal(many, 1), decimal(many / base), "", ""]))
        print("")
        let columns = ["claim µs", "give back µs", "claim at a reconnect µs", "goal", ""]
        print(row(["sixteen jobs, past those whose network failed"] + columns))
        print("|---|---|---|---|---|---|")
        for failed in [0, 1000, 3000, 5000] where failed <= jobs / 2 {
            try await measureFailed(closed, "closed", of: "\(jobs)", failed: failed, goal: 5000)
        }
        try await measureFailed(spread, "spread", of: "\(Self.lanes) lanes", failed: Self.lanes / 2, goal: nil)
        print("")
    }

    private func report(_ name: String, _ value: Double, _ base: Double) {
        print(row([name, decimal(value, 1), decimal(value / base), "≤ 2 × empty", value <= 2 * base ? "holds" : "MISSED"]))
    }

    private func claims(_ desk: JobsDesk<Store>, andFirstOfClosed isWide: Bool = false) async throws -> Double {
        try await desk.beat()
        if !isWide { try await desk.push(1) }
        let open = desk.open("kind") + (isWide ? desk.open("closed", limit: 1) : [])
        var times: [Double] = []
        for _ in 0..<rounds * 20 { times.append(try await desk.timeClaim(isWide ? 2 : 1, from: open).claim) }
        return median(times)
    }

    /// The first jobs failed because of the network, at most as many as a few windows hold; then it is back.
    private func measureFailed(
        _ desk: JobsDesk<Store>, _ name: String, of what: String, failed: Int, goal: Double?
    ) async throws {
        try await desk.beat()
        let (now, since) = (try await desk.claim(0).now.nanoseconds, desk.store.nodeTime)
        let boot = try String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8).filter { $0 != "\n" }
        let node = desk.store is PostgreSQLStore ? "'node \(boot)'" : "'node', avoided_boot = '\(boot)'"
        let sql = """
            UPDATE reachable_jobs SET soft_since = \(now), soft_until = \(now + Self.backoff),
            avoided_by = \(node), avoided_since = \(since), avoided_until = \(since + Self.backoff)
            WHERE position IN (
                SELECT position FROM reachable_jobs WHERE kind = 'closed' AND state = 0 ORDER BY position LIMIT \(failed));
            """
        try execute(name, desk.store, sql)
        try await desk.beat()
        let memory = memoryHeld(by: "self").now
        let past = try await time(desk, edge: .min)
        let back = try await time(desk, edge: desk.store.nodeTime)
        let grown = memoryHeld(by: "self").now - memory
        print(
            row([
                "of \(what), past \(failed)", decimal(past.claim, 1), decimal(past.giveBack, 1), decimal(back.claim, 1),
                goal.map { "≤ \(decimal($0, 0)) µs, memory + \(decimal(grown, 1)) MB" } ?? "",
                goal.map { back.claim <= $0 && grown <= 64 ? "holds" : "MISSED" } ?? "",
            ]))
    }

    private static var backoff: Int64 { 100_000_000_000 }

    /// Claims sixteen jobs of the closed lanes, whose last edge is given.
    private func time(_ desk: JobsDesk<Store>, edge: Int64) async throws -> (claim: Double, giveBack: Double) {
        var times: [(claim: Double, giveBack: Double)] = []
        for _ in 0..<rounds { times.append(try await desk.timeClaim(16, from: desk.open("closed", edge: edge))) }
        return (median(times.map(\.claim)), median(times.map(\.giveBack)))
    }
}
