import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import Synchronization
import Testing

/// `JobQueue.retryNow()`.
@Suite(.timeLimit(.minutes(10))) struct QueueRetryNowTests {
    @Test func jobsThatBackOffStartAtOnce() async throws {
        let policy = RetryPolicy.default.giveUpAfter(maxAttempts: nil).backoff(.constant(.seconds(3600)).jitter(.none))
            .classify { _ in .server }
        let fails: TestWorld.Handler = { _, _, attempt in if attempt.number == 1 { throw Trouble() } }
        try await TestWorld.withQueue(policy: policy, handler: fails) { world, worker, attempts in
            // Another process asks, as the service does: it runs no jobs.
            let other = JobQueue(world.store, bus: world.bus)
            #expect(try await other.retryNow() == 0)
            for text in ["a", "b"] { try await worker.push(Send(text)) }
            try await worker.push(Send("later", delay: .seconds(7200)))
            await world.clock.advance(by: .seconds(60))
            #expect(attempts.value.sorted() == ["a 1", "b 1"])
            #expect(try await other.retryNow() == 2)
            await world.clock.advance(by: .seconds(60))
            #expect(attempts.value.sorted() == ["a 1", "a 2", "b 1", "b 2"])
            #expect(try await other.retryNow() == 0)
        }
    }

    @Test func moreJobsThanOnePageAreFound() async throws {
        let store = MemoryStore()
        let queue = JobQueue(store, bus: RetryBus(ReachabilityMonitor()))
        _ = try await queue.push((0..<2500).map { Send("\($0)") })
        let worker = try await store.register()
        let results = try await store.claim(worker, 2500).jobs.map {
            AttemptResult($0.ticket, .again(soft: .seconds(3600), isNetwork: false, hard: nil), counters: $0.job.counters)
        }
        _ = try await store.finish(results, by: worker)
        #expect(try await queue.retryNow() == 2500)
        #expect(try await queue.retryNow() == 0)
    }
}
