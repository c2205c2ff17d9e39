import ReachableJobs
import ReachableRetry
import Testing

/// The requirements of cancellation, retries, searches and hints.
extension StoreSession {
    /// `cancel` ends a waiting job, and tells of one that has ended or does not exist.
    func checkCancellation() async throws {
        let worker = try await register()
        let waiting = try await push("waiting").id
        let done = try await push("done") { $0.priority = .interactive }.id
        let failed = try await push("failed") { $0.priority = .interactive }.id
        for job in try await claim(worker, 2).jobs {
            try await finish(job, by: worker, job.job.name == "done" ? .succeeded : .failed(reason: "attempts"))
        }
        #expect(try await store.cancel([waiting, done, failed, DurableJobID()]) == [.cancelled, .ended, .ended, .unknown])
        #expect(try await find().map(\.state) == [.cancelled, .succeeded, .failed])
        #expect(try await found(waiting).finished != nil)
        #expect(try await cancel(waiting) == .ended)
        #expect(try await names(worker) == [])
    }

    /// `cancel` of a running job is a request that `extend` and `claim` tell its worker; the job does not run again, which
    /// `finish` tells, also of jobs that are given back, and success stands.
    func checkCancellationRequests() async throws {
        let worker = try await register()
        for name in ["again", "done", "cancelled", "given back", "other"] { try await push(name) }
        let claimed = try await claim(worker).jobs
        try #require(claimed.count == 5)
        #expect(try await store.extend(worker) == [])
        let ids = claimed.prefix(4).map(\.job.id)
        #expect(try await store.cancel(ids) == Array(repeating: .requested, count: 4))
        #expect(try await cancel(ids[0]) == .requested)
        #expect(try await find().map(\.isCancelRequested) == [true, true, true, true, false])
        #expect(try await find().map(\.state) == Array(repeating: .running, count: 5))
        let requests = Set(claimed.prefix(4).map(\.ticket))
        #expect(Set(try await store.extend(worker)) == requests)
        #expect(Set(try await claim(worker).cancelled) == requests)
        try await store.setPaused(true, queue: Self.queue)
        #expect(Set(try await claim(worker).cancelled) == requests)
        try await store.setPaused(false, queue: Self.queue)
        let again = AttemptResult.Outcome.again(soft: .seconds(5), isNetwork: false, hard: nil)
        let results = zip(claimed, [again, .succeeded, .cancelled]).map { AttemptResult($0.ticket, $1, counters: $0.job.counters) }
        #expect(try await store.finish(results, by: worker) == [.cancelled, .recorded, .recorded])
        #expect(try await giveBack(Array(claimed.suffix(2)), by: worker) == [.cancelled, .recorded])
        #expect(try await find().map(\.state) == [.cancelled, .succeeded, .cancelled, .cancelled, .available])
        _ = try await claim(worker)
        try await push("lost")
        let lost = try await claimOne(worker)
        try await cancel(lost.job.id)
        try await store.unregister(worker)
        #expect(try await state(lost.job.id) == .cancelled)
    }

