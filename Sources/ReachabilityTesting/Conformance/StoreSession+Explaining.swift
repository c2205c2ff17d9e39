internal import FoundationEssentials
internal import ReachableJobs
internal import ReachableRetry

/// The requirements of ``JobStore/explain(_:)``.
extension StoreSession {
    /// `explain` answers in order, with `nil` for unknown jobs, and gives each job as `find` does, but without its payload.
    func checkExplanations() async throws {
        let worker = try await register()
        let waiting = try await push("waiting") { job in
            (job.destination, job.delay, job.timeLimit) = ("x", .seconds(1000), .seconds(2000))
            (job.unique, job.serialKey, job.traceContext) = (.keep("u"), "s", ["traceparent": "00"])
        }.id
        let failing = try await push("failing") { ($0.kind, $0.version) = ("other", 2) }.id
        try await finish(
            try await claimOne(worker), by: worker, .again(soft: .seconds(60), isNetwork: true, hard: .seconds(90)), error: "text")
        let done = try await push("done").id
        try await finish(try await claimOne(worker), by: worker, .succeeded)
        let answers = try await store.explain([done, DurableJobID(), waiting, failing, waiting])
        try expect(
            answers.map { $0?.job.id }, is: [done, nil, waiting, failing, waiting],
            "the identities for a done, an unknown, a waiting, a failing, and the waiting job again")
        for answer in answers.compactMap(\.self) {
            var wanted = try await found(answer.id)
            wanted.payload = Data()
            try expect(answer.job, is: wanted, "the job with an empty payload")
        }
        try expect(try await store.explain([]), is: [], "the answers for no jobs")
        let times = Set(answers.compactMap { $0?.now })
        try expect(times.count, is: 1, "the number of times that one answer names")
        let now = try await claim(worker, 0).now
        try expect(times.allSatisfy { $0 <= now }, "the time \(times) is later than that of a claim after it: \(now)")
    }

    /// `explain` tells if the queue is paused, and how many workers it has whose lease is valid.
    func checkExplainedQueues() async throws {
        let id = try await push("a").id
        let other = try await push("b") { $0.queue = "other" }.id
        func expectFacts(_ paused: [Bool], _ workers: [Int], _ when: String) async throws {
            let answers = try await store.explain([id, other])
            try expect(answers.map { $0?.isPaused }, is: paused, "`isPaused` of two queues \(when)")
            try expect(answers.map { $0?.workers }, is: workers, "`workers` of two queues \(when)")
        }
        try await expectFacts([false, false], [0, 0], "without workers")
        try await store.setPaused(true, queue: Self.queue)
        let first = try await register()
        _ = try await store.register(queue: Self.queue, node: "another node")
        try await expectFacts([true, false], [2, 0], "while the first is paused and has two workers")
        try await store.setPaused(false, queue: Self.queue)
        try await store.unregister(first)
        try await expectFacts([false, false], [1, 0], "after the first was resumed and one worker has left")
        try await pass(StoreLease.duration + .seconds(1))
        try await expectFacts([false, false], [0, 0], "after the end of the last lease")
    }

