import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import Synchronization
import Testing

/// Many stored jobs that something has held: they pass the gate in steps, whatever it was.
@Suite(.timeLimit(.minutes(10))) struct QueueBacklogTests {
    /// The attempts of a test.
    private final class Crowd: Sendable {
        struct Counts: Equatable {
            var started = 0
            var running = 0
            var most = 0
            var succeeded = 0
        }

        private let counts = Mutex<[String: Counts]>([:])
        let clock: WorldClock

        init(_ clock: WorldClock) { self.clock = clock }

        subscript(destination: String) -> Counts { counts.withLock { $0[destination] ?? Counts() } }

        func attempt(_ destination: String) async throws {
            counts.withLock { counts in
                var old = counts[destination] ?? Counts()
                (old.started, old.running) = (old.started + 1, old.running + 1)
                old.most = max(old.most, old.running)
                counts[destination] = old
            }
            try await clock.sleep(for: .milliseconds(100))
            counts.withLock { counts in
                counts[destination]?.running -= 1
                counts[destination]?.succeeded += 1
            }
        }
    }

    private static let count = 1000

    /// Makes a queue whose jobs have the name of their destination, or `-`.
    private func withQueue(
        conditions: [Condition] = [], _ body: @escaping @Sendable (TestWorld, JobQueue, Crowd) async throws -> Void
    ) async throws {
        try await TestWorld.gated { world in
            let crowd = Crowd(world.clock)
            try await body(world, world.queue(conditions: conditions) { _, text, _ in try await crowd.attempt(text) }, crowd)
        }
    }

    private func push(_ queue: JobQueue, _ job: Send = Send("-")) async throws {
        try await queue.push([Send](repeating: job, count: Self.count))
    }

    /// Checks that the jobs start in steps, the first of them now.
    private func expectSteps(_ world: TestWorld, _ crowd: Crowd, _ steps: [Int], of destination: String = "-") async {
        await world.settle()
        var running = [crowd[destination].running]
        while running.count < steps.count {
            await world.clock.advance(by: .milliseconds(100))
            running.append(crowd[destination].running)
        }
        #expect(running == steps)
        await world.clock.advance(by: .seconds(100))
        #expect(crowd[destination].succeeded >= Self.count && crowd[destination].most == 16)
    }

    @Test(arguments: [nil, "192.0.2.7"], ["-", "server"])
    func firstReconnectOfAScopeLetsOneJobGo(address: String?, destination: String) async throws {
        try await withQueue { world, queue, crowd in
            try await world.running(queue) {
                try world.network.pull("eth0")
                try await push(queue, Send(destination, destination: destination == "-" ? nil : destination, address: address))
                await world.clock.advance(by: .seconds(60))
                #expect(crowd[destination].started == 0)
                try world.network.plug("eth0")
                await expectSteps(world, crowd, [1, 2, 4, 8, 16, 16], of: destination)
            }
            #expect(world.bus.usage == [0, 0, 0, 0, 0])
        }
    }

    @Test(arguments: [true, false]) func aStartWithAFullQueueLetsOneJobGoFirst(online: Bool) async throws {
        try await withQueue { world, queue, crowd in
            try await push(queue)
            if !online { try world.network.pull("eth0") }
            try await world.running(queue) {
                if !online {
                    await world.clock.advance(by: .seconds(60))
                    try world.network.plug("eth0")
                }
                await expectSteps(world, crowd, [1, 2, 4, 8, 16, 16])
            }
        }
    }

    @Test func eachDestinationHasItsFirstJob() async throws {
        try await withQueue { world, queue, crowd in
            try await world.running(queue) {
                try world.network.pull("eth0")
                for name in ["a", "b"] { try await queue.push([Send](repeating: Send(name, destination: name), count: 40)) }
                await world.settle()
                try world.network.plug("eth0")
                await world.settle()
                #expect(crowd["a"].started == 1 && crowd["b"].started <= 1)
                await world.clock.advance(by: .seconds(100))
                for name in ["a", "b"] { #expect(crowd[name].succeeded == 40 && crowd[name].most <= 16) }
            }
        }
    }

    /// After a pause, or while a condition is not satisfied; a gate that has let a job go since is further.
    @Test(arguments: [false, true], [false, true])
    func whatWasHeldStartsInSteps(isProven: Bool, byCondition: Bool) async throws {
        let power = ConditionSource("power", isSatisfied: isProven || !byCondition)
        try await withQueue(conditions: byCondition ? [power.condition] : []) { world, queue, crowd in
            try await world.running(queue) {
                if isProven { try await queue.push(Send("-")) }
                await world.clock.advance(by: .seconds(60))
                if byCondition { power.set(false) } else { try await queue.pause() }
                await world.settle()
                try await push(queue)
                await world.clock.advance(by: .seconds(60))
                if byCondition { power.set(true) } else { try await queue.resume() }
                await expectSteps(world, crowd, isProven ? [2, 4, 8, 16, 16] : [1, 2, 4, 8, 16, 16])
            }
        }
    }

    /// On a network that works nothing was held.
    @Test func jobsThatArePushedOnlineStartAtOnce() async throws {
        try await withQueue { world, queue, crowd in
            try await world.running(queue) {
                try await queue.push(Send("-"))
                await world.clock.advance(by: .seconds(60))
                try await queue.push([Send](repeating: Send("-"), count: 40))
                await world.settle()
                #expect(crowd["-"].running == 40)
                await world.clock.advance(by: .seconds(60))
            }
        }
    }
}