    /// `retry` makes failed and cancelled jobs available again with fresh counters, and no other job, nor more than the limit.
    func checkRetries() async throws {
        let worker = try await register()
        let pushed = [
            try await push("failed") { $0.timeLimit = .seconds(1) }.id, try await push("cancelled").id,
            try await push("done").id, try await push("running").id, try await push("waiting") { $0.delay = .seconds(1000) }.id,
        ]
        try await cancel(pushed[1])
        for job in try await claim(worker).jobs where job.job.name != "running" {
            let outcome: AttemptResult.Outcome = job.job.name == "done" ? .succeeded : .failed(reason: "deadline")
            try await finish(job, by: worker, outcome) {
                ($0.started, $0.charged, $0.networkFailures, $0.failureIndex) = (4, 3, 2, 1)
            }
        }
        let failed = try await found(pushed[0])
        await expectError(.full) { try await store.retry([pushed[1], pushed[0]], limit: 3) }
        #expect(try await state(pushed[1]) == .cancelled)
        try await pass(.seconds(5), worker)
        #expect(
            try await store.retry(pushed + [DurableJobID()], limit: nil) == [
                .retried, .retried, .notEnded, .notEnded, .notEnded, .notEnded,
            ])
        let retried = try await found(pushed[0])
        #expect(retried.state == .available && retried.counters == .init())
        #expect(retried.position == failed.position && retried.idempotencyKey == failed.idempotencyKey)
        #expect(retried.failureReason == nil && retried.finished == nil && retried.deadline == nil)
        #expect(try await names(worker) == ["failed", "cancelled"])
    }

    /// `find` returns the jobs that match all properties, by position.
    func checkSearches() async throws {
        let worker = try await register()
        try await push("1") { ($0.unique, $0.destination) = (.keep("u"), "x") }
        try await push("2") { ($0.serialKey, $0.kind) = ("s", "other") }
        try await push("3") { ($0.destination, $0.priority) = ("x", .interactive) }
        try await push("4") { $0.queue = "other" }
        try await finish(try await claim(worker, 1).jobs[0], by: worker, .succeeded)
        let all = try await find()
        #expect(all.map(\.name) == ["1", "2", "3", "4"])
        let searches: [(String, [String], (inout JobFilter) -> Void)] = [
            ("queue", ["1", "2", "3"], { $0.queue = Self.queue }),
            ("states", ["3"], { $0.states = [.succeeded, .failed] }),
            ("no state", [], { $0.states = [] }),
            ("kinds", ["2"], { $0.kinds = ["other", "none"] }),
            ("unique key", ["1"], { $0.uniqueKey = "u" }),
            ("serial key", ["2"], { $0.serialKey = "s" }),
            ("destination", ["1", "3"], { $0.destination = "x" }),
            ("destination and state", ["1"], { ($0.destination, $0.states) = ("x", [.available]) }),
            ("after", ["3", "4"], { $0.after = all[1].position }),
            ("after and limit", ["2", "3"], { ($0.after, $0.limit) = (all[0].position, 2) }),
            ("limit 0", [], { $0.limit = 0 }),
            ("limit -1", [], { $0.limit = -1 }),
            ("identities", ["1", "3"], { $0.ids = [all[2].id, all[0].id, DurableJobID()] }),
            ("identity", ["2"], { $0.idPrefix = all[1].id.description }),
            ("% as a prefix", [], { $0.idPrefix = "%" }),
            ("an empty prefix", ["1", "2", "3", "4"], { $0.idPrefix = "" }),
        ]
        for (what, names, change) in searches {
            #expect(try await find(change).map(\.name) == names, "\(what)")
        }
        let prefix = String(all[3].id.description.prefix(8))
        let wanted = all.filter { $0.id.description.hasPrefix(prefix) }.map(\.name)
        #expect(try await find { $0.idPrefix = prefix }.map(\.name) == wanted)
    }

    /// `count` returns the number of jobs of a queue per state, kind and destination.
    func checkCounts() async throws {
        let worker = try await register()
        for number in 0..<6 { try await push("\(number)") { ($0.destination, $0.version) = (number % 2 == 0 ? "x" : nil, number) } }
        try await push("6") { $0.kind = "other" }
        try await push("7") { $0.queue = "other" }
        for job in try await claim(worker, 2).jobs where job.job.name == "0" { try await finish(job, by: worker, .succeeded) }
        let counts = try await store.count(queue: Self.queue)
        let texts = counts.map { "\($0.count) \($0.state.rawValue) \($0.kind) \($0.destination ?? "nowhere")" }
        #expect(
            Set(texts) == [
                "1 succeeded send x", "1 running send nowhere", "2 available send x", "2 available send nowhere",
                "1 available other nowhere",
            ])
        #expect(texts.count == 5)
        for count in counts {
            let jobs = try await find { ($0.queue, $0.states, $0.kinds) = (Self.queue, [count.state], [count.kind]) }
            let oldest = jobs.filter { $0.destination == count.destination }.map(\.created).min()
            #expect(count.oldest == oldest ?? count.oldest)
        }
        #expect(try await store.count(queue: "none") == [])
    }

    /// `prune` deletes jobs that ended long enough ago, at most as many as it may, and no unfinished ones.
    func checkPruning() async throws {
        let worker = try await register()
        for name in ["1", "2", "3", "failed", "running"] { try await push(name) }
        let twice = try await push("twice").id
        for job in try await claim(worker).jobs where job.job.name != "running" {
            let isFailure = ["failed", "twice"].contains(job.job.name)
            try await finish(job, by: worker, isFailure ? .failed(reason: "attempts") : .succeeded)
        }
        try await push("waiting") { $0.delay = .seconds(10_000) }
        let retention = Retention(succeeded: .seconds(100), failed: .seconds(200))
        try await pass(.seconds(95), worker)
        #expect(try await store.prune(retention, limit: 100) == 0)
        try await pass(.seconds(10), worker)
        #expect(try await store.prune(retention, limit: 2) == 2)
        #expect(try await store.prune(retention, limit: 2) == 1)
        #expect(try await find().map(\.name) == ["failed", "running", "twice", "waiting"])
        try await retry(twice)
        try await finish(try await claimOne(worker), by: worker, .failed(reason: "attempts"))
        try await pass(.seconds(100), worker)
        #expect(try await store.prune(retention, limit: 100) == 1)
        #expect(try await find().map(\.name) == ["running", "twice", "waiting"])
        try await push("new")
        let positions = try await find().map(\.position)
        #expect(positions == positions.sorted())
    }

    /// `prune` keeps a failed job while it blocks others.
    func checkPruningHeads() async throws {
        let worker = try await register()
        let head = try await push("head") { $0.serialKey = "a" }.id
        let follower = try await push("follower") { $0.serialKey = "a" }.id
        try await push("alone") { $0.serialKey = "b" }
        try await push("continuing") { ($0.serialKey, $0.continuesAfterFailure) = ("c", true) }
        try await push("free") { ($0.serialKey, $0.delay) = ("c", .seconds(10_000)) }
        for job in try await claim(worker).jobs { try await finish(job, by: worker, .failed(reason: "attempts")) }
        try await pass(.seconds(300), worker)
        let retention = Retention(succeeded: .seconds(100), failed: .seconds(200))
        #expect(try await store.prune(retention, limit: 100) == 2)
        #expect(try await find().map(\.name) == ["head", "follower", "free"])
        #expect(try await names(worker) == [])
        try await cancel(follower)
        _ = try await store.prune(retention, limit: 100)
        #expect(try await find { $0.idPrefix = head.description }.map(\.name) == [])
    }

    /// `prune` deletes lanes without jobs, and keeps those whose destination a server's order holds; claims name deleted lanes,
    /// and a later push to one gets a new lane, also if it comes at the same time.
    func checkPruningLanes() async throws {
        let worker = try await register()
        let all = Retention(succeeded: .zero, failed: .zero)
        func destinations() async throws -> [String] { try await newLanes(of: worker).map { $0.destination ?? "" } }
        for number in 0..<50 { try await push("\(number)") { $0.destination = "once \(number)" } }
        try await push("held") { $0.destination = "held" }
        try await push("ended") { $0.destination = "ended" }
        try await push("delayed") { ($0.destination, $0.delay) = ("delayed", .seconds(100_000)) }
        let lanes = try await newLanes(of: worker)
        for job in try await claim(worker).jobs {
            try await finish(job, by: worker, .succeeded, hold: job.job.name == "held" ? .seconds(1000) : nil)
        }
        _ = try await store.prune(Retention(succeeded: .seconds(1000), failed: .zero), limit: 1000)
        #expect(try await destinations().count == 53)
        #expect(try await store.prune(all, limit: 20) == 20)
        #expect(try await store.prune(all, limit: 1000) == 32)
        #expect(try await destinations() == ["held", "delayed"])
        try await push("held again") { $0.destination = "held" }
        #expect(try await names(worker) == [])
        try await push("again") { $0.destination = "once 7" }
        let named = lanes.map { ClaimRequest.Open(lane: $0.id) }
        let claims = try await store.claim(
            ClaimRequest(worker: worker, limit: 9, lanes: named, lastKnownLane: lanes.last?.id ?? 0))
        let gone = lanes.filter { !["held", "delayed"].contains($0.destination) }.map(\.id)
        #expect(claims.goneLanes == Set(gone))
        #expect(claims.newLanes.map(\.destination) == ["once 7"])
        #expect(claims.names == [])
        #expect(try await names(worker) == ["again"])
        try await checkPushesWhilePruning(worker, all)
        try await pass(.seconds(1001), worker)
        for job in try await claim(worker).jobs { try await finish(job, by: worker, .succeeded) }
        _ = try await store.prune(all, limit: 1000)
        #expect(try await destinations() == ["delayed", "once 7"])
    }

    /// Jobs that are pushed to lanes without jobs while these are pruned.
    private func checkPushesWhilePruning(_ worker: WorkerID, _ all: Retention) async throws {
        for _ in 0..<5 {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<10 { group.addTask { try await self.push("\(number)") { $0.destination = "race \(number)" } } }
                for _ in 0..<10 { group.addTask { _ = try await self.store.prune(all, limit: 1000) } }
                try await group.waitForAll()
            }
            let jobs = try await claim(worker).jobs
            #expect(jobs.count == 10)
            for job in jobs { try await finish(job, by: worker, .succeeded) }
        }
    }

    /// Every stream of `changes` gives a hint after a change that lets a job run or asks one to end.
    func checkHints() async throws {
        let worker = try await register()
        try await expectHints { try await push("1") { $0.serialKey = "a" } }
        try await push("2") { $0.serialKey = "a" }
        let first = try await claimOne(worker)
        try await expectHints { try await giveBack([first], by: worker) }
        let second = try await claimOne(worker)
        try await expectHints { try await finish(second, by: worker, .succeeded) }
        let third = try await claimOne(worker)
        try await expectHints { try await cancel(third.job.id) }
        try await finish(third, by: worker, .cancelled)
        try await expectHints { try await retry(third.job.id) }
        let next = try await push("3") { $0.serialKey = "a" }
        try await expectHints { try await cancel(third.job.id) }
        #expect(try await !found(next.id).isBlocked)
        try await expectHints { try await store.setPaused(true, queue: Self.queue) }
        try await expectHints { try await store.setPaused(false, queue: Self.queue) }
        let last = try await claimOne(worker)
        let again = AttemptResult.Outcome.again(soft: .zero, isNetwork: false, hard: nil)
        try await expectHints { try await finish(last, by: worker, again) }
        _ = try await claimOne(worker)
        try await expectHints { try await store.unregister(worker) }
        let (lost, other) = (try await register(), try await register())
        _ = try await claimOne(lost)
        try await pass(.seconds(25), other)
        try await expectHints { try await pass(.seconds(10), other) }
    }
}
