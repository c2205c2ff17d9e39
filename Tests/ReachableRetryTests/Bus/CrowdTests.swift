import Reachability
import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

/// Many jobs at once.
@Suite(.timeLimit(.minutes(10))) struct CrowdTests {
    private static let size = 10_000

    @Test func oneReconnectStartsTenThousandJobsOnce() async throws {
        try await Scenario(online: false).run { scenario in
            let (bus, monitor, attempts, offline) = (scenario.bus, scenario.monitor, Counter(), Counter())
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<Self.size {
                    // On all threads at once.
                    group.addTask(executorPreference: globalConcurrentExecutor) {
                        try await bus.retry(options: JobOptions(id: JobID("\(number)"))) { _ in
                            attempts.add()
                            if !monitor.path.isSatisfied { offline.add() }
                        }
                    }
                }
                for number in 0..<Self.size { try await bus.parked(JobID("\(number)")) }
                #expect(bus.nextWakeUp == nil && attempts.value == 0)
                try scenario.network.plug("eth0")
                try await group.waitForAll()
            }
            #expect(attempts.value == Self.size)
            #expect(offline.value == 0)
            #expect(bus.usage == [0, 0, 0, 0, 0])
        }
    }

    @Test(arguments: [1, 2, 3] as [UInt64]) func randomCancellationsLeaveNothing(seed: UInt64) async throws {
        try await Scenario(online: false, seed: seed).run { scenario in
            let (bus, cancelled) = (scenario.bus, Counter())
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
                                // A suspension, so that cancelling meets attempts as well.
                                await Task.yield()
                                if attempt.number < 3 { throw Trouble.other }
                            }
                        } catch is CancellationError {
                            cancelled.add()
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
            #expect(cancelled.value > 100, "seed \(seed)")
            #expect(bus.usage == [0, 0, 0, 0, 0], "seed \(seed)")
            #expect(bus.nextWakeUp == nil, "seed \(seed)")
            #expect(login.condition.storage.listenerCount == 0, "seed \(seed)")
        }
    }
}
