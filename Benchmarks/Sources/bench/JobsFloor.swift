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
        let desks = try await Desks(path)
        let caller = try Caller("\(path)/caller.db")
        var times: [Work: [(Double, Double)]] = [:]
        for _ in 0..<rounds {
            let push = try await desks.time(pushes) { for _ in 0..<pushes { try await $0.push(1) } }
            times[.push, default: []].append((push.ours, push.floor))
            times[.pushElsewhere, default: []].append((push.elsewhere, push.floor))
            let inTransaction = try await time(pushes) { for _ in 0..<pushes { try caller.push() } }
            times[.pushInTransaction, default: []].append((inTransaction, push.floor))
            _ = try await desks.time(pushes) { try await $0.run(pushes, at: 100) }
            let pushMany = try await desks.time(1000) { try await $0.push(1000) }
            times[.pushMany, default: []].append((pushMany.ours, pushMany.floor))
            let run = try await desks.time(500) { try await $0.run(500, at: 1) }
            times[.run, default: []].append((run.ours, run.floor))
            times[.runElsewhere, default: []].append((run.elsewhere, run.floor))
            let runMany = try await desks.time(500) { try await $0.run(500, at: 100) }
            times[.runMany, default: []].append((runMany.ours, runMany.floor))
        }
        for work in Work.allCases { report(work, times[work] ?? []) }
        print("")
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
}

/// Returns the microseconds of one of many.
private func time(_ count: Int, _ body: () async throws -> Void) async throws -> Double {
    let start = bench_now()
    try await body()
    return Double(bench_now() - start) / Double(count) / 1000
}

/// Stores that do the same, and C with the statements of one of them.
private final class Desks {
    private let ours, elsewhere, recorded: JobsDesk<SQLiteStore>
    private let floor: OpaquePointer

    init(_ path: String) async throws {
        guard let floor = floor_open("\(path)/floor.db") else { throw BenchError("the floor did not open") }
        self.floor = floor
        recorded = try await JobsDesk(SQLiteStore(path: "\(path)/recorded.db"))
        ours = try await JobsDesk(SQLiteStore(path: "\(path)/ours.db"))
        elsewhere = try await JobsDesk(SQLiteStore(path: "\(path)/elsewhere.db"))
        try replay()
    }

    deinit { floor_close(floor) }

    /// Returns the microseconds of one of many on the store's executor, from a task elsewhere, and in C.
    func time(
        _ count: Int, _ body: (JobsDesk<SQLiteStore>) async throws -> Void
    ) async throws -> (ours: Double, elsewhere: Double, floor: Double) {
        try await body(recorded)
        return (
            try await withTaskExecutorPreference(ours.store.executor) { try await bench.time(count) { try await body(ours) } },
            try await bench.time(count) { try await body(elsewhere) }, try await bench.time(count) { try replay() }
        )
    }

    private func replay() throws {
        let code = floor_replay(floor)
        if code != 0 { throw BenchError("the floor failed with SQLite's code \(code)") }
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
