import ReachableJobs
import ReachableRetry
import Testing

/// The requirements of serial and unique keys.
extension StoreSession {
    /// Of jobs with the same serial key only the first is claimed, also while it backs off; each queue has its own keys.
    func checkSerialOrder() async throws {
        let (worker, second) = (try await register(), try await register())
        let other = try await register(queue: "other")
        try await push("1") { ($0.serialKey, $0.destination) = ("key", "x") }
        let follower = try await push("2") { ($0.serialKey, $0.priority) = ("key", .interactive) }
        try await push("3") { ($0.serialKey, $0.kind) = ("key", "other") }
        try await push("another key") { $0.serialKey = "another" }
        try await push("another queue") { ($0.serialKey, $0.queue) = ("key", "other") }
        #expect(try await found(follower.id).isBlocked)
        let claims = try await claim(worker)
        #expect(claims.names == ["1", "another key"])
        #expect(!claims.hasMore)
        #expect(try await names(second) == [])
        #expect(try await names(other) == ["another queue"])
        let first = try #require(claims.jobs.first)
        try await finish(first, by: worker, .again(soft: .seconds(60), isNetwork: false, hard: nil))
        #expect(try await names(worker) == [])
        try await pass(.seconds(61), worker, second)
        try await expectTurns(["1", "2", "3"], of: worker)
        try await push("4") { $0.serialKey = "key" }
        #expect(try await names(worker) == ["4"])
    }

    /// Expects jobs one at a time, and finishes them.
    private func expectTurns(_ names: [String], of worker: WorkerID) async throws {
        for name in names {
            let claimed = try await claimOne(worker)
            #expect(claimed.job.name == name)
            try await finish(claimed, by: worker, .succeeded)
        }
    }

    /// A failed job blocks the jobs behind it unless it continues after failure.
    func checkSerialFailures() async throws {
        let worker = try await register()
        try await push("a1") { $0.serialKey = "a" }
        let blocked = try await push("a2") { $0.serialKey = "a" }
        try await push("b1") { ($0.serialKey, $0.continuesAfterFailure) = ("b", true) }
        try await push("b2") { $0.serialKey = "b" }
        for job in try await claim(worker).jobs { try await finish(job, by: worker, .failed(reason: "attempts")) }
        try await push("a3") { $0.serialKey = "a" }
        #expect(try await names(worker) == ["b2"])
        #expect(try await found(blocked.id).isBlocked)
    }

    /// `cancel` of a waiting or failed job releases the next one.
    func checkSerialCancellation() async throws {
        let worker = try await register()
        let waiting = try await push("a1") { ($0.serialKey, $0.delay) = ("a", .seconds(60)) }
        try await push("a2") { $0.serialKey = "a" }
        let failed = try await push("b1") { $0.serialKey = "b" }
        try await push("b2") { $0.serialKey = "b" }
        let middle = try await push("b3") { $0.serialKey = "b" }
        try await push("b4") { $0.serialKey = "b" }
        try await finish(try await claimOne(worker), by: worker, .failed(reason: "attempts"))
        #expect(try await cancel(middle.id) == .cancelled)
        #expect(try await names(worker) == [])
        #expect(try await cancel(waiting.id) == .cancelled)
        #expect(try await names(worker) == ["a2"])
        #expect(try await cancel(failed.id) == .cancelled)
        #expect(try await state(failed.id) == .cancelled)
        let next = try await claimOne(worker)
        #expect(next.job.name == "b2")
        try await finish(next, by: worker, .succeeded)
        #expect(try await names(worker) == ["b4"])
    }

    /// `retry` keeps the position; a retried job waits for one with its key that is running.
    func checkSerialRetries() async throws {
        let worker = try await register()
        let first = try await push("1") { $0.serialKey = "key" }
        for name in ["2", "3"] { try await push(name) { $0.serialKey = "key" } }
        let position = try await found(first.id).position
        try await finish(try await claimOne(worker), by: worker, .failed(reason: "attempts"))
        #expect(try await retry(first.id) == .retried)
        #expect(try await found(first.id).position == position)
        #expect(try await names(worker, 0) == [])
        try await finish(try await claimOne(worker), by: worker, .failed(reason: "attempts"))
        try await cancel(first.id)
        let second = try await claimOne(worker)
        #expect(second.job.name == "2")
        #expect(try await retry(first.id) == .retried)
        #expect(try await names(worker) == [])
        #expect(try await found(first.id).isBlocked)
        try await finish(second, by: worker, .again(soft: .zero, isNetwork: false, hard: nil))
        try await expectTurns(["1", "2", "3"], of: worker)
    }

