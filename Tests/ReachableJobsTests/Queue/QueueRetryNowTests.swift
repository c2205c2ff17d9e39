import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import Synchronization
import Testing

/// `JobQueue.retryNow()`.
@Suite(.timeLimit(.minutes(10))) struct QueueRetryNowTests {
    private struct Trouble: Error {}

    /// The attempts of the handlers.
    private final class Attempts: Sendable {
        private let texts = Mutex<[String]>([])
        var all: [String] { texts.withLock(\.self) }
        func note(_ text: String) { texts.withLock { $0.append(text) } }
    }

    @Test func jobsThatBackOffStartAtOnce() async throws {
        try await TestWorld().run { world in
            let attempts = Attempts()
            let policy = RetryPolicy.default.giveUpAfter(maxAttempts: nil)
                .backoff(.constant(.seconds(3600)).jitter(.none)).classify { _ in .server }
            let worker = JobQueue(world.store, bus: world.bus)
            worker.registerJob(parameters: Send.self, policy: policy) { send, attempt in
                attempts.note("\(send.text) \(attempt.number)")
                if attempt.number == 1 { throw Trouble() }
            }
            let running = world.start { await worker.run() }
            // Another process asks, as the service does: it runs no jobs.
            let other = JobQueue(world.store, bus: world.bus)
            #expect(try await other.retryNow() == 0)
            for text in ["a", "b"] { try await worker.push(Send(text)) }
            try await worker.push(Send("later", delay: .seconds(7200)))
            await world.clock.advance(by: .seconds(60))
            #expect(attempts.all.sorted() == ["a 1", "b 1"])
            #expect(try await other.retryNow() == 2)
            await world.clock.advance(by: .seconds(60))
            #expect(attempts.all.sorted() == ["a 1", "a 2", "b 1", "b 2"])
            #expect(try await other.retryNow() == 0)
            await worker.shutdown(drain: .zero)
            await running.value
        }
    }

    @Test func moreJobsThanOnePageAreFound() async throws {
        let store = MemoryStore()
        let queue = JobQueue(store, bus: RetryBus(ReachabilityMonitor()))
        _ = try await queue.push((0..<2500).map { Send("\($0)") })
        let worker = try await store.register(queue: "default", node: "here")
        var (lanes, claimed): ([Lane], Int) = ([], 0)
        while claimed < 2500 {
            let claims = try await store.claim(
                ClaimRequest(
                    worker: worker, limit: 1000, lanes: lanes.map { .init(lane: $0.id) }, lastKnownLane: lanes.last?.id ?? 0))
            lanes += claims.newLanes
            let results = claims.jobs.map {
                AttemptResult(
                    $0.ticket, .again(soft: .seconds(3600), isNetwork: false, hard: nil), counters: $0.job.counters)
            }
            _ = try await store.finish(results, by: worker)
            claimed += results.count
            try #require(!results.isEmpty || claims.hasMore || !claims.newLanes.isEmpty)
        }
        #expect(try await queue.retryNow() == 2500)
        #expect(try await queue.retryNow() == 0)
    }
}
