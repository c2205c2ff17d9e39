#if SQLite || PostgreSQL
import Foundation
import ReachabilityTesting
import ReachableJobs
import TestSupport
import Testing

/// Workers that are killed at any moment, with effects recorded outside of the store.
@Suite(.timeLimit(.minutes(120)))
struct KillTests {
    /// The number of kills of each test; `JOBS_KILLS` sets another one, for longer runs.
    private static let kills = variable("JOBS_KILLS") ?? 20

    /// With two workers, the one that goes on must not take a job of the other before its end, nor leave one behind.
    #if SQLite
    @Test(arguments: [1, 2]) func workersKilledOnSQLiteLoseNothingAndRepeatOnlyWhatTheyHadNotWritten(workers: Int) async throws {
        let directory = try TemporaryFolder()
        let path = directory.path + "/jobs.db"
        try await kill(workers, on: try SQLiteStore(path: path), at: path)
    }
    #endif

    #if PostgreSQL
    @Test(.enabled(if: hasPostgreSQL, "run it with Scripts/postgresql"), arguments: [1, 2])
    func workersKilledOnPostgreSQLLoseNothingAndRepeatOnlyWhatTheyHadNotWritten(workers: Int) async throws {
        // With the server's own clock.
        let bench = try await PostgreSQLStoreBench(install: false)
        let store = PostgreSQLStore(bench.conninfo)
        try await store.install()
        try await kill(workers, on: store, at: bench.conninfo)
    }
    #endif

    private func kill(_ workers: Int, on store: some JobStore, at place: String) async throws {
        let seed = UInt64.random(in: 0 ... .max)
        // Reads block.
        try await withTaskExecutorPreference(ThreadPerJobExecutor()) {
            var generator = SeededGenerator(seed: seed)
            let directory = try TemporaryFolder()
            let effects = directory.path + "/effects"
            let output = Pipe()
            var running: [ProbeWorker] = []
            for _ in 0..<workers { running.append(try ProbeWorker(place, effects, output: output)) }
            var (pushed, read) = (0, 0)
            for _ in 0..<Self.kills {
                let new = (0..<20).map { NewJob.effect("\(pushed + $0)") }
                pushed += new.count
                _ = try await store.push(new, limit: nil)
                // Each job gives a line at least: this many will come, whichever worker prints them.
                let lines = min(Int.random(in: 0..<40, using: &generator), pushed - read)
                for _ in 0..<lines { _ = running[0].readLine() }
                read += lines
                let killed = Int.random(in: 0..<workers, using: &generator)
                running[killed].kill()
                running[killed] = try ProbeWorker(place, effects, output: output)
            }
            // Otherwise a full pipe would stop the workers.
            let rest = Task(executorPreference: ThreadPerJobExecutor()) { [worker = running[0]] in
                while worker.readLine() != nil {}
            }
            try await store.waitForJobs { $0.allSatisfy { $0.state.isFinal } }
            for worker in running { worker.kill() }
            try output.fileHandleForWriting.close()
            await rest.value
            try check(try await store.find(JobFilter()), pushed, effects, "\(type(of: store)), \(workers) workers, seed \(seed)")
        }
    }

    private func check(_ jobs: [DurableJob], _ pushed: Int, _ effects: String, _ setting: String) throws {
        #expect(jobs.count == pushed && jobs.allSatisfy { $0.state == .succeeded }, "\(setting)")
        var times: [String: Int] = [:]
        for line in try String(contentsOfFile: effects, encoding: .utf8).split(separator: "\n") {
            times[String(line), default: 0] += 1
        }
        var repeated = 0
        for (number, job) in jobs.enumerated() {
            let count = times["\(number)"] ?? 0
            repeated += max(0, count - 1)
            // An effect is repeated only if a crash came between it and its result.
            #expect(count >= 1 && count <= 1 + job.counters.crashes, "job \(number): \(count) effects, \(job.counters), \(setting)")
        }
        let crashes = jobs.map(\.counters.crashes).reduce(0, +)
        print("\(setting): \(Self.kills) kills, \(pushed) jobs: \(repeated) effects repeated, \(crashes) crashes")
    }
}
#endif
