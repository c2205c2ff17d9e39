internal import ReachableJobs

/// The requirements of time.
extension StoreSession {
    func checkNotBefore() async throws {
        let worker = try await register()
        let delayed = try await push("delayed") { $0.delay = .seconds(60) }
        try await push("later") { $0.delay = .seconds(90) }
        let claims = try await claim(worker)
        try expect(claims.jobs.map(\.job.name), is: [], "the jobs claimed at once")
        try expect(claims.nextDue, is: try await found(delayed.id).notBefore, "`nextDue`")
        try await pass(.seconds(55), worker)
        try expect(try await names(worker), is: [], "the jobs claimed after 55 s of 60 s")
        try await pass(.seconds(6), worker)
        try expect(try await names(worker), is: ["delayed"], "the jobs claimed after 61 s")
        try await pass(.seconds(30), worker)
        let last = try await claim(worker)
        try expect(last.jobs.map(\.job.name), is: ["later"], "the jobs claimed after 91 s")
        try expect(last.nextDue, is: nil, "`nextDue` of a claim that leaves no job")
    }

    func checkSoftDelays() async throws {
        let worker = try await register()
        let id = try await push("a").id
        try await push("b")
        let claimed = try await claim(worker, 1).jobs
        for job in claimed { try await finish(job, by: worker, .again(soft: .seconds(60), isNetwork: false, hard: nil)) }
        let delay = try await found(id).softDelay
        try expect(delay.map { $0.since.duration(to: $0.until) }, is: .seconds(60), "the duration of the backoff")
        try expect(delay?.isNetwork, is: false, "`isNetwork` of the backoff")
        let claims = try await claim(worker)
        try expect(claims.jobs.map(\.job.name), is: ["b"], "the jobs claimed during the backoff of a")
        try expect(claims.nextDue, is: delay?.until, "`nextDue`")
        try await pass(.seconds(55), worker)
        try expect(try await names(worker), is: [], "the jobs claimed after 55 s of 60 s")
        try await pass(.seconds(6), worker)
        for job in try await claim(worker).jobs {
            try await finish(job, by: worker, .again(soft: .zero, isNetwork: false, hard: nil))
        }
        try expect(try await names(worker), is: ["a"], "the jobs claimed after a failure without a backoff")
    }

    func checkEdges() async throws {
        let worker = try await register()
        for name in ["network", "server", "elsewhere"] {
            try await push(name) { $0.destination = name == "elsewhere" ? name : nil }
        }
        try await pass(.seconds(5), worker)
        for job in try await claim(worker).jobs {
            let outcome = AttemptResult.Outcome.again(soft: .seconds(600), isNetwork: job.job.name != "server", hard: nil)
            try await finish(job, by: worker, outcome)
        }
        let failed = try await claim(worker, 0).now
        let before = failed.advanced(by: .seconds(-1))
        try expect(try await names(worker, edge: before), is: [], "the jobs claimed with an edge before their failures")
        try await pass(.seconds(5), worker)
        let edge = try await claim(worker, 0).now
        try expect(
            try await names(worker, edge: edge) { $0.destination == nil }, is: ["network"],
            "the jobs claimed with an edge after their failures, from one lane")
        let later = try await claim(worker)
        try expect(later.jobs.map(\.job.name), is: [], "the jobs claimed without an edge after a claim with one")
        try await pass(.seconds(600), worker)
        try expect(try await names(worker), is: ["server", "elsewhere"], "the jobs claimed after the backoff")
    }

    func checkNodes() async throws {
        let (first, sibling) = (try await register(node: "first"), try await register(node: "first"))
        let (second, third) = (try await register(node: "second"), try await register(node: "third"))
        try await push("a")
        let failure = AttemptResult.Outcome.again(soft: .seconds(600), isNetwork: true, hard: nil)
        try await finish(try await claimOne(first), by: first, failure)
        try expect(try await names(sibling), is: [], "the jobs claimed on the node whose network failed")
        try await finish(try await claimOne(second), by: second, failure)
        try expect(try await names(third), is: [], "the jobs claimed on a third node after two had failed")
        try expect(try await names(first), is: [], "the jobs claimed on the first node after the second had failed")
        try await pass(.seconds(601), third)
        let claimed = try await claimOne(third)
        try expect(claimed.job.name, is: "a", "the job claimed after the backoff")
        try await finish(claimed, by: third, .again(soft: .seconds(600), isNetwork: true, hard: .seconds(30)))
        let claims = try await claim(try await register(node: "fourth"))
        try expect(
            claims.nextDue.map { claims.now.duration(to: $0) }, is: .seconds(30),
            "the time until a job is due on another node whose server ordered a delay of 30 s")
    }

