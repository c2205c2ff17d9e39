import FoundationEssentials
import ReachableJobs
import ReachableRetry
import Testing

/// The requirements of `push`.
extension StoreSession {
    /// `push` returns one receipt for each job, in order, and positions grow in this order.
    func checkReceipts() async throws {
        let jobs = (0..<5).map { number in job("\(number)") { $0.destination = "\(number % 2)" } }
        let receipts = try await store.push(jobs, limit: nil)
        #expect(receipts == jobs.map { PushReceipt(id: $0.id, outcome: .added) })
        try await push("last")
        let found = try await find()
        #expect(found.map(\.name) == ["0", "1", "2", "3", "4", "last"])
        let positions = found.map(\.position)
        #expect(zip(positions, positions.dropFirst()).allSatisfy { $0 < $1 })
        #expect(try await store.push([], limit: 0) == [])
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
        #expect(found.id == pushed.id && Array(found.payload) == Array(pushed.payload))
        #expect([found.queue, found.kind, found.scope] == [pushed.queue, pushed.kind, pushed.scope])
        #expect(found.version == pushed.version && found.priority == pushed.priority)
        #expect(try #require(found.notBefore).duration(to: #require(found.deadline)) == .seconds(540))
        #expect([found.uniqueKey, found.serialKey] == [pushed.unique?.key, pushed.serialKey])
        #expect(found.continuesAfterFailure && !found.isRepeatable)
        #expect([found.destination, found.idempotencyKey] == [pushed.destination, "once"])
        #expect(found.traceContext == pushed.traceContext)
        #expect(found.state == .available && found.counters == .init())
        #expect(!found.isCancelRequested && !found.isBlocked && found.softDelay == nil && found.hardUntil == nil)
        #expect(found.lastError == nil && found.failureReason == nil && found.finished == nil)
        let plain = try await self.found(push("plain").id)
        #expect([plain.destination, plain.uniqueKey, plain.serialKey] == [nil, nil, nil])
        #expect(plain.notBefore == nil && plain.deadline == nil && plain.traceContext.isEmpty)
    }

    /// A `push` that throws has added nothing; one with a payload of more than 1 MiB throws `tooLarge`.
    func checkAtomicPush() async throws {
        let largest = try await push(job("") { $0.payload = Data(repeating: 7, count: largestPayload) }, limit: nil).id
        #expect(try await found(largest).payload.count == largestPayload)
        try await cancel(largest)
        let large = job("") { $0.payload = Data(count: largestPayload + 1) }
        func waiting() async throws -> [String] { try await find { $0.states = [.available] }.map(\.name) }
        await expectError(.tooLarge) { try await store.push([job("small"), large], limit: nil) }
        #expect(try await waiting() == [])
        await expectError(.full) { try await store.push([job("1"), job("2"), job("3")], limit: 2) }
        #expect(try await waiting() == [])
        try await push("old") { $0.unique = .replace("key") }
        await expectError(.full) {
            try await store.push([job("new") { $0.unique = .replace("key") }, job("1"), job("2")], limit: 2)
        }
        #expect(try await waiting() == ["old"])
    }

    /// The limit of a queue counts its unfinished jobs; a job that is kept or replaced needs no room.
    func checkQueueLimit() async throws {
        let worker = try await register()
        try await push("a", limit: 2) { $0.unique = .replace("key") }
        try await push("b", limit: 2)
        await expectError(.full) { try await push("c", limit: 2) }
        try await push("other", limit: 1) { $0.queue = "other" }
        #expect(try await push("d", limit: 1) { $0.unique = .keep("key") }.outcome == .kept)
        #expect(try await push("e", limit: 1) { $0.unique = .replace("key") }.outcome == .replaced)
        let pair = [job("f") { $0.unique = .keep("pair") }, job("g") { $0.unique = .keep("pair") }]
        #expect(try await store.push(pair, limit: 3).map(\.outcome) == [.added, .kept])
        let claimed = try await claim(worker, 1).jobs
        await expectError(.full) { try await push("h", limit: 3) }
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
        #expect(try await push(repeated) == PushReceipt(id: first.id, outcome: .kept))
        #expect(try await find().map(\.name) == ["a"])
        try await finish(try await claimOne(worker), by: worker, .succeeded)
        #expect(try await push(repeated).outcome == .kept)
        #expect(try await names(worker) == [])
    }
}
