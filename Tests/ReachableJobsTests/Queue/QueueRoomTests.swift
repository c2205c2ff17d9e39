import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import Synchronization
import TestSupport
import Testing

/// A worker claims what its bus can start: the rest stays in the store, for others to run, pause and replace.
@Suite(.timeLimit(.minutes(10))) struct QueueRoomTests {
    private struct Work: JobParameters {
        static let jobName = "work"
        var name = "-"
        var isBulk = false
        var options: DurableOptions { DurableOptions(destination: "server", priority: isBulk ? .bulk : .normal) }
    }

    /// A process whose jobs take 1 s.
    private struct Worker: Sendable {
        let process: TestProcess
        let queue: JobQueue
        let started = Recorder<String>()

        init(_ world: TestWorld) {
            process = world.launch()
            queue = JobQueue(process.store, bus: process.bus)
            queue.registerJob(parameters: Work.self) { [started, clock = world.clock] work, _ in
                started.record(work.name)
                try await clock.sleep(for: .seconds(1))
            }
            process.start { [queue] in await queue.run() }
        }
    }

    /// Runs a worker with bulk jobs that wait for a minute after a reconnect, which a claim cannot know.
    private func withSpreadJobs(_ body: @escaping @Sendable (TestWorld, Worker) async throws -> Void) async throws {
        try await TestWorld.gated(release: .tuned(spread: .seconds(3600), jitter: false)) { world in
            let worker = Worker(world)
            try world.network.pull("eth0")
            try await worker.queue.push([Work](repeating: Work(isBulk: true), count: 40))
            await world.settle()
            try world.network.plug("eth0")
            await world.settle()
            try await body(world, worker)
        }
    }

    /// The number of claimed jobs.
    private func claimed(_ queue: JobQueue) async throws -> Int {
        try await queue.counts.reduce(0) { $1.state == .running ? $0 + $1.count : $0 }
    }

    @Test func twoWorkersShareTheJobsByTheirPlaces() async throws {
        try await TestWorld.gated(maxConcurrent: 2) { world in
            let workers = [Worker(world), Worker(world)]
            await world.settle()
            try await workers[0].queue.push([Work](repeating: Work(), count: 16))
            await world.settle()
            #expect(workers.map(\.started.value.count) == [2, 2])
            #expect(try await claimed(workers[0].queue) == 4)
            await world.clock.advance(by: .milliseconds(3900))
            #expect(workers.map(\.started.value.count) == [8, 8])
            await world.clock.advance(by: .milliseconds(100))
            #expect(try await workers[0].queue.jobs().allSatisfy { $0.state == .succeeded })
        }
    }

    @Test func pauseStopsAllJobsThatHaveNotStarted() async throws {
        try await TestWorld.gated(maxConcurrent: 2) { world in
            let worker = Worker(world)
            await world.settle()
            try await worker.queue.push([Work](repeating: Work(), count: 16))
            await world.settle()
            try await worker.queue.pause()
            await world.clock.advance(by: .seconds(60))
            #expect(worker.started.value.count == 2)
            #expect(try await claimed(worker.queue) == 0)
            try await worker.queue.resume()
            await world.clock.advance(by: .seconds(60))
            #expect(worker.started.value.count == 16)
        }
    }

    @Test func replaceReplacesAllJobsThatHaveNotStarted() async throws {
        try await TestWorld.gated(maxConcurrent: 2) { world in
            let worker = Worker(world)
            await world.settle()
            let names = (0..<60).map { "\($0)" }
            try await worker.queue.push(names.map { Work(name: $0) }, uniqueBy: { .replace($0.name) })
            await world.settle()
            let receipts = try await worker.queue.push(names.map { Work(name: $0) }, uniqueBy: { .replace($0.name) })
            #expect(receipts.count { $0.outcome == .replaced } == 58)
            await world.clock.advance(by: .seconds(60))
            #expect(worker.started.value.count == 62)
        }
    }

    /// Each claimed job runs, in every step of the gate.
    @Test func claimsFollowTheGateAfterAReconnect() async throws {
        try await TestWorld.gated { world in
            let worker = Worker(world)
            try world.network.pull("eth0")
            try await worker.queue.push([Work](repeating: Work(), count: 1000))
            await world.settle()
            try world.network.plug("eth0")
            await world.settle()
            var steps = [try await claimed(worker.queue)]
            for _ in 0..<5 {
                await world.clock.advance(by: .seconds(1))
                steps.append(try await claimed(worker.queue))
            }
            #expect(steps == [1, 2, 4, 8, 16, 16] && worker.started.value.count == 47)
            await world.clock.advance(by: .seconds(100))
            #expect(worker.started.value.count == 1000)
        }
    }

    @Test func claimedJobsThatDoNotStartAreGivenBack() async throws {
        try await withSpreadJobs { world, worker async throws in
            #expect(try await claimed(worker.queue) == 1)
            await world.clock.advance(by: .milliseconds(100))
            #expect(try await claimed(worker.queue) == 0)
            #expect(worker.started.value.isEmpty)
            #expect(try await worker.queue.jobs().allSatisfy { $0.counters == .init() })
            await world.clock.advance(by: .seconds(3700))
            #expect(worker.started.value.count == 40)
        }
    }

    @Test func pauseGivesClaimedJobsBackAtOnce() async throws {
        try await withSpreadJobs { world, worker async throws in
            try await worker.queue.pause()
            await world.settle()
            #expect(try await claimed(worker.queue) == 0)
        }
    }

    /// A job of the program itself leaves its place to a stored one, after a heartbeat that had no room to claim.
    @Test func roomThatAnotherJobLeavesIsUsedAtOnce() async throws {
        try await TestWorld.gated(maxConcurrent: 1) { world in
            let worker = Worker(world)
            await world.settle()
            let direct = worker.process.start { [bus = worker.process.bus, clock = world.clock] in
                try await bus.retry { _ in try await clock.sleep(for: .seconds(15)) }
            }
            await world.settle()
            try await worker.queue.push(Work())
            await world.clock.advance(by: .milliseconds(14_999))
            #expect(try await claimed(worker.queue) == 0)
            await world.clock.advance(by: .milliseconds(1))
            #expect(worker.started.value.count == 1)
            try await direct.value
        }
    }
}
