import CBench
import CJobsFloor
import GRDB
import ReachableJobs

/// Our store and the floor, in turns.
struct JobsFloor {
    let path: String
    let rounds: Int
    /// The number of pushes of one job in a round.
    let pushes: Int

    func measure() async throws {
        print(row(["work", "µs a job", "C µs a job", "× C", "goal", ""]))
        print("|---|---|---|---|---|---|")
        try await measurePairs()
        print("")
    }

    private func measurePairs() async throws {
        let (ours, theirs) = (try await JobsDesk("\(path)/ours.db"), try await JobsDesk("\(path)/floor.db"))
        guard let floor = floor_open(theirs.store.path, theirs.worker.rawValue) else { throw BenchError("the floor did not open") }
        defer { floor_close(floor) }
        let caller = try Caller("\(path)/caller.db")
        var times: [[(Double, Double)]] = [[], [], [], [], []]
        for _ in 0..<rounds {
            let one = try await time(pushes) { try await ours.push(1) }
            let floorOne = try await time(pushes) { try check(floor_push(floor, 1)) }
            times[0].append((one, floorOne))
            times[4].append((try await time(pushes) { try caller.push() }, floorOne))
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
            ("push one in a caller's transaction, on its thread", 1.25),
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
}

/// A database of the caller's, in whose transactions jobs are pushed.
private struct Caller {
    private let database: DatabasePool
    private let store: SQLiteStore

    init(_ path: String) throws {
        database = try DatabasePool(path: path)
        store = try SQLiteStore(writer: database)
        try database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA synchronous = FULL") }
    }

    func push() throws {
        _ = try database.write { db in try store.push([JobsDesk.job()], in: db) }
    }
}