    func checkUndecodable() async throws {
        let (first, second) = (try await register(), try await register())
        let id = try await push("a").id
        let before = try await found(id).counters
        try await finish(try await claimOne(first), by: first, .undecodable, error: "text")
        let job = try await found(id)
        try expect(job.state, is: .available, "the state of an undecodable job")
        try expect(job.counters, is: before, "the counters of an undecodable job")
        try expect(job.lastError, is: "text", "the text of the error")
        try expect(job.softDelay, is: nil, "the backoff of an undecodable job")
        try await push("b") { $0.delay = .seconds(7000) }
        let claims = try await claim(first)
        try expect(claims.jobs.map(\.job.name), is: [], "the jobs claimed by the worker that could not decode a")
        try expect(claims.hasMore, is: false, "`hasMore` of that claim")
        try expect(claims.nextDue.map { claims.now.duration(to: $0) > .seconds(6000) }, is: true, "that b is due next")
        try await pass(.seconds(7100), first, second)
        let edge = try await claim(first, 0).now
        try await pass(.seconds(1), first, second)
        try expect(try await names(first, edge: edge), is: ["b"], "the jobs claimed by that worker after 7100 s and an edge")
        try await finish(try await claimOne(second), by: second, .undecodable)
        try expect(try await names(first), is: [], "the jobs claimed by the first worker after the second could not decode a")
        try expect(try await names(second), is: [], "the jobs claimed by the second worker after it could not decode a")
        let third = try await register()
        let claimed = try await claimOne(third)
        try expect(claimed.job.name, is: "a", "the job claimed by a worker that was registered later")
        try await finish(claimed, by: third, .again(soft: .seconds(5), isNetwork: false, hard: nil))
        try await pass(.seconds(6), first, second, third)
        try expect(try await names(first), is: [], "the jobs claimed by the first worker after the third one's attempt failed")
        try expect(try await names(third), is: ["a"], "the jobs claimed by the third worker after its attempt failed")
        try await push("old") { $0.unique = .replace("key") }
        try await finish(try await claimOne(first), by: first, .undecodable)
        try await push("new") { $0.unique = .replace("key") }
        try expect(try await names(first), is: ["new"], "the jobs claimed after the payload was replaced")
    }

    func checkHardDelays() async throws {
        let worker = try await register()
        let id = try await push("a").id
        try await push("b")
        for job in try await claim(worker).jobs {
            try await finish(job, by: worker, .again(soft: .seconds(10), isNetwork: job.job.name == "a", hard: .seconds(60)))
        }
        try await pass(.seconds(30), worker)
        let claims = try await claim(worker, edge: try await claim(worker, 0).now)
        try expect(claims.jobs.map(\.job.name), is: [], "the jobs claimed with an edge after 30 s of 60 s")
        try expect(claims.nextDue, is: try await found(id).hardUntil, "`nextDue`")
        try await pass(.seconds(31), worker)
        try expect(try await names(worker), is: ["a", "b"], "the jobs claimed after 61 s")
    }

