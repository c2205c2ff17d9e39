import FoundationEssentials
import ReachableJobs
import ReachableRetry
import Testing

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
        #expect(answers.map { $0?.job.id } == [done, nil, waiting, failing, waiting])
        for answer in answers.compactMap(\.self) {
            var wanted = try await found(answer.id)
            wanted.payload = Data()
            #expect(answer.job == wanted)
        }
        #expect(try await store.explain([]) == [])
        let times = Set(answers.compactMap { $0?.now })
        #expect(times.count == 1)
        let now = try await claim(worker, 0).now
        #expect(times.allSatisfy { $0 <= now })
    }

    /// `explain` names the first job that a blocked one waits for, of each key, with its state.
    func checkExplainedBlockers() async throws {
        let worker = try await register()
        let head = try await push("head") { ($0.serialKey, $0.unique) = ("s", .append("u")) }.id
        let next = try await push("next") { ($0.serialKey, $0.unique) = ("s", .append("u")) }.id
        let last = try await push("last") { ($0.serialKey, $0.unique) = ("s", .append("v")) }.id
        try await push("other queue") { ($0.serialKey, $0.queue) = ("s", "other") }
        func blockers() async throws -> [[JobExplanation.Blocker]?] {
            try await store.explain([head, next, last]).map { $0?.blockers.sorted { $0.key.rawValue < $1.key.rawValue } }
        }
        func blocker(_ id: DurableJobID, _ state: DurableJob.State, _ key: JobExplanation.Blocker.Key) -> JobExplanation.Blocker {
            JobExplanation.Blocker(id: id, state: state, key: key)
        }
        func both(_ id: DurableJobID, _ state: DurableJob.State) -> [JobExplanation.Blocker] {
            [blocker(id, state, .serial), blocker(id, state, .unique)]
        }
        #expect(try await blockers() == [[], both(head, .available), [blocker(head, .available, .serial)]])
        let claimed = try await claimOne(worker)
        #expect(try await blockers() == [[], both(head, .running), [blocker(head, .running, .serial)]])
        try await finish(claimed, by: worker, .failed(reason: "attempts"))
        let failed = [blocker(head, .failed, .serial)]
        #expect(try await blockers() == [[], failed, failed])
        try await cancel(head)
        #expect(try await blockers() == [[], [], [blocker(next, .available, .serial)]])
        let (early, late) = (try await push("early") { $0.serialKey = "t" }.id, try await push("late") { $0.serialKey = "t" }.id)
        try await cancel(early)
        _ = try await claim(worker)
        try await retry(early)
        #expect(try await store.explain([early]).map { $0?.blockers } == [[blocker(late, .running, .serial)]])
    }
}
