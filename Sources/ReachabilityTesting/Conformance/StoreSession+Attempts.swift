internal import ReachableJobs

/// The requirements of claims and their results.
extension StoreSession {
    /// Each claim of a job has a larger number; calls with an old number or of another worker change nothing.
    func checkFencing() async throws {
        let (first, second) = (try await register(), try await register())
        let id = try await push("a").id
        let old = try await claimOne(first)
        try expect(try await start(old, by: second), is: false, "the answer to `start` by another worker")
        try expect(try await finish(old, by: second, .succeeded), is: false, "the answer to `finish` by another worker")
        _ = try await store.finish([.givenBack(old.ticket)], by: second)
        try expect(try await state(id), is: .running, "the state after a return by another worker")
        try expect(try await store.finish([.givenBack(old.ticket)], by: first), is: [.recorded], "the answer to a return")
        let new = try await claimOne(first)
        try expect(new.claim > old.claim, "the number of the second claim, \(new.claim), is not above \(old.claim)")
        try expect(try await start(old, by: first), is: false, "the answer to `start` with an old number")
        try expect(
            try await finish(old, by: first, .succeeded, hold: .seconds(60)), is: false, "the answer to `finish` with an old number"
        )
        try expect(
            try await store.finish([.givenBack(old.ticket)], by: first), is: [.refused],
            "the answer to a return with an old number")
        try expect(try await state(id), is: .running, "the state after calls with an old number")
        try await push("b")
        try expect(try await names(second), is: ["b"], "the jobs claimed after a refused result with a hold")
        let results = [
            AttemptResult(old.ticket, .succeeded, counters: .init()),
            AttemptResult(new.ticket, .again(soft: .zero, isNetwork: false, hard: nil), counters: .init()),
            AttemptResult(JobTicket(id: DurableJobID(), claim: 1), .succeeded, counters: .init()),
        ]
        try expect(try await store.finish(results, by: first), is: [.refused, .recorded, .refused], "the answers to three results")
        try expect(try await finish(new, by: first, .succeeded), is: false, "the answer to a second result of a claim")
        let last = try await claimOne(second)
        try expect(last.claim > new.claim, "the number of the third claim, \(last.claim), is not above \(new.claim)")
    }

    /// `start` refuses an invalid claim and a job whose cancellation was requested, and counts the attempt once.
    func checkStarts() async throws {
        let worker = try await register()
        for name in ["a", "b", "c"] { try await push(name) }
        let claimed = try await claim(worker).jobs
        try expect(claimed.map(\.job.counters.started), is: [0, 0, 0], "the attempts before they start")
        guard claimed.count == 3 else { return }
        try expect(try await cancel(claimed[1].job.id), is: .requested, "the answer to `cancel` of a claimed job")
        _ = try await store.finish([.givenBack(claimed[2].ticket)], by: worker)
        try expect(
            try await store.start(claimed.map(\.ticket), by: worker), is: [true, false, false],
            "the answers to `start` of a valid claim, a cancelled job and a claim that was given back")
        try expect(try await start(claimed[0], by: worker), is: true, "the answer to a repeated `start`")
        try expect(try await find().map(\.counters.started), is: [1, 0, 0], "the counted attempts")
    }

    /// `finish` records state, counters, reason and time, and the first 4 KiB of the error.
    func checkResults() async throws {
        let worker = try await register()
        let names = ["succeeded", "failed", "cancelled", "again"]
        for name in names { try await push(name) }
        let long = String(repeating: "é", count: 3000)
        for claimed in try await claim(worker).jobs {
            let outcome: AttemptResult.Outcome =
                switch claimed.job.name {
                case "succeeded": .succeeded
                case "failed": .failed(reason: "deadline")
                case "cancelled": .cancelled
                default: .again(soft: .seconds(60), isNetwork: true, hard: nil)
                }
            let isValid = try await finish(claimed, by: worker, outcome, error: claimed.job.name == "again" ? long : "broken") {
                ($0.started, $0.charged, $0.networkFailures, $0.failureIndex, $0.crashes) = (4, 3, 2, 1, 9)
            }
            try expect(isValid, is: true, "the answer to `finish` of \(claimed.job.name)")
        }
        let jobs = try await find()
        try expect(jobs.map(\.state), is: [.succeeded, .failed, .cancelled, .available], "the states")
        for job in jobs {
            let counters = job.counters
            try expect(
                [counters.started, counters.charged, counters.networkFailures, counters.failureIndex], is: [4, 3, 2, 1],
                "the counters of \(job.name)")
            try expect(counters.crashes, is: 0, "the crashes of \(job.name), which a result does not count")
            try expect(job.finished != nil, is: job.state.isFinal, "that \(job.name) has a time of its end")
            try expect(job.failureReason, is: job.state == .failed ? "deadline" : nil, "the reason of \(job.name)")
        }
        try expect(jobs.prefix(3).map(\.lastError), is: ["broken", "broken", "broken"], "the texts of the failures")
        try expect(jobs.last?.lastError, is: String(long.prefix(2048)), "the text of a failure with 6000 bytes")
        try expect(jobs.last?.softDelay?.isNetwork, is: true, "`isNetwork` of the backoff")
    }

    /// `givenBack` makes a job available again as it was.
    func checkGivingBack() async throws {
        let worker = try await register()
        try await push("first") { $0.serialKey = "key" }
        try await push("second") { $0.serialKey = "key" }
        try await push("last")
        let before = try await find()
        let claimed = try await claim(worker).jobs
        try expect(claimed.map(\.job.name), is: ["first", "last"], "the claimed jobs")
        _ = try await store.finish(claimed.map { .givenBack($0.ticket) }, by: worker)
        try expect(try await find(), is: before, "the jobs after they were claimed and given back")
        let again = try await claim(worker).jobs
        try expect(again.map(\.job.name), is: ["first", "last"], "the jobs claimed after they were given back")
        for job in again { _ = try await start(job, by: worker) }
        _ = try await store.finish(again.map { .givenBack($0.ticket) }, by: worker)
        let counters = try await find().map(\.counters)
        try expect(counters.map(\.charged), is: [0, 0, 0], "the charged attempts after the return of started ones")
        try expect(counters.map(\.crashes), is: [0, 0, 0], "the crashes after the return of started ones")
    }
}
