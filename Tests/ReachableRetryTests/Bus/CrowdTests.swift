import Reachability
import ReachabilityTesting
import ReachableRetry
import Synchronization
import Testing

/// Many jobs at once.
@Suite(.timeLimit(.minutes(10))) struct CrowdTests {
    private static let size = 10_000

    final class Counters: Sendable {
        let attempts = Atomic(0)
        let cancelled = Atomic(0)
        let offline = Atomic(0)
    }

    @Test func oneReconnectStartsTenThousandJobsOnce() async throws {
        try await Scenario(online: false).run { scenario in
            let (bus, monitor, counters) = (scenario.bus, scenario.monitor, Counters())
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<Self.size {
                    // On all threads at once.
                    group.addTask(executorPreference: globalConcurrentExecutor) {
                        try await bus.retry(options: JobOptions(id: JobID("\(number)"))) { _ in
                            counters.attempts.add(1, ordering: .relaxed)
                            if !monitor.path.isSatisfied { counters.offline.add(1, ordering: .relaxed) }
                        }
                    }
                }
                for number in 0..<Self.size { try await bus.parked(JobID("\(number)")) }
                #expect(bus.nextWakeUp == nil && counters.attempts.load(ordering: .relaxed) == 0)
                try scenario.network.plug("eth0")
                try await group.waitForAll()
            }
            #expect(counters.attempts.load(ordering: .relaxed) == Self.size)
            #expect(counters.offline.load(ordering: .relaxed) == 0)
            #expect(bus.usage == [0, 0, 0, 0, 0])
        }
    }

    @Test(arguments: [1, 2, 3] as [UInt64]) func randomCancellationsLeaveNothing(seed: UInt64) async throws {
        try await Scenario(online: false, seed: seed).run { scenario in
            let (bus, counters) = (scenario.bus, Counters())
            var generator = SeededGenerator(seed: seed)
            let login = ConditionSource("login", isSatisfied: false)
            let policy = RetryPolicy.scenario.giveUpAfter(elapsed: .seconds(3600)).attemptTimeout(.seconds(10))
            var tasks: [Task<Void, Never>] = []
            for number in 0..<2000 {
                let conditions = number % 3 == 0 ? [login.condition] : []
                tasks.append(
                    Task(executorPreference: globalConcurrentExecutor) {
                        do {
                            try await bus.retry(policy, options: JobOptions(when: conditions)) { attempt in
                                counters.attempts.add(1, ordering: .relaxed)
                                // A suspension, so that cancelling meets attempts as well.
                                await Task.yield()
                                if attempt.number < 3 { throw Trouble.other }
                            }
                        } catch is CancellationError {
                            counters.cancelled.add(1, ordering: .relaxed)
                        } catch {
                            Issue.record("\(error), seed \(seed)")
                        }
                    })
            }
            // Cancelling, connecting and time race with jobs that are being submitted.
            for step in 0..<2000 {
                if let task = tasks.randomElement(using: &generator), Bool.random(using: &generator) { task.cancel() }
                switch step {
                case 500, 1500: try scenario.network.plug("eth0")
                case 1000: try scenario.network.pull("eth0")
                case 1200: login.set(true)
                default: break
                }
                // Gives the jobs this thread from time to time.
                if step % 100 == 0 { await Task.yield() }
                if step % 10 == 0 { scenario.clock.advance(by: .milliseconds(20)) }
            }
            for task in tasks { task.cancel() }
            for task in tasks { await task.value }
            #expect(counters.cancelled.load(ordering: .relaxed) > 100, "seed \(seed)")
            #expect(bus.usage == [0, 0, 0, 0, 0], "seed \(seed)")
            #expect(bus.nextWakeUp == nil, "seed \(seed)")
            #expect(login.condition.storage.listenerCount == 0, "seed \(seed)")
        }
    }
}
