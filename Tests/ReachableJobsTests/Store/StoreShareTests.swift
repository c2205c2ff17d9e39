#if SQLite || PostgreSQL
import Foundation
import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import TestSupport
import Testing

/// Two workers on one store, each with a connection and a bus of its own, as in two processes.
@Suite(.timeLimit(.minutes(2))) struct StoreShareTests {
    private struct Work: JobParameters {
        static let jobName = "work"
    }

    /// A job's duration in seconds, to measure the whole; without it, a job ends when all places of both workers are taken.
    private static let seconds: Double? = variable("JOBS_SHARE")

    #if SQLite
    @Test func workersOnSQLiteShareTheJobsByTheirPlaces() async throws {
        let directory = try TemporaryFolder()
        let stores = try (0..<2).map { _ in try SQLiteStore(path: directory.path + "/jobs.db") }
        try await share(stores)
    }
    #endif

    #if PostgreSQL
    @Test(.enabled(if: hasPostgreSQL, "run it with Scripts/postgresql"))
    func workersOnPostgreSQLShareTheJobsByTheirPlaces() async throws {
        let bench = try await PostgreSQLStoreBench(install: false)
        try await bench.store.install()
        try await share([PostgreSQLStore(bench.conninfo), PostgreSQLStore(bench.conninfo)])
    }
    #endif

    /// Runs 16 jobs at two workers with two places each.
    private func share(_ stores: [any JobStore]) async throws {
        let started = Rendezvous([0, 0])
        var (queues, tasks): ([JobQueue], [Task<Void, any Error>]) = ([], [])
        for (number, store) in stores.enumerated() {
            var configuration = RetryBus.Configuration()
            // No gate: it would let one job go first.
            (configuration.releasePolicy, configuration.maxConcurrent) = (.immediate, 2)
            let monitor = ReachabilityMonitor(SimulatedNetwork.online())
            let queue = JobQueue(store, bus: RetryBus(monitor, configuration: configuration, clock: ContinuousClock()))
            queue.registerJob(parameters: Work.self) { _, _ in
                let count = Self.note(number, started)
                if let seconds = Self.seconds {
                    let clock = ContinuousClock()
                    try await clock.sleep(for: .seconds(seconds))
                } else {
                    try await started.wait { $0[0] + $0[1] >= (count + 3) / 4 * 4 }
                }
            }
            queues.append(queue)
            tasks += [Task { try await monitor.run() }, Task { await queue.run() }]
        }
        let start = ContinuousClock.now
        try await queues[0].push([Work](repeating: Work(), count: 16))
        try await started.wait { $0[0] + $0[1] == 16 }
        for queue in queues { await queue.shutdown(drain: .seconds(60)) }
        print("\(type(of: stores[0])): 16 jobs in \(ContinuousClock.now - start), \(started.value) of them at each worker")
        #expect(started.value == [8, 8])
        #expect(try await queues[0].jobs().map(\.state) == [DurableJob.State](repeating: .succeeded, count: 16))
        for task in tasks { task.cancel() }
    }

    /// Counts an attempt of a worker; returns the number of all.
    private static func note(_ worker: Int, _ started: Rendezvous<[Int]>) -> Int {
        var count = 0
        started.change { started in
            started[worker] += 1
            count = started[0] + started[1]
        }
        return count
    }
}
#endif
