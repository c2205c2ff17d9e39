import Glibc
import Reachability
import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

/// Worlds settle after every change and every deadline.
@Suite(.timeLimit(.minutes(10))) struct TestWorldTests {
    private struct Refusal: Error {}

    private static let policy = RetryPolicy(.constant(.seconds(10))).giveUpAfter(maxAttempts: 3)

    @Test func offlineJobStartsOnReconnect() async throws {
        try await TestWorld().run { world in
            try world.network.pull("eth0")
            let upload = world.start { try await world.bus.retry { _ in world.clock.now.offset } }
            await world.clock.advance(by: .seconds(3600))
            #expect(world.bus.pending.map(\.state) == [.waiting])
            try world.network.plug("eth0")
            await world.settle()
            #expect(world.bus.pending.isEmpty)
            try await #expect(upload.value == .seconds(3600))
        }
    }

    @Test func settlingWaitsForChildTasks() async throws {
        try await TestWorld().run { world in
            async let first = world.bus.retry(options: JobOptions(id: "a")) { _ in try await world.clock.sleep(for: .seconds(1)) }
            async let second = world.bus.retry(options: JobOptions(id: "b")) { _ in try await world.clock.sleep(for: .seconds(2)) }
            await world.settle()
            #expect(world.clock.manual.sleepers == 2 && world.bus.pending.map(\.state) == [.running, .running])
            await world.clock.advance(by: .seconds(1))
            #expect(world.bus.pending.map(\.id) == ["b"])
            await world.clock.advance(by: .seconds(1))
            #expect(world.bus.pending.isEmpty)
            _ = try await (first, second)
        }
    }

    /// Each attempt fails and the next one follows after 10 s, in one call of `advance`.
    @Test func advanceStopsAtEveryDeadline() async throws {
        try await TestWorld().run { world in
            let starts = Recorder<Duration>()
            let job = world.start {
                try await world.bus.retry(Self.policy) { _ in
                    starts.record(world.clock.now.offset)
                    try await world.clock.sleep(for: .seconds(1))
                    throw Refusal()
                }
            }
            await world.clock.advance(by: .seconds(60))
            #expect(starts.value == [.zero, .seconds(11), .seconds(22)] && world.clock.now.offset == .seconds(60))
            await #expect(throws: Refusal.self) { try await job.value }
        }
    }

    /// Each of thirty tasks wakes the next one.
    @Test func settlingFollowsChainOfTasks() async throws {
        try await TestWorld().run { world in
            var links = [AsyncStream.makeStream(of: Int.self)]
            let ends = Recorder<Int>()
            for _ in 0..<30 {
                let (from, to) = (links[links.count - 1].stream, AsyncStream.makeStream(of: Int.self))
                links.append(to)
                world.start { for await number in from { to.continuation.yield(number + 1) } }
            }
            let last = links[30].stream
            world.start { for await number in last { ends.record(number) } }
            for round in 0..<100 {
                links[0].continuation.yield(round * 1000)
                await world.settle()
                #expect(ends.value.last == round * 1000 + 30)
            }
            for link in links { link.continuation.finish() }
        }
    }

    @Test func settlingWaitsForSubmittedAndSharedJobs() async throws {
        try await TestWorld().run { world in
            try world.network.pull("eth0")
            let done = Recorder<String>()
            try world.bus.job(options: JobOptions(id: "submitted")) { _ in
                try await world.clock.sleep(for: .seconds(1))
                done.record("submitted")
            }.submit()
            for _ in 1...2 {
                world.start { try await world.bus.retry(joining: "shared") { _ in done.record("shared") } }
            }
            await world.settle()
            #expect(Set(world.bus.pending.map(\.state)) == [.waiting] && world.bus.pending.count == 2)
            try world.network.plug("eth0")
            await world.clock.advance(by: .seconds(1))
            #expect(done.value.sorted() == ["shared", "submitted"] && world.bus.pending.isEmpty)
        }
    }

    /// The world does not run these tasks, yet settles after their jobs sleep.
    @Test func settlingWaitsForJobsOfOtherTasks() async throws {
        try await TestWorld().run { world in
            try world.network.pull("eth0")
            let tasks = (1...50).map { _ in
                Task.immediate(executorPreference: globalConcurrentExecutor) { try await world.bus.retry { _ in } }
            }
            await world.settle()
            #expect(world.bus.isQuiet && world.bus.pending.count == 50)
            for task in tasks { task.cancel() }
            for task in tasks { _ = await task.result }
        }
    }

    @Test func bodyRunsOnWorldsThread() async throws {
        try await TestWorld().run { world in
            let first = pthread_self()
            await world.settle()
            #expect(pthread_equal(first, pthread_self()) != 0)
        }
    }

    /// A follower on another thread would publish after the world has settled.
    @Test func conditionFollowsSequenceInWorld() async throws {
        try await TestWorld().run { world in
            let (levels, input) = AsyncStream.makeStream(of: Void.self)
            let condition = Condition("in the world", levels.map { withUnsafeCurrentTask { $0?.unownedTaskExecutor != nil } })
            input.yield()
            await world.settle()
            #expect(condition.state.isSatisfied)
        }
    }

    @Test func bodysErrorIsRethrown() async throws {
        await #expect(throws: Refusal.self) { try await TestWorld().run { _ in throw Refusal() } }
    }

    @Test func monitorsErrorIsRethrown() async throws {
        let world = TestWorld()
        try await world.run { world in #expect(world.monitor.path.isSatisfied) }
        let error = await #expect(throws: ReachabilityError.self) { try await world.run { _ in Issue.record("it ran twice") } }
        #expect(error?.code == .alreadyRun)
    }

    @Test func worldSettlesOutsideRun() async throws {
        let world = TestWorld()
        let sleeper = world.start { try await world.clock.sleep(for: .seconds(1)) }
        await world.clock.advance(by: .seconds(0.4))
        await world.clock.advance(by: .seconds(0.6))
        #expect(world.clock.manual.sleepers == 0)
        try await sleeper.value
    }

    /// The gate's delays after network failures are exact to the millisecond.
    @Test func gatesWithoutJitterAreExact() async throws {
        var configuration = RetryBus.Configuration()
        configuration.releasePolicy = .tuned(backoff: .seconds(1.1), jitter: false)
        try await TestWorld(busConfiguration: configuration).run { world in
            let starts = Recorder<Duration>()
            let policy = Self.policy.classify { _ in .network }
            world.start {
                try await world.bus.retry(policy) { _ in
                    starts.record(world.clock.now.offset)
                    throw Refusal()
                }
            }
            await world.settle()
            try world.network.pull("eth0")
            try world.network.plug("eth0")
            await world.settle()
            let first = starts.value.count
            await world.clock.advance(by: .seconds(1.1))
            await world.clock.advance(by: .seconds(2.2))
            let times = starts.value.dropFirst(first)
            #expect(Array(times) == [.milliseconds(1100), .milliseconds(3300)], "\(starts.value)")
        }
    }

    @Test func percentageBudgetUsesGivenClock() async throws {
        let network = SimulatedNetwork.online()
        let budget = RetryBudget.percentage(0, minimumPerSecond: 1, window: .seconds(1), clock: network.clock)
        try await TestWorld(network).run { world in
            let policy = RetryPolicy(.immediate).classify { _ in .server }.budget(budget)
            func attempts() async -> Int {
                let numbers = Recorder<Int>()
                _ = try? await world.bus.retry(policy) { attempt in
                    numbers.record(attempt.number)
                    throw Refusal()
                }
                return numbers.value.count
            }
            #expect(await attempts() == 2)
            #expect(await attempts() == 1, "this second's retry is used up")
            await world.clock.advance(by: .seconds(1))
            #expect(await attempts() == 2)
        }
    }
}
