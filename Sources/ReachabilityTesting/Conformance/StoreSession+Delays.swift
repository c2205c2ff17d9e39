internal import ReachableJobs

/// The requirements of time.
extension StoreSession {
    /// A job with a delay is not claimed before its time; `nextDue` names that time.
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

    /// A backoff holds a job back for its duration; `nextDue` names its end.
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

    /// An edge ends the backoff of its node's earlier network failures in the lanes that name it, and no other delay.
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
        let first = try await find().compactMap(\.avoidance?.since).min() ?? 0
        for edge in [first - 1_000_000_000, first] {
            try expect(try await names(worker, edge: edge), is: [], "the jobs claimed with an edge before or at their failures")
        }
        try await pass(.seconds(5), worker)
        let edge = store.nodeTime
        try expect(
            try await names(worker, edge: edge) { $0.destination == nil }, is: ["network"],
            "the jobs claimed with an edge after their failures, from one lane")
        let later = try await claim(worker)
        try expect(later.jobs.map(\.job.name), is: [], "the jobs claimed without an edge after a claim with one")
        try await pass(.seconds(600), worker)
        try expect(try await names(worker), is: ["server", "elsewhere"], "the jobs claimed after the backoff")
    }

    /// Backoff of a network failure keeps the job from the worker's node until it ends or the machine reboots; others may take
    /// it over after 0.5 s to 5 s.
    func checkNodes() async throws {
        let (first, sibling) = (try await register(node: "first"), try await register(node: "first"))
        let second = try await register(node: "second")
        let id = try await push("a").id
        func fail(by worker: WorkerID, hard: Duration? = nil, failures: Int) async throws {
            let outcome = AttemptResult.Outcome.again(soft: .seconds(600), isNetwork: true, hard: hard)
            try await finish(try await claimOne(worker), by: worker, outcome) { $0.networkFailures = failures }
        }
        try await fail(by: first, failures: 2)
        try expect(try await found(id).avoidance?.node, is: "first", "the node that leaves the job alone")
        try expect(try await names(sibling), is: [], "the jobs claimed on the node whose network failed")
        let due = try await claim(second, 0)
        try expect(
            due.nextDue.map { $0 <= due.now.advanced(by: .seconds(1)) }, is: true,
            "that another node may take the job over 1 s after the second failure")
        try await pass(.seconds(2), first, sibling, second)
        try await fail(by: second, failures: 9)
        try expect(try await found(id).avoidance?.node, is: "second", "the node that leaves the job alone after it failed, too")
        try expect(try await names(first), is: [], "the jobs claimed at once on the first node after the second had failed")
        try await pass(.seconds(6), first, sibling, second)
        try expect(try await names(second), is: [], "the jobs claimed on the second node after 6 s")
        try await fail(by: first, hard: .seconds(30), failures: 1)
        let claims = try await claim(second)
        try expect(claims.jobs.map(\.job.name), is: [], "the jobs claimed during a delay that a server ordered")
        try expect(
            claims.nextDue.map { claims.now.duration(to: $0) }, is: .seconds(30),
            "the time until a job is due on another node whose server ordered a delay of 30 s")
        try await pass(.seconds(31), first, sibling, second)
        try expect(try await names(first), is: [], "the jobs claimed on the node that failed, after the server's delay")
        try await pass(.seconds(600), first, sibling, second)
        try await fail(by: first, failures: 1)
        guard let reboot = candidate.reboot else { return }
        try await reboot()
        let restarted = try await register(node: "first")
        try expect(try await names(restarted), is: ["a"], "the jobs claimed on a node that has rebooted since its failure")
    }

    /// A delay that a server ordered holds a job back, also after a reconnect.
    func checkHardDelays() async throws {
        let worker = try await register()
        let id = try await push("a").id
        try await push("b")
        for job in try await claim(worker).jobs {
            try await finish(job, by: worker, .again(soft: .seconds(10), isNetwork: job.job.name == "a", hard: .seconds(60)))
        }
        try await pass(.seconds(30), worker)
        let claims = try await claim(worker, edge: store.nodeTime)
        try expect(claims.jobs.map(\.job.name), is: [], "the jobs claimed with an edge after 30 s of 60 s")
        try expect(claims.nextDue, is: try await found(id).hardUntil, "`nextDue`")
        try await pass(.seconds(31), worker)
        try expect(try await names(worker), is: ["a", "b"], "the jobs claimed after 61 s")
    }

    /// A result can hold all jobs of the queue with the same scope and destination; a shorter order does not end a longer one.
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
        let claims = try await claim(worker, edge: store.nodeTime)
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

    /// `endBackoff` ends soft delays of waiting jobs, also those of network failures, and of other nodes; it gives a hint, and
    /// changes no other delay and no counter.
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

    /// `expire` fails waiting jobs whose deadline has passed, also delayed ones, and no others; `next` names the next deadline.
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
        _ = try await store.finish([.givenBack(claimed.ticket)], by: worker)
        try await pass(.seconds(4), worker)
        try expect(Set(try await expire().jobs.map(\.id)), is: [running, late], "the jobs expired later")
        try expect(try await names(worker), is: [], "the jobs claimed after their deadline")
    }

    private func expire() async throws -> ExpiredJobs { try await store.expire(queue: Self.queue, limit: 10) }
}
