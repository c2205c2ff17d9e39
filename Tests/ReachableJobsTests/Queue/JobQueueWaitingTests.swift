import Foundation
import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import Synchronization
import Testing

/// The reasons why the jobs of a queue wait, as a running worker and another process see them.
@Suite(.timeLimit(.minutes(10))) struct JobQueueWaitingTests {
    private static let policy = RetryPolicy.tests.backoff(.constant(.seconds(60)).jitter(.none)).giveUpAfter(maxAttempts: 2)

    private func inWorld(
        online: Bool = true, conditions: [Condition] = [], maxConcurrent: Int? = nil,
        handler: @escaping TestWorld.Handler = { _, _, _ in },
        _ body: @escaping @Sendable (TestWorld, JobQueue) async throws -> Void
    ) async throws {
        try await TestWorld.withQueue(
            online: online, places: 2, policy: Self.policy, conditions: conditions, maxConcurrent: maxConcurrent, handler: handler
        ) { world, queue, _ in try await body(world, queue) }
    }

    private static let sleeps: TestWorld.Handler = { world, _, _ in try await world.clock.sleep(for: .seconds(5)) }

    private static func words(_ queue: JobQueue) async throws -> [String] {
        try await queue.pending(queue.jobs().map(\.id)).map(\.reason)
    }

    @Test func networkAndConditionsAreNamed() async throws {
        let login = ConditionSource("logged in", isSatisfied: false)
        try await inWorld(online: false, conditions: [login.condition]) { world, queue in
            try await queue.push([Send("a"), Send("b", address: "203.0.113.5")])
            await world.settle()
            let reasons = "eth0 has no carrier (noCarrier), and waits for condition 'logged in'"
            #expect(try await Self.words(queue) == ["the network", "a path to 203.0.113.5"].map { "waits for \($0): \(reasons)" })
            try world.network.plug("eth0")
            await world.settle()
            let id = try #require(await queue.jobs().first?.id)
            #expect(try await queue.waitingFor(id) == ["waits for condition 'logged in'"])
            login.set(true)
            await world.clock.advance(by: .seconds(3))
            #expect(try await Self.words(queue) == ["succeeded", "succeeded"])
            #expect(try await queue.waitingFor(id) == [])
            #expect(try await queue.waitingFor(DurableJobID()) == [])
        }
    }

    @Test func delaysAndFailuresAreNamed() async throws {
        let fails: TestWorld.Handler = { _, text, _ in
            if text == "busy" { throw Busy() }
            if text == "lost" { throw Lost() }
            throw Trouble()
        }
        try await inWorld(handler: fails) { world, queue in
            try await queue.push(Send("later", delay: .seconds(90)))
            try await queue.push(Send("broken"))
            await world.settle()
            try await queue.push(Send("busy", destination: "api"))
            await world.settle()
            try await queue.push(Send("behind", destination: "api"))
            await world.clock.advance(by: .seconds(10))
            let held = "waits 20 s: api ordered a delay"
            let busy = "backs off for 50 s after the error Busy(), and the server ordered a delay of 20 s, and \(held)"
            let words = ["is due in 80 s", "backs off for 50 s after the error on fire", busy, held]
            #expect(try await Self.words(queue) == words)
            let lost = try await queue.push(Send("lost")).id
            await world.settle()
            #expect(try await queue.waitingFor(lost) == ["backs off for 500 ms after a network failure"])
            try world.network.pull("eth0")
            await world.settle()
            #expect(try await queue.waitingFor(lost).last == "waits for the network: eth0 has no carrier (noCarrier)")
        }
    }

    @Test func limitsAndTheBusAreNamed() async throws {
        try await inWorld(maxConcurrent: 1, handler: Self.sleeps) { world, queue in
            try await queue.push([Send("a"), Send("b")])
            await world.settle()
            #expect(
                try await Self.words(queue)
                    == ["attempt 1 is running", "waits for its turn: 1 job of the kind 'send', as many as may at a time"])
        }
        try await inWorld(handler: Self.sleeps) { world, queue in
            try await queue.push([Send("a"), Send("b"), Send("c")])
            await world.settle()
            #expect(
                try await Self.words(queue) == [
                    "attempt 1 is running", "attempt 1 is running",
                    "waits for its turn: the worker has claimed as many jobs as it may",
                ])
        }
    }

    /// A process that does not run the queue tells what the store knows.
    @Test func otherProcessKnowsTheStoresPart() async throws {
        try await inWorld(online: false) { world, queue in
            let visitor = JobQueue(world.store, bus: world.bus)
            let id = try await queue.push(Send("a")).id
            try await queue.push(Send("b", delay: .seconds(5)))
            #expect(try await Self.words(visitor) == ["waits for a worker of another process", "is due in 5 s"])
            try await visitor.pause()
            #expect(try await visitor.waitingFor(id) == ["the queue is paused until it is resumed"])
            try await visitor.resume()
            try world.network.plug("eth0")
            await queue.shutdown()
            await world.settle()
            let third = try await visitor.push(Send("c")).id
            #expect(try await visitor.waitingFor(third) == ["waits for a worker: none runs"])
        }
    }

    @Test func workersAndTheirJobsAreKnown() async throws {
        try await inWorld(handler: Self.sleeps) { world, queue in
            let id = try await queue.push(Send("a")).id
            // A worker of another queue.
            _ = try await world.store.register(queue: "other", node: "node")
            await world.settle()
            let worker = try #require(await queue.workers.first)
            #expect(try await queue.workers.count == 1)
            #expect(worker.claims == 1 && worker.process == Int(getpid()))
            #expect(try await queue.pending([id]).map(\.worker) == [worker.id])
            await world.clock.advance(by: .seconds(5))
            #expect(try await queue.workers.map(\.claims) == [0])
            #expect(try await queue.pending([id]).map(\.worker) == [nil])
        }
    }

    @Test func noAnswerHasAPayload() async throws {
        try await inWorld(online: false) { world, queue in
            try await queue.push(Send("confidential"))
            let id = try #require(await queue.jobs().first?.id)
            let pending = try #require(await queue.pending([id]).first)
            #expect(pending.job.payload.isEmpty)
            #expect(!"\(pending) \(pending.reasons)".contains("confidential"))
        }
    }
}
