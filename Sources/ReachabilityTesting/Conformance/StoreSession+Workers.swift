internal import ReachableJobs

/// The requirements of leases and of the ends of workers.
extension StoreSession {
    /// A worker that does not extend its lease loses its claims when the lease ends, and learns it; that is no crash.
    func checkLeases() async throws {
        let (lost, other) = (try await register(), try await register())
        try await push("a")
        let old = try await claimOne(lost)
        try expect(try await start(old, by: lost), is: true, "the answer to `start`")
        try await pass(.seconds(25), other)
        try expect(try await names(other), is: [], "the jobs claimed within the lease of the first worker")
        try await pass(.seconds(10), other)
        let new = try await claimOne(other)
        try expect(new.claim > old.claim, "the number of the new claim, \(new.claim), is not above \(old.claim)")
        try expect(new.job.counters.crashes, is: 0, "the crashes after a lease has ended")
        try expect(new.job.counters.charged, is: 0, "the charged attempts after a lease has ended")
        try expect(new.job.hasUnknownOutcome, is: true, "`hasUnknownOutcome` after a lease has ended")
        try expect(try await finish(old, by: lost, .succeeded), is: false, "the answer to a late result")
        try expect(try await start(old, by: lost), is: false, "the answer to a late start")
        try await expect(.unknownWorker, from: "`extend` after the lease has ended") { try await store.extend(lost) }
        try await expect(.unknownWorker, from: "`claim` after the lease has ended") { try await claim(lost) }
        try expect(try await finish(new, by: other, .succeeded), is: true, "the answer to the result of the new claim")
    }

    /// A worker that extends its lease keeps its claims, and if no other worker has noticed, also one that extends it late.
    func checkHeartbeats() async throws {
        let (worker, other) = (try await register(), try await register())
        try await push("a")
        let claimed = try await claimOne(worker)
        try await pass(.seconds(300), worker, other)
        try expect(try await names(other), is: [], "the jobs claimed while the first worker extends its lease")
        try expect(try await start(claimed, by: worker), is: true, "the answer to `start` after 300 s")
        try await pass(.seconds(300), worker, other)
        try await pass(.seconds(40))
        _ = try await store.extend(worker)
        try expect(try await names(try await register()), is: [], "the jobs claimed after a late heartbeat of the first worker")
        try expect(try await finish(claimed, by: worker, .succeeded), is: true, "the answer to a result after 640 s")
    }

    /// `unregister` makes a worker's jobs available again, uncharged.
    func checkUnregistering() async throws {
        let (leaving, other) = (try await register(), try await register())
        try await push("a")
        try await push("b")
        let old = try await claim(leaving).jobs
        _ = try await store.start(old.map(\.ticket), by: leaving)
        try await store.unregister(leaving)
        try await expect(.unknownWorker, from: "`extend` by a worker that has unregistered") { try await store.extend(leaving) }
        let new = try await claim(other).jobs
        try expect(new.map(\.job.name), is: ["a", "b"], "the jobs claimed after `unregister`")
        try expect(new.map(\.job.counters.charged), is: [0, 0], "the charged attempts after `unregister`")
        try expect(new.map(\.job.counters.crashes), is: [0, 0], "the crashes after `unregister`")
        try expect(new.map(\.job.hasUnknownOutcome), is: [false, false], "`hasUnknownOutcome` after `unregister`")
        for job in old { try expect(try await finish(job, by: leaving, .succeeded), is: false, "the answer to a late result") }
    }

    /// When a worker's process ends while the machine stays up, its jobs are available again, and each started attempt counts
    /// as a crash, which no later result changes.
    func checkCrashes() async throws {
        guard let crash = candidate.crash else { throw MissingMeans() }
        let (crashing, other) = (try await register(), try await register())
        for name in ["started", "claimed"] { try await push(name) }
        let old = try await claim(crashing).jobs
        guard let first = old.first else { return try expect(false, "nothing was claimed") }
        _ = try await start(first, by: crashing)
        try await crash(crashing)
        let new = try await claim(other).jobs
        try expect(new.map(\.job.name), is: ["started", "claimed"], "the jobs claimed after a crash")
        try expect(new.map(\.job.counters.crashes), is: [1, 0], "the crashes")
        try expect(new.map(\.job.hasUnknownOutcome), is: [true, false], "`hasUnknownOutcome` after a crash")
        try expect(new.map(\.job.counters.started), is: [1, 0], "the attempts that have started")
        try expect(new.map(\.job.counters.charged), is: [0, 0], "the charged attempts")
        try expect(try await finish(first, by: crashing, .succeeded), is: false, "the answer to a result after the crash")
        for job in new {
            try await finish(job, by: other, .again(soft: .zero, isNetwork: false, hard: nil)) { $0.crashes = 0 }
        }
        let left = try await find()
        try expect(left.map(\.counters.crashes), is: [1, 0], "the crashes after another result")
        try expect(left.map(\.hasUnknownOutcome), is: [true, false], "`hasUnknownOutcome` after another result")
    }

