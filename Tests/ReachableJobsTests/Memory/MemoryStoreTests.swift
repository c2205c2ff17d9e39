import FoundationEssentials
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import Testing

@Suite(.timeLimit(.minutes(20)))
struct MemoryStoreTests {
    @Test func jobsComeByPriorityThenPosition() async throws {
        let desk = try await StoreDesk()
        try await desk.push("bulk") { $0.priority = .bulk }
        try await desk.push("first") { $0.destination = "b" }
        try await desk.push("second") { $0.destination = "a" }
        try await desk.push("urgent") { $0.priority = .interactive }
        #expect(try await desk.names() == ["urgent", "first", "second", "bulk"])
    }

    @Test func retriedPredecessorWaitsForRunningFollower() async throws {
        let desk = try await StoreDesk()
        let first = try await desk.push("first") { $0.serialKey = "s" }
        try await desk.push("second") { $0.serialKey = "s" }
        #expect(try await desk.store.cancel([first.id]) == [.cancelled])
        let second = try await desk.claim().jobs
        #expect(second.count == 1)
        #expect(try await desk.store.retry([first.id]) == [true])
        #expect(try await desk.names() == [])
        #expect(try await desk.job(first.id)?.isBlocked == true)
        try await desk.finish(second[0], .succeeded)
        #expect(try await desk.names() == ["first"])
    }

    @Test func networkDelayEndsWithLaterEdgeOnly() async throws {
        let desk = try await StoreDesk()
        try await desk.push("old")
        try await desk.push("other")
        let claimed = try await desk.claim().jobs
        try await desk.pass(.seconds(5))
        let failed = desk.store.now
        try await desk.finish(claimed[0], .again(soft: .seconds(60), isNetwork: true, hard: nil))
        try await desk.finish(claimed[1], .again(soft: .seconds(60), isNetwork: false, hard: nil))
        #expect(try await desk.names(edge: failed) == [])
        let claims = try await desk.claim()
        #expect(claims.jobs == [] && claims.nextDue == failed.advanced(by: .seconds(60)))
        #expect(try await desk.names(edge: failed.advanced(by: .nanoseconds(1))) == ["old"])
        try await desk.pass(.seconds(60))
        #expect(try await desk.names() == ["other"])
    }

    @Test func replacementMovesLaneAndKeepsPosition() async throws {
        let desk = try await StoreDesk()
        let old = try await desk.push("old") { ($0.unique, $0.destination) = (.replace("u"), "a") }
        try await desk.push("between")
        let receipt = try await desk.push("new") { ($0.unique, $0.destination) = (.replace("u"), "b") }
        #expect(receipt == PushReceipt(id: old.id, outcome: .replaced))
        let jobs = try await desk.claim().jobs.map(\.job)
        #expect(jobs.map { String(decoding: $0.payload, as: UTF8.self) } == ["new", "between"])
        #expect(jobs[0].destination == "b" && jobs[0].idempotencyKey != old.id.description)
    }

    @Test func laneNamedTwiceIsOpenOnce() async throws {
        let desk = try await StoreDesk()
        for name in ["a", "b", "c"] { try await desk.push(name) }
        let lanes = [ClaimRequest.Open(lane: 1, limit: 1), ClaimRequest.Open(lane: 1)]
        let claims = try await desk.store.claim(ClaimRequest(worker: desk.worker, limit: 5, lanes: lanes, lastKnownLane: 1))
        #expect(claims.jobs.map(\.job.position) == [1] && claims.hasMore)
    }

    @Test func bulkJobAgesWhileItsLaneIsOpen() async throws {
        let desk = try await StoreDesk()
        try await desk.push("bulk") { $0.priority = .bulk }
        _ = try await desk.claim(0)
        try await desk.pass(.seconds(3600))
        try await desk.push("normal")
        try await desk.push("urgent") { $0.priority = .interactive }
        #expect(try await desk.names() == ["urgent", "bulk", "normal"])
    }

    @Test func destinationsThatComeOnceLeaveNothing() async throws {
        let desk = try await StoreDesk()
        let jobs = (0..<10_000).map { number in
            var job = NewJob(queue: "q", kind: "k", payload: Data())
            job.destination = "host \(number)"
            return job
        }
        for _ in 0..<2 {
            _ = try await desk.store.push(
                jobs.map { job in
                    var job = job
                    job.id = DurableJobID()
                    return job
                }, limit: nil)
            for claimed in try await desk.claim(.max).jobs { try await desk.finish(claimed, .succeeded, hold: .seconds(1)) }
            try await desk.pass(.seconds(2))
            while try await desk.store.prune(Retention(succeeded: .zero, failed: .zero), limit: 1000) > 0 {}
            #expect(try await desk.claim(0).newLanes == [])
        }
    }

    @Test func leaseEndsWithoutHeartbeat() async throws {
        var desk = try await StoreDesk()
        try await desk.push("a")
        let claimed = try await desk.claim().jobs[0]
        #expect(try await desk.store.start([claimed.ticket], by: desk.worker) == [true])
        let old = desk.worker
        desk.clock.advance(by: StoreLease.duration)
        desk.worker = try await desk.store.register(queue: "q", node: "n")
        let again = try await desk.claim().jobs[0]
        #expect(again.claim > claimed.claim)
        #expect(again.job.counters.crashes == 0)
        let result = AttemptResult(claimed.ticket, .succeeded, counters: .init())
        #expect(try await desk.store.finish([result], by: old) == [.refused])
        await #expect(throws: JobStoreError.self) { try await desk.store.extend(old) }
    }

    @Test func crashCountsStartedAttempts() async throws {
        var desk = try await StoreDesk()
        try await desk.push("started")
        try await desk.push("claimed")
        let claimed = try await desk.claim().jobs
        _ = try await desk.store.start([claimed[0].ticket], by: desk.worker)
        desk.store.crash(desk.worker)
        desk.worker = try await desk.store.register(queue: "q", node: "n")
        #expect(try await desk.claim().jobs.map(\.job.counters.crashes) == [1, 0])
        desk.store.reboot()
        desk.worker = try await desk.store.register(queue: "q", node: "n")
        #expect(try await desk.claim().jobs.map(\.job.counters.crashes) == [1, 0])
    }
}