    /// `.keep` adds a job only if no unfinished one of the queue and kind has the key, also at the same time.
    func checkUniqueKeep() async throws {
        let worker = try await register()
        let first = try await push("a") { $0.unique = .keep("key") }
        #expect(first.outcome == .added)
        #expect(try await push("b") { $0.unique = .keep("key") } == PushReceipt(id: first.id, outcome: .kept))
        let others = [
            try await push("c") { ($0.unique, $0.kind) = (.keep("key"), "other") },
            try await push("d") { ($0.unique, $0.queue) = (.keep("key"), "other") },
            try await push("e") { $0.unique = .keep("another") },
        ]
        #expect(others.map(\.outcome) == [.added, .added, .added])
        for job in try await claim(worker).jobs {
            if job.job.uniqueKey == "key" {
                let running = try await push("f") { ($0.unique, $0.kind) = (.keep("key"), job.job.kind) }
                #expect(running == PushReceipt(id: job.job.id, outcome: .kept))
            }
            try await finish(job, by: worker, job.job.name == "a" ? .failed(reason: "attempts") : .succeeded)
        }
        #expect(try await push("g") { $0.unique = .keep("key") }.outcome == .added)
        let receipts = try await withThrowingTaskGroup(of: PushReceipt?.self) { group in
            for number in 0..<16 {
                let job = job("\(number)") { $0.unique = .keep("crowd") }
                let store = number % 2 == 0 ? store : candidate.peer
                group.addTask { try await store.push([job], limit: nil).first }
            }
            return try await group.reduce(into: []) { $0 += [$1].compactMap(\.self) }
        }
        #expect(receipts.filter { $0.outcome == .added }.count == 1)
        #expect(Set(receipts.map(\.id)).count == 1)
    }

    /// `.replace` changes all of a job that has not started but its identity, position and priority, and ends its claim.
    func checkUniqueReplace() async throws {
        let worker = try await register()
        let first = try await push("old") { job in
            (job.unique, job.serialKey, job.destination) = (.replace("key"), "serial", "x")
            (job.delay, job.timeLimit, job.priority) = (.seconds(1000), .seconds(2000), .interactive)
        }
        let behind = try await push("behind") { $0.serialKey = "serial" }
        let old = try await found(first.id)
        let new = job("new") { job in
            (job.unique, job.version, job.destination, job.timeLimit) = (.replace("key"), 2, "y", .seconds(3000))
            (job.serialKey, job.continuesAfterFailure, job.isRepeatable) = ("other", true, false)
            job.traceContext = ["traceparent": "new"]
        }
        #expect(try await push(new) == PushReceipt(id: first.id, outcome: .replaced))
        let found = try await found(first.id)
        #expect(found.name == "new" && found.version == 2 && found.destination == "y" && found.traceContext == new.traceContext)
        #expect(found.notBefore == nil)
        #expect(try #require(found.deadline) > #require(old.deadline))
        #expect(found.idempotencyKey == new.idempotencyKey && found.serialKey == "other")
        #expect(found.continuesAfterFailure && !found.isRepeatable)
        #expect(found.position == old.position && found.priority == .interactive && found.pushed == old.pushed)
        #expect(try await !self.found(behind.id).isBlocked)
        let claimed = try await claim(worker).jobs
        try #require(claimed.map(\.job.name) == ["new", "behind"])
        let again = try await push("newer") { $0.unique = .replace("key") }
        #expect(again == PushReceipt(id: first.id, outcome: .replaced))
        #expect(try await !start(claimed[0], by: worker))
        #expect(try await !finish(claimed[0], by: worker, .succeeded))
        let next = try await claimOne(worker)
        #expect(next.job.name == "newer")
        #expect(next.claim > claimed[0].claim)
    }

    /// `.replace` adds one successor to a job that has started, and changes that from then on.
    func checkUniqueSuccessors() async throws {
        let worker = try await register()
        let first = try await push("first") { $0.unique = .replace("key") }
        let claimed = try await claimOne(worker)
        _ = try await start(claimed, by: worker)
        let second = try await push("second") { $0.unique = .replace("key") }
        #expect(second.outcome == .appended)
        let third = try await push("third") { $0.unique = .replace("key") }
        #expect(third == PushReceipt(id: second.id, outcome: .replaced))
        #expect(try await found(first.id).name == "first")
        #expect(try await names(worker) == [])
        try await finish(claimed, by: worker, .again(soft: .seconds(1000), isNetwork: false, hard: nil)) { $0.started = 1 }
        let fourth = try await push("fourth") { $0.unique = .replace("key") }
        #expect(fourth == PushReceipt(id: second.id, outcome: .replaced))
        try await cancel(second.id)
        let fifth = try await push("fifth") { $0.unique = .replace("key") }
        #expect(fifth.outcome == .appended)
        #expect(try await names(worker) == [])
        try await cancel(first.id)
        #expect(try await names(worker) == ["fifth"])
    }

