import ReachableJobs
import Testing

/// The requirements of time.
extension StoreSession {
    /// A delay of a push, a backoff and a server's order hold a job back until their end, which `nextDue` names; no edge ends it.
    func checkDelays() async throws {
        let worker = try await register()
        let (soft, hard) = (try await push("soft").id, try await push("hard").id)
        let outcomes = [
            AttemptResult.Outcome.again(soft: .seconds(120), isNetwork: false, hard: nil),
            .again(soft: .seconds(10), isNetwork: true, hard: .seconds(180)),
        ]
        for (job, outcome) in zip(try await claim(worker).jobs, outcomes) { try await finish(job, by: worker, outcome) }
        let delayed = try await push("delayed") { $0.delay = .seconds(60) }.id
        try await push("free")
        let claims = try await claim(worker)
        #expect(claims.names == ["free"])
        #expect(try await claims.nextDue == found(delayed).notBefore)
        let backoff = try #require(try await found(soft).softDelay)
        #expect(backoff.since.duration(to: backoff.until) == .seconds(120) && !backoff.isNetwork)
        let ends: [(String, next: StoreInstant?)] = [
            ("delayed", backoff.until), ("soft", try await found(hard).hardUntil), ("hard", nil),
        ]
        for (name, next) in ends {
            try await pass(.seconds(55), worker)
            #expect(try await names(worker, edge: store.nodeTime) == [])
            try await pass(.seconds(6), worker)
            let claims = try await claim(worker, edge: store.nodeTime)
            #expect(claims.names == [name] && claims.nextDue == next)
        }
        try await finish(try #require(claims.jobs.first), by: worker, .again(soft: .zero, isNetwork: false, hard: nil))
        #expect(try await names(worker) == ["free"])
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
        for edge in [first - 1_000_000_000, first] { #expect(try await names(worker, edge: edge) == []) }
        try await pass(.seconds(5), worker)
        #expect(try await names(worker, edge: store.nodeTime) { $0.destination == nil } == ["network"])
        #expect(try await names(worker) == [])
        try await pass(.seconds(600), worker)
        #expect(try await names(worker) == ["server", "elsewhere"])
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
        #expect(try await found(id).avoidance?.node == "first")
        #expect(try await names(sibling) == [])
        let due = try await claim(second, 0)
        #expect(due.nextDue.map { $0 <= due.now.advanced(by: .seconds(1)) } == true)
        try await pass(.seconds(2), first, sibling, second)
        try await fail(by: second, failures: 9)
        #expect(try await found(id).avoidance?.node == "second")
        #expect(try await names(first) == [])
        try await pass(.seconds(6), first, sibling, second)
        #expect(try await names(second) == [])
        try await fail(by: first, hard: .seconds(30), failures: 1)
        let claims = try await claim(second)
        #expect(claims.names == [])
        #expect(claims.nextDue.map { claims.now.duration(to: $0) } == .seconds(30))
        try await pass(.seconds(31), first, sibling, second)
        #expect(try await names(first) == [])
        try await pass(.seconds(600), first, sibling, second)
        try await fail(by: first, failures: 1)
        guard let reboot = candidate.reboot else { return }
        try await reboot()
        let restarted = try await register(node: "first")
        #expect(try await names(restarted) == ["a"])
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
        #expect(claims.names == ["free", "scope"])
        #expect(!claims.hasMore)
        let due = claims.nextDue.map { start.duration(to: $0) }
        let late = try await claim(worker) { $0.kind == "late" }.nextDue.map { start.duration(to: $0) }
        for time in [try #require(due), try #require(late)] { #expect(time >= .seconds(60) && time < .seconds(70)) }
        #expect(try await names(other) == ["queue"])
        try await pass(.seconds(41), worker)
        #expect(try await names(worker) == ["same", "kind", "new", "late"])
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
        #expect(try await self.names(worker) == [])
        let before = try await found(ids[0]).counters
        try await expectHints { _ = try await store.endBackoff([ids[2]]) }
        #expect(try await store.endBackoff(ids + [DurableJobID()]) == [true, true, false, false, false, false])
        #expect(try await found(ids[0]).counters == before)
        #expect(try await found(ids[1]).softDelay == nil)
        #expect(try await self.names(worker) == ["server", "network"])
        try await pass(.seconds(61), worker, other)
        #expect(try await self.names(other) == ["ordered", "later"])
    }

    /// `expire` fails waiting jobs whose deadline has passed, also delayed ones, and no others; `next` names the next deadline.
    func checkDeadlines() async throws {
        let worker = try await register()
        let running = try await push("running") { $0.timeLimit = .seconds(10) }.id
        let claimed = try await claimOne(worker)
        let delayed = try await push("delayed") { ($0.timeLimit, $0.delay) = (.seconds(10), .seconds(1000)) }.id
        let late = try await push("late") { $0.timeLimit = .seconds(15) }.id
        #expect(try await expire().jobs.map(\.id) == [])
        try await pass(.seconds(9), worker)
        #expect(try await expire().next != nil)
        try await pass(.seconds(3), worker)
        #expect(try await state(delayed) == .available)
        let expired = try await expire().jobs
        #expect(expired.map(\.id) == [delayed])
        #expect(expired.map(\.failureReason) == ["deadline"])
        #expect(try await state(delayed) == .failed)
        #expect(try await state(running) == .running)
        try await giveBack([claimed], by: worker)
        try await pass(.seconds(4), worker)
        #expect(Set(try await expire().jobs.map(\.id)) == [running, late])
        #expect(try await names(worker) == [])
    }

    private func expire() async throws -> ExpiredJobs { try await store.expire(queue: Self.queue, limit: 10) }
}