    /// `explain` names the first job that a blocked one waits for, of each key, with its state.
    func checkExplainedBlockers() async throws {
        let worker = try await register()
        let head = try await push("head") { ($0.serialKey, $0.unique) = ("s", .append("u")) }.id
        let next = try await push("next") { ($0.serialKey, $0.unique) = ("s", .append("u")) }.id
        let last = try await push("last") { ($0.serialKey, $0.unique) = ("s", .append("v")) }.id
        try await push("other queue") { ($0.serialKey, $0.queue) = ("s", "other") }
        func expectBlockers(_ wanted: [[JobExplanation.Blocker]], _ when: String) async throws {
            let found = try await store.explain([head, next, last]).map {
                $0?.blockers.sorted { $0.key.rawValue < $1.key.rawValue }
            }
            try expect(found, is: wanted, "`blockers` of three jobs with a serial key, two with a unique one, \(when)")
        }
        func blocker(_ id: DurableJobID, _ state: DurableJob.State, _ key: JobExplanation.Blocker.Key) -> JobExplanation.Blocker {
            JobExplanation.Blocker(id: id, state: state, key: key)
        }
        func both(_ id: DurableJobID, _ state: DurableJob.State) -> [JobExplanation.Blocker] {
            [blocker(id, state, .serial), blocker(id, state, .unique)]
        }
        try await expectBlockers([[], both(head, .available), [blocker(head, .available, .serial)]], "while all wait")
        let claimed = try await claimOne(worker)
        try await expectBlockers([[], both(head, .running), [blocker(head, .running, .serial)]], "while the first runs")
        try await finish(claimed, by: worker, .failed(reason: "attempts"))
        let failed = [blocker(head, .failed, .serial)]
        try await expectBlockers([[], failed, failed], "after the first has failed")
        _ = try await cancel(head)
        try await expectBlockers([[], [], [blocker(next, .available, .serial)]], "after the first was cancelled")
        let (early, late) = (try await push("early") { $0.serialKey = "t" }.id, try await push("late") { $0.serialKey = "t" }.id)
        _ = try await cancel(early)
        _ = try await claim(worker)
        _ = try await retry(early)
        try expect(
            try await store.explain([early]).map { $0?.blockers }, is: [[blocker(late, .running, .serial)]],
            "`blockers` of a job that was retried while a later one runs")
    }

    /// `explain` names the end of a server's order for the destination, as long as it holds.
    func checkExplainedHolds() async throws {
        let worker = try await register()
        try await push("first") { $0.destination = "x" }
        let claimed = try await claimOne(worker)
        let same = try await push("same") { ($0.destination, $0.kind) = ("x", "other") }.id
        let free = try await push("free") { $0.destination = "y" }.id
        let start = try await claim(worker, 0) { _ in false }.now
        try await finish(claimed, by: worker, .succeeded, hold: .seconds(60))
        let new = try await push("new") { ($0.destination, $0.version) = ("x", 7) }.id
        let holds = try await store.explain([same, new, free]).map { $0?.holdUntil }
        let durations = holds.map { $0.map { start.duration(to: $0) } }
        try expect(
            durations[0].map { $0 >= .seconds(60) && $0 < .seconds(70) } ?? false,
            "`holdUntil` is not the end of the server's order: \(durations)")
        try expect(holds, is: [holds[0], holds[0], nil], "`holdUntil` of two jobs of the destination and another one")
        try await pass(.seconds(61), worker)
        try expect(try await store.explain([same]).map { $0?.holdUntil }, is: [nil], "`holdUntil` after its end")
    }

    /// `explain` names the worker of a running job, and tells if its attempt has started.
    func checkExplainedClaims() async throws {
        let (first, second) = (try await register(), try await register())
        let ids = [try await push("a").id, try await push("b").id, try await push("c").id]
        let claimed = [try await claim(first, 1).jobs, try await claim(second, 1).jobs].flatMap(\.self)
        try expect(claimed.count, is: 2, "the number of jobs that two workers claimed")
        _ = try await start(claimed[1], by: second)
        var answers = try await store.explain(ids)
        try expect(answers.map { $0?.worker }, is: [first, second, nil], "`worker` of two claimed jobs and a waiting one")
        try expect(answers.map { $0?.isStarted }, is: [false, true, false], "`isStarted`; only the second one has started")
        try await store.giveBack([claimed[0].ticket], by: first)
        try await finish(claimed[1], by: second, .succeeded)
        answers = try await store.explain(ids)
        try expect(answers.map { $0?.worker }, is: [nil, nil, nil], "`worker` after the ends of the claims")
        try expect(answers.map { $0?.isStarted }, is: [false, false, false], "`isStarted` after the ends of the claims")
    }
}