    /// After a reboot all jobs are available again, and no attempt counts as a crash.
    func checkReboots() async throws {
        guard let reboot = candidate.reboot else { throw MissingMeans() }
        let workers = [try await register(), try await register()]
        for name in ["a", "b", "c"] { try await push(name) }
        for worker in workers {
            for job in try await claim(worker, 1).jobs { _ = try await start(job, by: worker) }
        }
        try await store.setPaused(true, queue: Self.queue)
        try await reboot()
        let worker = try await register()
        try expect(try await claim(worker).isPaused, is: true, "`isPaused` after a reboot")
        try await store.setPaused(false, queue: Self.queue)
        let claimed = try await claim(worker).jobs
        try expect(claimed.map(\.job.name), is: ["a", "b", "c"], "the jobs claimed after a reboot")
        try expect(claimed.map(\.job.counters.crashes), is: [0, 0, 0], "the crashes after a reboot")
        try expect(claimed.map(\.job.hasUnknownOutcome), is: [true, true, false], "`hasUnknownOutcome` after a reboot")
        try expect(claimed.map(\.job.counters.charged), is: [0, 0, 0], "the charged attempts after a reboot")
    }

    /// `workers` returns those of a queue, or of all, with a valid lease, by number; each has its queue and node, the number of
    /// its claims, and the time since its last heartbeat.
    func checkListedWorkers() async throws {
        func expectWorkers(_ wanted: [WorkerID], of queue: String? = StoreSession.queue, _ when: String) async throws {
            for (store, name) in [(store, "the store"), (candidate.peer, "its peer")] {
                let found = try await store.workers(of: queue).map(\.id)
                try expect(found, is: wanted, "the workers of \(queue ?? "all queues") in \(name) \(when)")
            }
        }
        let otherQueue = "other\u{0}queue"
        try await expectWorkers([], of: nil, "before the first one")
        let (first, other) = (try await register(node: "a\u{0}b"), try await register(queue: otherQueue))
        let second = try await register(node: "second")
        try await expectWorkers([first, second], "that has two")
        try await expectWorkers([other], of: otherQueue, "that has one")
        try await expectWorkers([first, other, second], of: nil, "with three workers")
        try await expectWorkers([], of: "absent", "that has none")
        let found = try await store.workers(of: nil)
        try expect(found.map(\.queue), is: [Self.queue, otherQueue, Self.queue], "`queue` of three workers")
        try expect(found.map(\.node), is: ["a\u{0}b", "node", "second"], "`node` of three workers")

        for name in ["a", "b", "c"] { try await push(name) }
        func expectClaims(_ wanted: [Int], _ when: String) async throws {
            try expect(try await store.workers(of: Self.queue).map(\.claims), is: wanted, "`claims` of two workers \(when)")
        }
        try await expectClaims([0, 0], "before a claim")
        let claimed = try await claim(second, 2).jobs
        try expect(claimed.count, is: 2, "the number of claimed jobs")
        _ = try await start(claimed[0], by: second)
        try await expectClaims([0, 2], "after the second has claimed two jobs, and started one")
        _ = try await store.finish([.givenBack(claimed[1].ticket)], by: second)
        try await expectClaims([0, 1], "after it has given one back")
        try await finish(claimed[0], by: second, .succeeded)
        try await expectClaims([0, 0], "after the end of the other one")

        try await store.unregister(other)
        try await expectWorkers([first, second], of: nil, "after the third has left")
        try await pass(.seconds(20), second)
        let times = try await store.workers(of: Self.queue).map(\.sinceHeartbeat)
        try expect(
            times.count == 2 && (Duration.seconds(20)..<StoreLease.duration).contains(times[0])
                && (Duration.zero..<StoreLease.heartbeat).contains(times[1]),
            "`sinceHeartbeat` of a worker that was silent for 20 s, and one that was not: \(times)")
        try await pass(.seconds(11), second)
        try await expectWorkers([second], "after the end of the first one's lease")
    }
}