    func checkDestinationHolds() async throws {
        let (worker, other) = (try await register(), try await register(queue: "other"))
        try await push("first") { $0.destination = "x" }
        try await push("second") { $0.destination = "x" }
        let claimed = try await claim(worker).jobs
        try await push("same") { $0.destination = "x" }
        try await push("kind") { ($0.kind, $0.destination) = ("other", "x") }
        try await push("free") { $0.destination = "y" }
        try await push("scope") { ($0.scope, $0.destination) = ("192.0.2.1", "x") }
        try await push("queue") { ($0.queue, $0.destination) = ("other", "x") }
        let start = try await claim(worker, 0) { _ in false }.now
        for (job, seconds) in zip(claimed, [60, 1]) { try await finish(job, by: worker, .succeeded, hold: .seconds(seconds)) }
        try await push("new") { ($0.kind, $0.destination) = ("new", "x") }
        try await push("late") { ($0.kind, $0.destination, $0.delay) = ("late", "x", .seconds(10)) }
        try await pass(.seconds(20), worker, other)
        let claims = try await claim(worker, edge: start.advanced(by: .seconds(10)))
        try expect(claims.jobs.map(\.job.name), is: ["free", "scope"], "the jobs claimed while a server holds x for 60 s")
        try expect(claims.hasMore, is: false, "`hasMore` while the other jobs are held")
        let due = claims.nextDue.map { start.duration(to: $0) }
        try expect(
            due.map { $0 >= .seconds(60) && $0 < .seconds(70) } ?? false, "`nextDue` is not the end of the hold: \(due as Any)")
        let late = try await claim(worker) { $0.kind == "late" }.nextDue.map { start.duration(to: $0) }
        try expect(
            late.map { $0 >= .seconds(60) && $0 < .seconds(70) } ?? false,
            "`nextDue` of a job whose own delay has ended is not the end of the hold: \(late as Any)")
        try expect(try await names(other), is: ["queue"], "the jobs claimed from another queue")
        try await pass(.seconds(41), worker)
        try expect(try await names(worker), is: ["same", "kind", "new", "late"], "the jobs claimed after 61 s")
    }

    func checkEndedBackoff() async throws {
        let (worker, other) = (try await register(node: "first"), try await register(node: "second"))
        let names = ["server", "network", "ordered", "running", "later"]
        var ids: [DurableJobID] = []
        for name in names { ids.append(try await push(name) { $0.delay = name == "later" ? .seconds(60) : nil }.id) }
        let claimed = try await claim(worker).jobs
        for job in claimed where job.job.name != "running" {
            let hard: Duration? = job.job.name == "ordered" ? .seconds(60) : nil
            try await finish(job, by: worker, .again(soft: .seconds(600), isNetwork: job.job.name == "network", hard: hard))
        }
        try expect(try await self.names(worker), is: [], "the jobs claimed during their backoff")
        let before = try await found(ids[0]).counters
        try await expectHints(after: "endBackoff") { _ = try await store.endBackoff([ids[2]]) }
        try expect(
            try await store.endBackoff(ids + [DurableJobID()]), is: [true, true, false, false, false, false],
            "the answers to `endBackoff`")
        try expect(try await found(ids[0]).counters, is: before, "the counters after `endBackoff`")
        try expect(try await found(ids[1]).softDelay, is: nil, "the backoff after `endBackoff`")
        try expect(try await self.names(worker), is: ["server", "network"], "the jobs claimed after `endBackoff`")
        try await pass(.seconds(61), worker, other)
        try expect(try await self.names(other), is: ["ordered", "later"], "the jobs claimed after the delays that still applied")
    }

    func checkDeadlines() async throws {
        let worker = try await register()
        let running = try await push("running") { $0.timeLimit = .seconds(10) }.id
        let claimed = try await claimOne(worker)
        let delayed = try await push("delayed") { ($0.timeLimit, $0.delay) = (.seconds(10), .seconds(1000)) }.id
        let late = try await push("late") { $0.timeLimit = .seconds(15) }.id
        try expect(try await expire().jobs.map(\.id), is: [], "the jobs expired before their deadline")
        try await pass(.seconds(9), worker)
        try expect(try await expire().next != nil, "`expire` did not return the next deadline")
        try await pass(.seconds(3), worker)
        try expect(try await state(delayed), is: .available, "the state before `expire`")
        let expired = try await expire().jobs
        try expect(expired.map(\.id), is: [delayed], "the jobs expired at their deadline")
        try expect(expired.map(\.failureReason), is: ["deadline"], "the reason of the expired job")
        try expect(try await state(delayed), is: .failed, "the state of the expired job")
        try expect(try await state(running), is: .running, "the state of a running job after its deadline")
        try await store.giveBack([claimed.ticket], by: worker)
        try await pass(.seconds(4), worker)
        try expect(Set(try await expire().jobs.map(\.id)), is: [running, late], "the jobs expired later")
        try expect(try await names(worker), is: [], "the jobs claimed after their deadline")
    }

    private func expire() async throws -> ExpiredJobs { try await store.expire(queue: Self.queue, limit: 10) }
}
