import ReachableJobs
import Testing

/// The requirements of leases and of the ends of workers.
extension StoreSession {
    /// A worker that does not extend its lease loses its claims when the lease ends, and learns it; that is no crash.
    func checkLeases() async throws {
        let (lost, other) = (try await register(), try await register())
        try await push("a")
        let old = try await claimOne(lost)
        #expect(try await start(old, by: lost))
        try await pass(.seconds(25), other)
        #expect(try await names(other) == [])
        try await pass(.seconds(10), other)
        let new = try await claimOne(other)
        #expect(new.claim > old.claim)
        #expect(new.job.past == "a, outcome unknown")
        #expect(try await !finish(old, by: lost, .succeeded))
        #expect(try await !start(old, by: lost))
        await expectError(.unknownWorker) { try await store.extend(lost) }
        await expectError(.unknownWorker) { try await claim(lost) }
        #expect(try await finish(new, by: other, .succeeded))
    }

    /// A worker that extends its lease keeps its claims, and if no other worker has noticed, also one that extends it late.
    func checkHeartbeats() async throws {
        let (worker, other) = (try await register(), try await register())
        try await push("a")
        let claimed = try await claimOne(worker)
        try await pass(.seconds(300), worker, other)
        #expect(try await names(other) == [])
        #expect(try await start(claimed, by: worker))
        try await pass(.seconds(300), worker, other)
        try await pass(.seconds(40))
        _ = try await store.extend(worker)
        #expect(try await names(try await register()) == [])
        #expect(try await finish(claimed, by: worker, .succeeded))
    }

    /// `unregister` makes a worker's jobs available again, uncharged.
    func checkUnregistering() async throws {
        let (leaving, other) = (try await register(), try await register())
        for name in ["a", "b"] { try await push(name) }
        let old = try await claim(leaving).jobs
        _ = try await store.start(old.map(\.ticket), by: leaving)
        try await store.unregister(leaving)
        await expectError(.unknownWorker) { try await store.extend(leaving) }
        #expect(try await claim(other).jobs.map(\.job.past) == ["a", "b"])
        for job in old { #expect(try await !finish(job, by: leaving, .succeeded)) }
    }

    /// When a worker's process ends while the machine stays up, its jobs are available again, and each started attempt counts
    /// as a crash, which no later result changes.
    func checkCrashes() async throws {
        guard let crash = candidate.crash else { return }
        let (crashing, other) = (try await register(), try await register())
        for name in ["started", "claimed"] { try await push(name) }
        let old = try await claim(crashing).jobs
        let first = try #require(old.first)
        _ = try await start(first, by: crashing)
        try await crash(crashing)
        let new = try await claim(other).jobs
        let pasts = ["started, 1 crashed, outcome unknown", "claimed"]
        #expect(new.map(\.job.past) == pasts && new.map(\.job.counters.started) == [1, 0])
        #expect(try await !finish(first, by: crashing, .succeeded))
        for job in new {
            try await finish(job, by: other, .again(soft: .zero, isNetwork: false, hard: nil)) { $0.crashes = 0 }
        }
        #expect(try await find().map(\.past) == pasts)
    }

    /// After a reboot all jobs are available again, and no attempt counts as a crash.
    func checkReboots() async throws {
        guard let reboot = candidate.reboot else { return }
        let workers = [try await register(), try await register()]
        for name in ["a", "b", "c"] { try await push(name) }
        for worker in workers {
            for job in try await claim(worker, 1).jobs { _ = try await start(job, by: worker) }
        }
        try await store.setPaused(true, queue: Self.queue)
        try await reboot()
        let worker = try await register()
        #expect(try await claim(worker).isPaused)
        try await store.setPaused(false, queue: Self.queue)
        #expect(try await claim(worker).jobs.map(\.job.past) == ["a, outcome unknown", "b, outcome unknown", "c"])
    }

    /// `workers` returns those of a queue, or of all, with a valid lease, by number; each has its queue and node, the number of
    /// its claims, and the time since its last heartbeat.
    func checkListedWorkers() async throws {
        func expectWorkers(
            _ wanted: [WorkerID], of queue: String? = StoreSession.queue, sourceLocation: SourceLocation = #_sourceLocation
        ) async throws {
            for store in [store, candidate.peer] {
                #expect(try await store.workers(of: queue).map(\.id) == wanted, sourceLocation: sourceLocation)
            }
        }
        let otherQueue = "other\u{0}queue"
        try await expectWorkers([], of: nil)
        let (first, other) = (try await register(node: "a\u{0}b"), try await register(queue: otherQueue))
        let second = try await register(node: "second")
        try await expectWorkers([first, second])
        try await expectWorkers([other], of: otherQueue)
        try await expectWorkers([first, other, second], of: nil)
        try await expectWorkers([], of: "absent")
        let found = try await store.workers(of: nil)
        #expect(found.map(\.queue) == [Self.queue, otherQueue, Self.queue])
        #expect(found.map(\.node) == ["a\u{0}b", "node", "second"])

        for name in ["a", "b", "c"] { try await push(name) }
        func claims() async throws -> [Int] { try await store.workers(of: Self.queue).map(\.claims) }
        #expect(try await claims() == [0, 0])
        let claimed = try await claim(second, 2).jobs
        try #require(claimed.count == 2)
        _ = try await start(claimed[0], by: second)
        #expect(try await claims() == [0, 2])
        try await giveBack([claimed[1]], by: second)
        #expect(try await claims() == [0, 1])
        try await finish(claimed[0], by: second, .succeeded)
        #expect(try await claims() == [0, 0])

        try await store.unregister(other)
        try await expectWorkers([first, second], of: nil)
        try await pass(.seconds(20), second)
        let times = try await store.workers(of: Self.queue).map(\.sinceHeartbeat)
        try #require(times.count == 2)
        #expect(times[0] >= .seconds(20) && times[0] < StoreLease.duration && times[1] < StoreLease.heartbeat)
        try await pass(.seconds(11), second)
        try await expectWorkers([second])
        // No other worker removes this one.
        try await pass(.seconds(31))
        try await expectWorkers([], of: nil)
    }
}

extension DurableJob {
    /// The name, and what the ends of workers have left.
    fileprivate var past: String {
        var words = [name]
        if counters.crashes > 0 { words.append("\(counters.crashes) crashed") }
        if hasUnknownOutcome { words.append("outcome unknown") }
        if counters.charged > 0 { words.append("charged") }
        return words.joined(separator: ", ")
    }
}
