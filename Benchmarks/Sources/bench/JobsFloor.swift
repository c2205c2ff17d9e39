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

    /// What is measured.
    private enum Work: String, CaseIterable {
        case push = "push one, from a task on the store's executor"
        case pushElsewhere = "push one, from a task elsewhere"
        case pushInTransaction = "push one in a caller's transaction, on its thread"
        case pushMany = "push a thousand"
        case run = "run one at a time, on the store's executor"
        case runElsewhere = "run one at a time, from a task elsewhere"
        case runMany = "run a hundred at a time, on the store's executor"

        /// The largest ratio to C.
        var goal: Double? {
            switch self {
            case .push, .pushInTransaction: 1.25
            case .pushMany: 1.8
            case .run, .runMany: 2.5
            case .pushElsewhere, .runElsewhere: nil
            }
        }
    }

    func measure() async throws {
        print(row(["work", "µs a job", "C µs a job", "× C", "goal", ""]))
        print("|---|---|---|---|---|---|")
        try await measurePairs()
        print("")
    }

    private func measurePairs() async throws {
        let ours = try await JobsDesk(SQLiteStore(path: "\(path)/ours.db"))
        let theirs = try await JobsDesk(SQLiteStore(path: "\(path)/floor.db"))
        // With the same history, for the tasks elsewhere.
        let others = try await JobsDesk(SQLiteStore(path: "\(path)/elsewhere.db"))
        guard let floor = floor_open(theirs.store.path, theirs.worker.rawValue) else { throw BenchError("the floor did not open") }
        defer { floor_close(floor) }
        let caller = try Caller("\(path)/caller.db")
        let executor = ours.store.executor
        var times: [Work: [(Double, Double)]] = [:]
        for _ in 0..<rounds {
            let push = try await withTaskExecutorPreference(executor) { try await time(pushes) { try await ours.push(1) } }
            let floorPush = try await time(pushes) { try check(floor_push(floor, 1)) }
            times[.push, default: []].append((push, floorPush))
            times[.pushElsewhere, default: []].append((try await time(pushes) { try await others.push(1) }, floorPush))
            times[.pushInTransaction, default: []].append((try await time(pushes) { try caller.push() }, floorPush))
            for desk in [ours, others] {
                try await desk.beat()
                try await desk.run(pushes, at: 100)
            }
            for _ in 0..<(pushes + 99) / 100 { try runFloor(floor, 100) }
            times[.pushMany, default: []].append(
                (
                    try await time(1) { try await ours.push(1000) } / 1000,
                    try await time(1) { try check(floor_push(floor, 1000)) } / 1000
                ))
            try await others.push(1000)
            try await ours.beat()
            let run = try await withTaskExecutorPreference(executor) { try await time(500) { try await ours.run(1, at: 1) } }
            let floorRun = try await time(500) { try runFloor(floor, 1) }
            times[.run, default: []].append((run, floorRun))
            try await others.beat()
            times[.runElsewhere, default: []].append((try await time(500) { try await others.run(1, at: 1) }, floorRun))
            try await others.run(500, at: 100)
            try await ours.beat()
            times[.runMany, default: []].append(
                (
                    try await withTaskExecutorPreference(executor) { try await time(1) { try await ours.run(500, at: 100) } } / 500,
                    try await time(1) { for _ in 0..<5 { try runFloor(floor, 100) } } / 500
                ))
        }
        for work in Work.allCases { report(work, times[work] ?? []) }
    }

    private func report(_ work: Work, _ times: [(Double, Double)]) {
        let ratios = times.map { $0.0 / $0.1 }
        let ratio = median(ratios)
        print(
            row([
                work.rawValue, decimal(median(times.map(\.0)), 1), decimal(median(times.map(\.1)), 1),
                summary(ratios),
                work.goal.map { "≤ \(decimal($0)) × C" } ?? "", work.goal.map { ratio <= $0 ? "holds" : "MISSED" } ?? "",
            ]))
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
        _ = try database.write { db in try store.push([NewJob.small()], in: db) }
    }
}
