internal import ReachableJobs

/// The requirements of leases and of the ends of workers.
extension StoreSession {
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

    func checkHeartbeats() async throws {
        let (worker, other) = (try await register(), try await register())
        try await push("a")
        let claimed = try await claimOne(worker)
        try await pass(.seconds(300), worker, other)
        try expect(try await names(other), is: [], "the jobs claimed while the first worker extends its lease")
        try expect(try await start(claimed, by: worker), is: true, "the answer to `start` after 300 s")
        try await pass(.seconds(300), worker, other)
        try expect(try await finish(claimed, by: worker, .succeeded), is: true, "the answer to a result after 600 s")
    }

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
}
