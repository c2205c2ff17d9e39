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
}
