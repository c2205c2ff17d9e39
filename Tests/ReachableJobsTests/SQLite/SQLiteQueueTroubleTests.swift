#if SQLite
import Foundation
import GRDB
import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import Testing

/// A queue whose store fails for some time: it says so once, keeps its results, and runs nothing twice.
@Suite(.timeLimit(.minutes(2)), .serialized)
struct SQLiteQueueTroubleTests {
    /// A queue whose attempts wait for the test.
    private struct RunningQueue {
        let queue: JobQueue
        let store: WarpedStore
        /// The names of the jobs in the order of their attempts.
        let started = Rendezvous<[String]>([])
        /// The attempts that may end.
        let allowed = Rendezvous(0)
        let events = Rendezvous<[String]>([])
        private let tasks: [Task<Void, any Error>]

        init(_ store: SQLiteStore) {
            self.store = WarpedStore(store)
            let monitor = ReachabilityMonitor(SimulatedNetwork.online())
            // The queue's delays of 1 s and 2 s between its turns pass on the real clock.
            let queue = JobQueue(self.store, bus: RetryBus(monitor, clock: ContinuousClock()))
            self.queue = queue
            queue.registerJob(parameters: Send.self) { [started, allowed] send, _ in
                started.change { $0.append(send.text) }
                let count = started.value.count
                try await allowed.wait { $0 >= count }
            }
            let stream = queue.events
            tasks = [
                Task { try await monitor.run() }, Task { await queue.run() },
                Task { [events] in
                    for await event in stream {
                        let text: String? =
                            switch event.kind {
                            case .storeFailed(let error): error.map { "fails: \($0.code.rawValue)" } ?? "works"
                            case .succeeded: "succeeded"
                            case .refused: "refused"
                            default: nil
                            }
                        if let text { events.change { $0.append(text) } }
                    }
                },
            ]
        }

        /// Ends an attempt while the store fails: the failure is reported once, and the result kept.
        func keepsResults(of code: JobStoreError.Code, from begin: () throws -> Void, until end: () throws -> Void) async throws {
            try await queue.push(Send("a"))
            try await started.wait { $0 == ["a"] }
            try begin()
            allowed.change { $0 = 1 }
            try await store.failures.wait { $0.count >= 2 }
            #expect(Set(store.failures.value) == [code])
            #expect(events.value == ["fails: \(code.rawValue)"])
            #expect(try await queue.states == [.running])
            try end()
            try await events.wait { $0.count == 3 }
            #expect(events.value == ["fails: \(code.rawValue)", "succeeded", "works"])
            #expect(try await queue.states == [.succeeded])
            #expect(try await queue.jobs().map(\.counters.started) == [1])
        }

        func end() async throws {
            await queue.shutdown()
            _ = try await tasks[1].value
            for task in tasks { task.cancel() }
        }
    }

    @Test func aLockOfAnotherProcessIsReportedOnceAndResultsAreKept() async throws {
        let directory = try TemporaryDirectory()
        var configuration = Configuration()
        // Not the 5 s of a store with a file of its own: two of its turns would fail within 10 s.
        configuration.busyMode = .timeout(0.02)
        let pool = try DatabasePool(path: directory.path + "/app.db", configuration: configuration)
        let queue = RunningQueue(try SQLiteStore(writer: pool, machine: TestMachine().machine))
        let stranger = try Stranger(
            """
            db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60); print(flush=True)
            sys.stdin.readline(); db.execute("BEGIN IMMEDIATE"); print(flush=True)
            sys.stdin.readline(); db.execute("ROLLBACK"); print(flush=True)
            """, pool.path)
        try await queue.keepsResults(
            of: .busy,
            from: {
                stranger.go()
                stranger.waitForLine()
            }, until: { stranger.go() })
        queue.allowed.change { $0 = 2 }
        try await queue.queue.push(Send("b"))
        try await queue.events.wait { $0.count == 4 }
        #expect(queue.started.value == ["a", "b"])
        #expect(try await queue.queue.jobs().map(\.counters.started) == [1, 1])
        try await queue.end()
        stranger.wait()
        withExtendedLifetime(directory) {}
    }

    @Test(.enabled(if: SmallDisk.mayMount)) func aFullDiskIsReportedOnceAndResultsAreKept() async throws {
        let disk = try SmallDisk()
        defer { disk.unmount() }
        let queue = RunningQueue(try SQLiteStore(path: disk.path + "/jobs.db", machine: TestMachine().machine))
        try await queue.keepsResults(of: .diskFull, from: { try disk.fill() }, until: { try disk.clear() })
        try await queue.end()
    }
}
#endif
