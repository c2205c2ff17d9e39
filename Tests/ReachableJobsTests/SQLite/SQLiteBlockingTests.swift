#if SQLite
import Foundation
import ReachabilityTesting
import ReachableJobs
import TestSupport
import Testing

/// Handlers that block all threads of Swift's pool.
@Suite(.timeLimit(.minutes(5)))
struct SQLiteBlockingTests {
    /// The clock of the other worker's leases is 19 s ahead: it would take the jobs over 11 s after the last heartbeat.
    @Test func aWorkerWhoseHandlersBlockKeepsItsLease() async throws {
        let directory = try TemporaryFolder()
        let store = try SQLiteStore(path: directory.path + "/jobs.db")
        try await withTaskExecutorPreference(ThreadPerJobExecutor()) {
            let effects = directory.path + "/effects"
            let names = (0..<ProcessInfo.processInfo.activeProcessorCount).map { "\($0)" }
            let first = try ProbeWorker(store.path, effects, ["block"])
            _ = try await store.push(names.map { .effect($0) }, limit: nil)
            for _ in names { #expect(first.readLine()?.hasPrefix("begins") == true) }
            let second = try ProbeWorker(store.path, effects, ["ahead=19"])
            try await waitForHeartbeats(2, of: store)
            #expect(try String(contentsOfFile: effects, encoding: .utf8) == "")
            for _ in names { first.go() }
            try await store.waitForJobs { $0.allSatisfy { $0.state == .succeeded } }
            let written = try String(contentsOfFile: effects, encoding: .utf8).split(separator: "\n").map(String.init)
            #expect(written.sorted() == names.sorted())
            #expect(try await store.find(JobFilter()).allSatisfy { $0.counters.started == 1 && $0.counters.crashes == 0 })
            first.kill()
            second.kill()
        }
    }

    /// Waits until the newest of two workers has extended its lease a number of times.
    private func waitForHeartbeats(_ count: Int, of store: SQLiteStore) async throws {
        var (left, last, areBoth) = (count, Duration.zero, false)
        for await _ in store.changes() {
            let workers = try await store.workers(of: nil)
            if workers.count < 2, areBoth { return }
            guard workers.count == 2 else { continue }
            areBoth = true
            if workers[1].sinceHeartbeat < last { left -= 1 }
            last = workers[1].sinceHeartbeat
            if left == 0 { return }
        }
    }
}
#endif
