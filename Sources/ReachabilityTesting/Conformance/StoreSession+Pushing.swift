internal import FoundationEssentials
internal import ReachableJobs
internal import ReachableRetry

/// The requirements of `push`.
extension StoreSession {
    /// `push` returns one receipt for each job, in order, and positions grow in this order.
    func checkReceipts() async throws {
        let jobs = (0..<5).map { number in job("\(number)") { $0.destination = "\(number % 2)" } }
        let receipts = try await store.push(jobs, limit: nil)
        try expect(receipts, is: jobs.map { PushReceipt(id: $0.id, outcome: .added) }, "the receipts of 5 jobs")
        try await push("last")
        let found = try await find()
        try expect(found.map(\.name), is: ["0", "1", "2", "3", "4", "last"], "the jobs by position")
        let positions = found.map(\.position)
        try expect(zip(positions, positions.dropFirst()).allSatisfy { $0 < $1 }, "the positions \(positions) do not grow")
        try expect(try await store.push([], limit: 0), is: [], "the receipts of no jobs")
    }

    /// A job comes back with all the properties that it was pushed with.
    func checkProperties() async throws {
        let pushed = job("a") { job in
            (job.version, job.scope, job.destination) = (3, "host=example.org port=443", "example.org")
            (job.priority, job.delay, job.timeLimit) = (.interactive, .seconds(60), .seconds(600))
            (job.unique, job.serialKey) = (.append("ключ'\"%"), "serial\u{0}key")
            (job.continuesAfterFailure, job.isRepeatable) = (true, false)
            (job.idempotencyKey, job.traceContext) = ("once", ["traceparent": "00-1", "": "ü"])
            job.payload = Data([0, 255, 10, 39])
        }
        try await push(pushed)
        let found = try await found(pushed.id)
        try expect(found.id, is: pushed.id, "id")
        try expect([found.queue, found.kind, found.scope], is: [pushed.queue, pushed.kind, pushed.scope], "queue, kind, scope")
        try expect(found.version, is: pushed.version, "version")
        try expect(Array(found.payload), is: Array(pushed.payload), "payload")
        try expect(found.destination, is: pushed.destination, "destination")
        try expect(found.priority, is: pushed.priority, "priority")
        let delays = [found.notBefore, found.deadline].compactMap(\.self)
        try expect(delays.count, is: 2, "the number of times")
        try expect(delays[0].duration(to: delays[1]), is: .seconds(540), "the time from `notBefore` to `deadline`")
        try expect([found.uniqueKey, found.serialKey], is: [pushed.unique?.key, pushed.serialKey], "unique and serial key")
        try expect(
            [found.continuesAfterFailure, found.isRepeatable], is: [true, false], "continuesAfterFailure, isRepeatable")
        try expect(found.idempotencyKey, is: "once", "idempotencyKey")
        try expect(found.traceContext, is: pushed.traceContext, "traceContext")
        try expect(found.state, is: .available, "state")
        try expect(found.counters, is: .init(), "counters")
        try expect(
            !found.isCancelRequested && !found.isBlocked && found.softDelay == nil && found.hardUntil == nil
                && found.lastError == nil && found.failureReason == nil && found.finished == nil,
            "a new job has a past: \(found)")
        let plain = try await push("plain")
        let other = try await self.found(plain.id)
        try expect(
            other.notBefore == nil && other.deadline == nil && other.destination == nil && other.uniqueKey == nil
                && other.serialKey == nil && other.traceContext.isEmpty, "absent properties came back: \(other)")
    }

    /// A `push` that throws has added nothing.
    func checkAtomicPush() async throws {
        let large = job("") { $0.payload = Data(count: largestPayload + 1) }
        try await expect(.tooLarge, from: "push of a small and a large job") {
            try await store.push([job("small"), large], limit: nil)
        }
        try expect(try await find().map(\.name), is: [], "the jobs after a push that threw `tooLarge`")
        try await expect(.full, from: "push of 3 jobs with a limit of 2") {
            try await store.push([job("1"), job("2"), job("3")], limit: 2)
        }
        try expect(try await find().map(\.name), is: [], "the jobs after a push that threw `full`")
        try await push("old") { $0.unique = .replace("key") }
        try await expect(.full, from: "push of a replacement and 2 jobs with a limit of 2") {
            try await store.push([job("new") { $0.unique = .replace("key") }, job("1"), job("2")], limit: 2)
        }
        try expect(try await find().map(\.name), is: ["old"], "the jobs after a replacement in a push that threw")
    }

    /// A payload of 1 MiB is stored; a larger one is refused with `tooLarge`.
    func checkPayloadLimit() async throws {
        let largest = try await push(job("") { $0.payload = Data(repeating: 7, count: largestPayload) })
        try expect(try await found(largest.id).payload.count, is: largestPayload, "the length of the largest payload")
        try await expect(.tooLarge, from: "push of 1 MiB and 1 byte") {
            try await push(job("") { $0.payload = Data(count: largestPayload + 1) })
        }
    }

    /// The limit of a queue counts its unfinished jobs; a job that is kept or replaced needs no room.
    func checkQueueLimit() async throws {
        let worker = try await register()
        try await push("a", limit: 2) { $0.unique = .replace("key") }
        try await push("b", limit: 2)
        try await expect(.full, from: "push of a third job with a limit of 2") { try await push("c", limit: 2) }
        try await push("other", limit: 1) { $0.queue = "other" }
        let kept = try await push("d", limit: 1) { $0.unique = .keep("key") }
        try expect(kept.outcome, is: .kept, "the push of a job that is kept into a queue with more than its limit")
        let replaced = try await push("e", limit: 1) { $0.unique = .replace("key") }
        try expect(replaced.outcome, is: .replaced, "the push of a replacement into a queue with more than its limit")
        let pair = [job("f") { $0.unique = .keep("pair") }, job("g") { $0.unique = .keep("pair") }]
        try expect(
            try await store.push(pair, limit: 3).map(\.outcome), is: [.added, .kept],
            "the push of two jobs with the same key into a queue with room for one")
        let claimed = try await claim(worker, 1).jobs
        try await expect(.full, from: "push while a job runs, with a limit of 3") { try await push("h", limit: 3) }
        for job in claimed { try await finish(job, by: worker, .failed(reason: "attempts")) }
        try await push("i", limit: 3)
        try await push("j", limit: nil)
    }

    /// A job whose identity the store has already is kept as it is.
    func checkRepeatedPush() async throws {
        let worker = try await register()
        let first = job("a") { $0.unique = .append("key") }
        try await push(first)
        var repeated = first
        repeated.payload = Data("b".utf8)
        try expect(try await push(repeated), is: PushReceipt(id: first.id, outcome: .kept), "the receipt of the same job again")
        try expect(try await find().map(\.name), is: ["a"], "the jobs")
        try await finish(try await claimOne(worker), by: worker, .succeeded)
        try expect(try await push(repeated).outcome, is: .kept, "the receipt after the job has succeeded")
        try expect(try await names(worker), is: [], "the jobs that may run")
    }
}
