import ReachableJobs
import Testing

/// The requirements of claims and their results.
extension StoreSession {
    /// Each claim of a job has a larger number; calls with an old number or of another worker change nothing.
    func checkFencing() async throws {
        let (first, second) = (try await register(), try await register())
        let id = try await push("a").id
        let old = try await claimOne(first)
        #expect(try await !start(old, by: second))
        #expect(try await !finish(old, by: second, .succeeded))
        try await giveBack([old], by: second)
        #expect(try await state(id) == .running)
        #expect(try await giveBack([old], by: first) == [.recorded])
        let new = try await claimOne(first)
        #expect(new.claim > old.claim)
        #expect(try await !start(old, by: first))
        #expect(try await !finish(old, by: first, .succeeded, hold: .seconds(60)))
        #expect(try await giveBack([old], by: first) == [.refused])
        #expect(try await state(id) == .running)
        try await push("b")
        #expect(try await names(second) == ["b"])
        let results = [
            AttemptResult(old.ticket, .succeeded, counters: .init()),
            AttemptResult(new.ticket, .again(soft: .zero, isNetwork: false, hard: nil), counters: .init()),
            AttemptResult(JobTicket(id: DurableJobID(), claim: 1), .succeeded, counters: .init()),
        ]
        #expect(try await store.finish(results, by: first) == [.refused, .recorded, .refused])
        #expect(try await !finish(new, by: first, .succeeded))
        let last = try await claimOne(second)
        #expect(last.claim > new.claim)
    }

    /// `start` refuses an invalid claim and a job whose cancellation was requested, and counts the attempt once.
    func checkStarts() async throws {
        let worker = try await register()
        for name in ["a", "b", "c"] { try await push(name) }
        let claimed = try await claim(worker).jobs
        try #require(claimed.map(\.job.counters.started) == [0, 0, 0])
        #expect(try await cancel(claimed[1].job.id) == .requested)
        try await giveBack([claimed[2]], by: worker)
        #expect(try await store.start(claimed.map(\.ticket), by: worker) == [true, false, false])
        #expect(try await start(claimed[0], by: worker))
        #expect(try await find().map(\.counters.started) == [1, 0, 0])
    }

    /// `finish` records state, counters, reason and time, and the first 4 KiB of the error.
    func checkResults() async throws {
        let worker = try await register()
        let long = String(repeating: "é", count: 3000)
        let results: [(AttemptResult.Outcome, error: String)] = [
            (.succeeded, "broken"), (.failed(reason: "deadline"), "broken"), (.cancelled, "broken"),
            (.again(soft: .seconds(60), isNetwork: true, hard: nil), long),
        ]
        for number in results.indices { try await push("\(number)") }
        for (claimed, (outcome, error)) in zip(try await claim(worker).jobs, results) {
            let isValid = try await finish(claimed, by: worker, outcome, error: error) {
                ($0.started, $0.charged, $0.networkFailures, $0.failureIndex, $0.crashes) = (4, 3, 2, 1, 9)
            }
            #expect(isValid)
        }
        let jobs = try await find()
        #expect(jobs.map(\.state) == [.succeeded, .failed, .cancelled, .available])
        for job in jobs {
            let counters = job.counters
            #expect([counters.started, counters.charged, counters.networkFailures, counters.failureIndex] == [4, 3, 2, 1])
            #expect(counters.crashes == 0, "a result counts no crash")
            #expect((job.finished != nil) == job.state.isFinal)
            #expect(job.failureReason == (job.state == .failed ? "deadline" : nil))
        }
        #expect(jobs.prefix(3).map(\.lastError) == ["broken", "broken", "broken"])
        #expect(jobs.last?.lastError == String(long.prefix(2048)))
        #expect(jobs.last?.softDelay?.isNetwork == true)
    }

    /// `givenBack` makes a job available again as it was.
    func checkGivingBack() async throws {
        let worker = try await register()
        try await push("first") { $0.serialKey = "key" }
        try await push("second") { $0.serialKey = "key" }
        try await push("last")
        let before = try await find()
        let claimed = try await claim(worker).jobs
        #expect(claimed.map(\.job.name) == ["first", "last"])
        try await giveBack(claimed, by: worker)
        #expect(try await find() == before)
        let again = try await claim(worker).jobs
        #expect(again.map(\.job.name) == ["first", "last"])
        for job in again { _ = try await start(job, by: worker) }
        try await giveBack(again, by: worker)
        #expect(try await find().allSatisfy { $0.counters.charged == 0 && $0.counters.crashes == 0 })
    }
}
