internal import ReachableJobs
internal import ReachableRetry

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
        try expect(
            try await store.cancel([waiting, done, failed, DurableJobID()]), is: [.cancelled, .ended, .ended, .unknown],
            "the answers for a waiting, a succeeded, a failed and an unknown job")
        try expect(try await find().map(\.state), is: [.cancelled, .succeeded, .failed], "the states")
        try expect(try await found(waiting).finished != nil, is: true, "that the cancelled job has a time of its end")
        try expect(try await cancel(waiting), is: .ended, "the answer for a cancelled job")
        try expect(try await names(worker), is: [], "the jobs claimed after the cancellation")
    }

    /// `cancel` of a running job is a request that `extend` and `claim` tell its worker; the job does not run again, which
    /// `finish` tells, also of jobs that are given back, and success stands.
    func checkCancellationRequests() async throws {
        let worker = try await register()
        let names = ["again", "done", "cancelled", "given back", "other"]
        for name in names { try await push(name) }
        let claimed = try await claim(worker).jobs
        try expect(claimed.count, is: 5, "the number of claimed jobs")
        try expect(try await store.extend(worker), is: [], "the requests before a cancellation")
        let ids = claimed.prefix(4).map(\.job.id)
        try expect(try await store.cancel(ids), is: Array(repeating: .requested, count: 4), "the answers for running jobs")
        try expect(try await cancel(ids[0]), is: .requested, "the answer to a repeated request")
        try expect(try await find().map(\.isCancelRequested), is: [true, true, true, true, false], "`isCancelRequested`")
        try expect(try await find().map(\.state), is: Array(repeating: .running, count: 5), "the states after the requests")
        let requests = Set(claimed.prefix(4).map(\.ticket))
        try expect(Set(try await store.extend(worker)), is: requests, "the requests that `extend` tells")
        try expect(Set(try await claim(worker).cancelled), is: requests, "the requests that `claim` tells")
        try await store.setPaused(true, queue: Self.queue)
        try expect(Set(try await claim(worker).cancelled), is: requests, "the requests that `claim` tells while paused")
        try await store.setPaused(false, queue: Self.queue)
        let outcomes: [AttemptResult.Outcome] = [
            .again(soft: .seconds(5), isNetwork: false, hard: nil), .succeeded, .cancelled,
        ]
        let results = zip(claimed, outcomes).map { AttemptResult($0.ticket, $1, counters: $0.job.counters) }
        try expect(
            try await store.finish(results, by: worker), is: [.cancelled, .recorded, .recorded],
            "the answers to the results `again`, `succeeded` and `cancelled`")
        try expect(
            try await store.finish([.givenBack(claimed[3].ticket), .givenBack(claimed[4].ticket)], by: worker),
            is: [.cancelled, .recorded], "the answers to the return of a job whose cancellation was requested, and of another one")
        try expect(
            try await find().map(\.state), is: [.cancelled, .succeeded, .cancelled, .cancelled, .available],
            "the states after three results and two returns")
        _ = try await claim(worker)
        try await push("lost")
        let lost = try await claimOne(worker)
        _ = try await cancel(lost.job.id)
        try await store.unregister(worker)
        try expect(try await state(lost.job.id), is: .cancelled, "the state after the worker has left")
    }

    /// `retry` makes failed and cancelled jobs available again with fresh counters, and no other job, nor more than the limit.
    func checkRetries() async throws {
        let worker = try await register()
        let pushed = [
            try await push("failed") { $0.timeLimit = .seconds(1) }.id, try await push("cancelled").id,
            try await push("done").id, try await push("running").id, try await push("waiting") { $0.delay = .seconds(1000) }.id,
        ]
        _ = try await cancel(pushed[1])
        for job in try await claim(worker).jobs where job.job.name != "running" {
            let outcome: AttemptResult.Outcome = job.job.name == "done" ? .succeeded : .failed(reason: "deadline")
            try await finish(job, by: worker, outcome) {
                ($0.started, $0.charged, $0.networkFailures, $0.failureIndex) = (4, 3, 2, 1)
            }
        }
        let failed = try await found(pushed[0])
        try await expect(.full, from: "retry with a limit of 3 while two jobs are unfinished") {
            try await store.retry([pushed[1], pushed[0]], limit: 3)
        }
        try expect(try await state(pushed[1]), is: .cancelled, "the state after a `retry` that threw")
        try await pass(.seconds(5), worker)
        try expect(
            try await store.retry(pushed + [DurableJobID()], limit: nil),
            is: [.retried, .retried, .notEnded, .notEnded, .notEnded, .notEnded],
            "the answers for failed, cancelled, succeeded, running, waiting and unknown")
        let retried = try await found(pushed[0])
        try expect(retried.state, is: .available, "the state after `retry`")
        try expect(retried.counters, is: .init(), "the counters after `retry`")
        try expect(retried.position, is: failed.position, "the position after `retry`")
        try expect(retried.idempotencyKey, is: failed.idempotencyKey, "the idempotency key after `retry`")
        try expect(retried.failureReason == nil && retried.finished == nil, "the retried job has an end: \(retried)")
        try expect(retried.deadline, is: nil, "a deadline that had passed before `retry`")
        try expect(try await names(worker), is: ["failed", "cancelled"], "the jobs claimed after `retry`")
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
        try expect(all.map(\.name), is: ["1", "2", "3", "4"], "all jobs")
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
            try expect(try await find(change).map(\.name), is: names, "the jobs found by \(what)")
        }
        let prefix = String(all[3].id.description.prefix(8))
        let wanted = all.filter { $0.id.description.hasPrefix(prefix) }.map(\.name)
        try expect(try await find { $0.idPrefix = prefix }.map(\.name), is: wanted, "the jobs found by the first 8 digits")
    }

    /// `count` returns the number of jobs of a queue per state, kind and destination.
    func checkCounts() async throws {
        struct Key: Hashable {
            var state: DurableJob.State
            var kind: String
            var destination: String?
        }
        let worker = try await register()
        for number in 0..<6 { try await push("\(number)") { ($0.destination, $0.version) = (number % 2 == 0 ? "x" : nil, number) } }
        try await push("6") { $0.kind = "other" }
        try await push("7") { $0.queue = "other" }
        for job in try await claim(worker, 2).jobs where job.job.name == "0" { try await finish(job, by: worker, .succeeded) }
        let counts = try await store.count(queue: Self.queue)
        let found = Dictionary(counts.map { (Key(state: $0.state, kind: $0.kind, destination: $0.destination), $0.count) }) {
            $0 + $1
        }
        try expect(counts.count, is: found.count, "the number of counts for \(found.count) states, kinds and destinations")
        let wanted = [
            Key(state: .succeeded, kind: Self.kind, destination: "x"): 1,
            Key(state: .running, kind: Self.kind, destination: nil): 1,
            Key(state: .available, kind: Self.kind, destination: "x"): 2,
            Key(state: .available, kind: Self.kind, destination: nil): 2,
            Key(state: .available, kind: "other", destination: nil): 1,
        ]
        try expect(found.filter { $0.value != 0 }, is: wanted, "the counts")
        for count in counts where count.count > 0 {
            let jobs = try await find { ($0.queue, $0.states, $0.kinds) = (Self.queue, [count.state], [count.kind]) }
            let oldest = jobs.filter { $0.destination == count.destination }.map(\.created).min()
            try expect(count.oldest, is: oldest ?? count.oldest, "the oldest job of a count")
        }
        try expect(try await store.count(queue: "none"), is: [], "the counts of a queue without jobs")
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
        try expect(try await store.prune(retention, limit: 100), is: 0, "the jobs pruned after 95 s of 100 s")
        try await pass(.seconds(10), worker)
        try expect(try await store.prune(retention, limit: 2), is: 2, "the jobs pruned with a limit of 2")
        try expect(try await store.prune(retention, limit: 2), is: 1, "the jobs pruned after that")
        try expect(try await find().map(\.name), is: ["failed", "running", "twice", "waiting"], "the jobs after 105 s")
        _ = try await retry(twice)
        try await finish(try await claimOne(worker), by: worker, .failed(reason: "attempts"))
        try await pass(.seconds(100), worker)
        try expect(try await store.prune(retention, limit: 100), is: 1, "the jobs pruned after 205 s")
        try expect(try await find().map(\.name), is: ["running", "twice", "waiting"], "the jobs after 205 s; `twice` failed again")
        try await push("new")
        let positions = try await find().map(\.position)
        try expect(positions, is: positions.sorted(), "the positions after pruning")
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
        try expect(try await store.prune(retention, limit: 100), is: 2, "the pruned jobs")
        try expect(
            try await find().map(\.name), is: ["head", "follower", "free"], "the jobs after pruning: only `head` blocks others")
        try expect(try await names(worker), is: [], "the jobs claimed behind a failed one")
        _ = try await cancel(follower)
        _ = try await store.prune(retention, limit: 100)
        try expect(try await find { $0.idPrefix = head.description }.map(\.name), is: [], "the head without followers")
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
        try expect(try await destinations().count, is: 53, "the number of lanes while their jobs are kept")
        try expect(try await store.prune(all, limit: 20), is: 20, "the pruned jobs with a limit of 20")
        try expect(try await store.prune(all, limit: 1000), is: 32, "the pruned jobs after that")
        try expect(try await destinations(), is: ["held", "delayed"], "the destinations of the lanes after pruning")
        try await push("held again") { $0.destination = "held" }
        try expect(try await names(worker), is: [], "the jobs claimed while a server's order holds their destination")
        try await push("again") { $0.destination = "once 7" }
        let request = ClaimRequest(
            worker: worker, limit: 9, lanes: lanes.map { .init(lane: $0.id) }, lastKnownLane: lanes.last?.id ?? 0)
        let claims = try await store.claim(request)
        let gone = lanes.filter { !["held", "delayed"].contains($0.destination) }.map(\.id)
        try expect(claims.goneLanes, is: Set(gone), "`goneLanes` of a claim that names all lanes")
        try expect(claims.newLanes.map(\.destination), is: ["once 7"], "the destinations of the new lanes")
        try expect(claims.jobs.map(\.job.name), is: [], "the jobs claimed from deleted lanes")
        try expect(try await names(worker), is: ["again"], "the jobs claimed from the new lane")
        try await checkPushesWhilePruning(worker, all)
        try await pass(.seconds(1001), worker)
        for job in try await claim(worker).jobs { try await finish(job, by: worker, .succeeded) }
        _ = try await store.prune(all, limit: 1000)
        try expect(try await destinations(), is: ["delayed", "once 7"], "the destinations of the lanes after the server's order")
    }

    /// Jobs that are pushed to lanes without jobs while these are pruned.
    private func checkPushesWhilePruning(_ worker: WorkerID, _ all: Retention) async throws {
        for round in 0..<5 {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<10 { group.addTask { try await self.push("\(number)") { $0.destination = "race \(number)" } } }
                for _ in 0..<10 { group.addTask { _ = try await self.store.prune(all, limit: 1000) } }
                try await group.waitForAll()
            }
            let jobs = try await claim(worker).jobs
            try expect(jobs.count, is: 10, "the jobs claimed in round \(round) after ten pushes while lanes were pruned")
            for job in jobs { try await finish(job, by: worker, .succeeded) }
        }
    }

    /// Every stream of `changes` gives a hint after a change that lets a job run or asks one to end.
    func checkHints() async throws {
        let worker = try await register()
        try await expectHints(after: "push") { try await push("1") { $0.serialKey = "a" } }
        try await push("2") { $0.serialKey = "a" }
        let first = try await claimOne(worker)
        try await expectHints(after: "a return") { _ = try await store.finish([.givenBack(first.ticket)], by: worker) }
        let second = try await claimOne(worker)
        try await expectHints(after: "finish that releases a job") { try await finish(second, by: worker, .succeeded) }
        let third = try await claimOne(worker)
        try await expectHints(after: "a request to cancel") { _ = try await cancel(third.job.id) }
        try await finish(third, by: worker, .cancelled)
        try await expectHints(after: "retry") { _ = try await retry(third.job.id) }
        let next = try await push("3") { $0.serialKey = "a" }
        try await expectHints(after: "cancel that releases a job") { _ = try await cancel(third.job.id) }
        try expect(try await found(next.id).isBlocked, is: false, "`isBlocked` of the released job")
        try await expectHints(after: "pausing") { try await store.setPaused(true, queue: Self.queue) }
        try await expectHints(after: "resuming") { try await store.setPaused(false, queue: Self.queue) }
        let last = try await claimOne(worker)
        let again = AttemptResult.Outcome.again(soft: .zero, isNetwork: false, hard: nil)
        try await expectHints(after: "a result `again`") { try await finish(last, by: worker, again) }
        _ = try await claimOne(worker)
        try await expectHints(after: "unregister") { try await store.unregister(worker) }
        let (lost, other) = (try await register(), try await register())
        _ = try await claimOne(lost)
        try await pass(.seconds(25), other)
        try await expectHints(after: "a heartbeat that finds the end of another lease") { try await pass(.seconds(10), other) }
    }
}