    /// A running job whose cancellation was requested keeps its unique key from no push.
    func checkUnwantedHolders() async throws {
        let worker = try await register()
        let first = try await push("first") { $0.unique = .keep("key") }
        let claimed = try await claimOne(worker)
        _ = try await start(claimed, by: worker)
        try await cancel(first.id)
        let second = try await push("second") { $0.unique = .keep("key") }
        #expect(second.outcome == .added)
        #expect(try await push("third") { $0.unique = .keep("key") } == PushReceipt(id: second.id, outcome: .kept))
        #expect(try await names(worker) == [])
        try await finish(claimed, by: worker, .cancelled)
        #expect(try await names(worker) == ["second"])
    }

    /// `retry` refuses a job whose unique key an unfinished one has.
    func checkUniqueRetries() async throws {
        let worker = try await register()
        let first = try await push("first") { $0.unique = .replace("key") }
        try await finish(try await claimOne(worker), by: worker, .failed(reason: "attempts"))
        let second = try await push("second") { $0.unique = .replace("key") }
        #expect(try await retry(first.id) == .taken(by: second.id))
        #expect(try await state(first.id) == .failed)
        try await cancel(second.id)
        #expect(try await store.retry([second.id, first.id], limit: nil) == [.retried, .taken(by: second.id)])
    }

    /// Keys and names are equal if their bytes are.
    func checkBytes() async throws {
        let worker = try await register()
        for (number, key) in ["\u{e9}", "e\u{301}"].enumerated() {
            let receipt = try await push("\(number)") { ($0.unique, $0.serialKey, $0.destination) = (.keep(key), key, key) }
            #expect(receipt.outcome == .added)
        }
        let jobs = try await claim(worker).jobs.map(\.job)
        #expect(jobs.map(\.name) == ["0", "1"])
        #expect(try await store.count(queue: Self.queue).map(\.count) == [1, 1])
        #expect(try await find { $0.serialKey = "e\u{301}" }.map(\.name) == ["1"])
        for name in ["\u{e9}", "e\u{301}"] { try await push(name) { ($0.queue, $0.kind) = (name, name) } }
        for name in ["\u{e9}", "e\u{301}"] {
            let worker = try await register(queue: name)
            #expect(try await names(worker).count == 1)
            #expect(try await store.workers(of: name).map(\.id) == [worker])
            #expect(try await store.count(queue: name).count == 1)
        }
    }

    /// `.append` adds a job that waits for the others with its key.
    func checkUniqueAppend() async throws {
        let worker = try await register()
        let first = try await push("first") { $0.unique = .append("key") }
        #expect(first.outcome == .added)
        let second = try await push("second") { ($0.unique, $0.priority) = (.append("key"), .interactive) }
        #expect(second.outcome == .appended && second.id != first.id)
        #expect(try await found(second.id).isBlocked)
        try await push("other kind") { ($0.unique, $0.kind) = (.append("key"), "other") }
        let claimed = try await claim(worker).jobs
        #expect(claimed.map(\.job.name) == ["first", "other kind"])
        let replaced = try await push("third") { $0.unique = .replace("key") }
        #expect(replaced == PushReceipt(id: second.id, outcome: .replaced))
        for job in claimed { try await finish(job, by: worker, .failed(reason: "attempts")) }
        #expect(try await names(worker) == ["third"])
    }

    /// The jobs of one `push` see each other's unique keys, in their order.
    func checkUniqueBatches() async throws {
        let worker = try await register()
        try await push("running") { $0.unique = .keep("running") }
        _ = try await start(try await claimOne(worker), by: worker)
        let there = try await push("there") { $0.unique = .keep("there") }.id
        let rules: [(String, JobQueue.Unique?)] = [
            ("1", .keep("new")), ("2", .keep("new")), ("3", .replace("new")), ("4", .append("new")), ("5", .replace("new")),
            ("6", .replace("there")), ("7", nil), ("8", .replace("running")), ("9", .replace("running")),
        ]
        let jobs = rules.map { name, unique in job(name) { $0.unique = unique } }
        let receipts = try await store.push(jobs, limit: nil)
        #expect(
            receipts.map(\.outcome) == [.added, .kept, .replaced, .appended, .replaced, .replaced, .added, .appended, .replaced])
        let ids = jobs.map(\.id)
        #expect(receipts.map(\.id) == [ids[0], ids[0], ids[0], ids[3], ids[3], there, ids[6], ids[7], ids[7]])
        #expect(try await find().map(\.name) == ["running", "6", "3", "5", "7", "9"])
    }
}
