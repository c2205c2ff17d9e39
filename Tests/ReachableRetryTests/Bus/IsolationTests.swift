import Reachability
import ReachabilityTesting
import ReachableRetry
import Synchronization
import Testing

/// The executor of operations, and the values they may use and return.
@Suite(.timeLimit(.minutes(10))) struct IsolationTests {
    /// A value that must not leave its isolation.
    final class Notebook {
        var lines: [String] = []
    }

    struct Interrupted: Error {}

    actor Uploader {
        private let notebook = Notebook()
        private var attempts = 0

        func upload(over bus: RetryBus) async throws -> Notebook.Type {
            // Neither the operation nor its value is Sendable; both use this actor's state.
            let result = try await bus.retry(.scenario) { attempt -> Notebook in
                self.assertIsolated()
                attempts += 1
                // After a suspension it must be back on the actor.
                await Task.yield()
                self.assertIsolated()
                notebook.lines.append("attempt \(attempt.number)")
                if attempts < 3 { throw Interrupted() }
                return notebook
            }
            #expect(result === notebook)
            #expect(result.lines == ["attempt 1", "attempt 2", "attempt 3"])
            return Notebook.self
        }
    }

    @Test func theOperationRunsOnItsCallersActor() async throws {
        try await Scenario().run { scenario in
            let running = scenario.start { try await Uploader().upload(over: scenario.bus) }
            await scenario.letPass(until: running)
            _ = try await running.value
        }
    }

    @Test @MainActor func theOperationRunsOnTheMainActor() async throws {
        let bus = RetryBus(ReachabilityMonitor())
        let notebook = Notebook()
        let result = try await bus.retry { attempt -> Notebook in
            MainActor.assertIsolated()
            // After a suspension it must be back on the actor.
            await Task.yield()
            MainActor.assertIsolated()
            notebook.lines.append("attempt \(attempt.number)")
            return notebook
        }
        #expect(result === notebook && notebook.lines == ["attempt 1"])
    }

    @Test func theOperationRunsInADetachedTask() async throws {
        let bus = RetryBus(ReachabilityMonitor())
        let running = Task.detached { () async throws -> [String] in
            let notebook = Notebook()
            let result = try await bus.retry { attempt -> Notebook in
                // A suspension, after which any thread of the pool may continue.
                await Task.yield()
                notebook.lines.append("attempt \(attempt.number)")
                return notebook
            }
            return result.lines
        }
        #expect(try await running.value == ["attempt 1"])
    }

    @Test func withRetryKeepsTheCallersActor() async throws {
        actor Counter {
            var count = 0
            func work() async throws -> Int {
                try await withRetry(on: ReachabilityMonitor(SimulatedNetwork.online())) { _ in
                    self.assertIsolated()
                    count += 1
                    return count
                }
            }
        }
        #expect(try await Counter().work() == 1)
    }

    #if compiler(>=6.3)
    private static let canInheritExecutors = true
    #else
    private static let canInheritExecutors = false
    #endif

    /// Runs jobs on the thread that enqueues them, and counts them.
    final class CountingExecutor: TaskExecutor {
        let jobs = Atomic(0)

        func enqueue(_ job: consuming ExecutorJob) {
            jobs.add(1, ordering: .relaxed)
            let job = UnownedJob(job)
            let executor = asUnownedTaskExecutor()
            Task.detached { job.runSynchronously(on: executor) }
        }
    }

    @Test(.enabled(if: canInheritExecutors, "Swift 6.2 has no way to ask for the preference"))
    func operationRunsOnItsCallersExecutorPreference() async throws {
        let bus = RetryBus(ReachabilityMonitor())
        let executor = CountingExecutor()
        try await withTaskExecutorPreference(executor) {
            try await bus.retry { _ in
                // Each suspension makes one more job for the executor.
                await Task.yield()
                let before = executor.jobs.load(ordering: .relaxed)
                await Task.yield()
                #expect(executor.jobs.load(ordering: .relaxed) > before)
            }
        }
    }

    enum Settings {
        @TaskLocal static var user = "guest"
    }

    @Test func taskLocalValuesReachTheOperation() async throws {
        let bus = RetryBus(ReachabilityMonitor())
        let user = try await Settings.$user.withValue("ada") {
            try await bus.retry { _ in
                // The value has to outlive a suspension.
                await Task.yield()
                return Settings.user
            }
        }
        #expect(user == "ada")
    }
}
