#if SQLite
import GRDB
import ReachabilityTesting
import ReachableJobs
import TestSupport
import Testing

/// Workers that are stopped in the middle of an attempt.
@Suite(.timeLimit(.minutes(5)), .serialized)
struct SQLiteStopTests {
    private let directory: TemporaryFolder
    private let store: SQLiteStore
    private var effects: [String] { directory.read("effects").split(separator: "\n").map(String.init) }

    init() throws {
        directory = try TemporaryFolder()
        store = try SQLiteStore(path: directory.path + "/jobs.db")
    }

    private func worker(_ options: String...) throws -> ProbeWorker {
        try ProbeWorker(store.path, directory.path + "/effects", options)
    }

    private func push(_ name: String) async throws {
        _ = try await store.push([.effect(name)], limit: nil)
    }

    /// Stops a worker while it cannot have the database locked: nothing else could write.
    private func stop(_ worker: ProbeWorker) throws {
        var configuration = Configuration()
        configuration.busyMode = .timeout(20)
        let queue = try DatabaseQueue(path: store.path, configuration: configuration)
        try queue.writeWithoutTransaction { db in
            try db.inTransaction(.immediate) {
                worker.stop()
                return .commit
            }
        }
        try queue.close()
    }

    @Test func aWorkerStoppedBeyondItsLeaseLosesTheJobAndGoesOn() async throws {
        try await withTaskExecutorPreference(ThreadPerJobExecutor()) {
            let first = try worker("hold")
            try await push("a")
            #expect(first.readLine() == "begins a")
            try stop(first)
            let second = try worker("ahead=31")
            #expect(second.readLine() == "a")
            try await store.waitForJobs { $0.map(\.state) == [.succeeded] }
            second.kill()
            let before = try await store.find(JobFilter())
            first.resume()
            first.go()
            // The late effect cannot be prevented; its result changes nothing.
            var lines: Set<String> = []
            while !lines.isSuperset(of: ["a", "refused"]), let line = first.readLine() { lines.insert(line) }
            #expect(lines == ["a", "refused"])
            #expect(try await store.find(JobFilter()) == before)
            #expect(before.map(\.counters.started) == [2] && before.map(\.counters.crashes) == [0])
            // It registers again.
            try await push("b")
            #expect(first.readLine() == "begins b")
            first.go()
            try await store.waitForJobs { $0.map(\.state) == [.succeeded, .succeeded] }
            #expect(effects == ["a", "a", "b"])
            #expect(try await store.find(JobFilter()).map(\.counters.crashes) == [0, 0])
            first.kill()
        }
    }

    /// Not with its next heartbeat, up to 10 s later.
    @Test func idleWorkerTakesJobsOfKilledOneAtOnce() async throws {
        try await withTaskExecutorPreference(ThreadPerJobExecutor()) {
            let first = try worker("hold")
            try await push("a")
            #expect(first.readLine() == "begins a")
            let second = try worker()
            var hints = store.changes().makeAsyncIterator()
            while try await store.workers(of: nil).count < 2, await hints.next() != nil {}
            let start = ContinuousClock.now
            first.kill()
            #expect(second.readLine() == "a")
            let time = ContinuousClock.now - start
            #expect(time < .seconds(5))
            print("the end of a process was noticed after \(time)")
            try await store.waitForJobs { $0.map(\.state) == [.succeeded] }
            #expect(try await store.find(JobFilter()).map(\.counters.crashes) == [1])
            second.kill()
        }
    }

    @Test func aWorkerStoppedForLessThanItsLeaseKeepsTheJob() async throws {
        try await withTaskExecutorPreference(ThreadPerJobExecutor()) {
            let first = try worker("hold")
            try await push("a")
            #expect(first.readLine() == "begins a")
            try stop(first)
            let second = try worker("ahead=15")
            // It claims all that is free.
            try await push("b")
            #expect(second.readLine() == "b")
            try await store.waitForJobs { $0.map(\.state) == [.running, .succeeded] }
            second.kill()
            first.resume()
            first.go()
            #expect(first.readLine() == "a")
            try await store.waitForJobs { $0.map(\.state) == [.succeeded, .succeeded] }
            first.kill()
            #expect(first.readLine() == nil)
            #expect(effects == ["b", "a"])
            #expect(try await store.find(JobFilter()).map(\.counters.started) == [1, 1])
        }
    }
}
#endif
