internal import ReachableJobs
internal import ReachableRetry

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
        try expect(try await found(follower.id).isBlocked, is: true, "`isBlocked` of the second job")
        let claims = try await claim(worker)
        try expect(claims.jobs.map(\.job.name), is: ["1", "another key"], "the jobs claimed first")
        try expect(claims.hasMore, is: false, "`hasMore` while the other jobs are blocked")
        try expect(try await names(second), is: [], "the jobs claimed while the first one runs")
        try expect(try await names(other), is: ["another queue"], "the jobs claimed from another queue")
        guard let first = claims.jobs.first else { return }
        try await finish(first, by: worker, .again(soft: .seconds(60), isNetwork: false, hard: nil))
        try expect(try await names(worker), is: [], "the jobs claimed while the first one backs off")
        try await pass(.seconds(61), worker, second)
        for name in ["1", "2", "3"] {
            let claimed = try await claim(worker).jobs
            try expect(claimed.map(\.job.name), is: [name], "the jobs claimed when it is the turn of \(name)")
            for job in claimed { try await finish(job, by: worker, .succeeded) }
        }
        try await push("4") { $0.serialKey = "key" }
        try expect(try await names(worker), is: ["4"], "the jobs claimed after all others have ended")
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
        try expect(try await names(worker), is: ["b2"], "the jobs claimed after a1 and b1 have failed")
        try expect(try await found(blocked.id).isBlocked, is: true, "`isBlocked` of the job behind the failed one")
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
        try expect(try await cancel(middle.id), is: .cancelled, "the cancellation of a job in the middle")
        try expect(try await names(worker), is: [], "the jobs claimed before the first ones are cancelled")
        try expect(try await cancel(waiting.id), is: .cancelled, "the cancellation of a waiting job")
        try expect(try await names(worker), is: ["a2"], "the jobs claimed after a waiting job was cancelled")
        try expect(try await cancel(failed.id), is: .cancelled, "the cancellation of a failed job that blocks others")
        try expect(try await state(failed.id), is: .cancelled, "the state of the failed job after its cancellation")
        let next = try await claimOne(worker)
        try expect(next.job.name, is: "b2", "the job claimed after the failed one was cancelled")
        try await finish(next, by: worker, .succeeded)
        try expect(try await names(worker), is: ["b4"], "the job behind a cancelled one")
    }

    /// `retry` keeps the position; a retried job waits for one with its key that is running.
    func checkSerialRetries() async throws {
        let worker = try await register()
        let first = try await push("1") { $0.serialKey = "key" }
        try await push("2") { $0.serialKey = "key" }
        try await push("3") { $0.serialKey = "key" }
        let position = try await found(first.id).position
        try await finish(try await claimOne(worker), by: worker, .failed(reason: "attempts"))
        try expect(try await retry(first.id), is: .retried, "the answer to `retry` of a failed job")
        try expect(try await found(first.id).position, is: position, "the position after `retry`")
        try expect(try await names(worker, 0), is: [], "a claim with a limit of 0")
        try await finish(try await claimOne(worker), by: worker, .failed(reason: "attempts"))
        _ = try await cancel(first.id)
        let second = try await claimOne(worker)
        try expect(second.job.name, is: "2", "the job claimed after the first one was cancelled")
        try expect(try await retry(first.id), is: .retried, "the answer to `retry` of a cancelled job")
        try expect(try await names(worker), is: [], "the jobs claimed while a later one runs")
        try expect(try await found(first.id).isBlocked, is: true, "`isBlocked` while a later one runs")
        try await finish(second, by: worker, .again(soft: .zero, isNetwork: false, hard: nil))
        for name in ["1", "2", "3"] {
            let claimed = try await claim(worker).jobs
            try expect(claimed.map(\.job.name), is: [name], "the jobs claimed when it is the turn of \(name)")
            for job in claimed { try await finish(job, by: worker, .succeeded) }
        }
    }

    /// `.keep` adds a job only if no unfinished one of the queue and kind has the key, also at the same time.
    func checkUniqueKeep() async throws {
        let worker = try await register()
        let first = try await push("a") { $0.unique = .keep("key") }
        try expect(first.outcome, is: .added, "the first push with a key")
        try expect(
            try await push("b") { $0.unique = .keep("key") }, is: PushReceipt(id: first.id, outcome: .kept), "the second push")
        let others = [
            try await push("c") { ($0.unique, $0.kind) = (.keep("key"), "other") },
            try await push("d") { ($0.unique, $0.queue) = (.keep("key"), "other") },
            try await push("e") { $0.unique = .keep("another") },
        ]
        try expect(others.map(\.outcome), is: [.added, .added, .added], "pushes with another kind, queue or key")
        for job in try await claim(worker).jobs {
            if job.job.uniqueKey == "key" {
                let running = try await push("f") { ($0.unique, $0.kind) = (.keep("key"), job.job.kind) }
                try expect(running, is: PushReceipt(id: job.job.id, outcome: .kept), "a push while the job runs")
            }
            try await finish(job, by: worker, job.job.name == "a" ? .failed(reason: "attempts") : .succeeded)
        }
        try expect(try await push("g") { $0.unique = .keep("key") }.outcome, is: .added, "a push after the job has failed")
        try await checkConcurrentKeep()
    }

    private func checkConcurrentKeep() async throws {
        let receipts = try await withThrowingTaskGroup(of: PushReceipt?.self) { group in
            for number in 0..<16 {
                let job = job("\(number)") { $0.unique = .keep("crowd") }
                let store = number % 2 == 0 ? store : candidate.peer
                group.addTask { try await store.push([job], limit: nil).first }
            }
            return try await group.reduce(into: []) { $0 += [$1].compactMap(\.self) }
        }
        try expect(receipts.filter { $0.outcome == .added }.count, is: 1, "the jobs added by 16 pushes at the same time")
        try expect(Set(receipts.map(\.id)).count, is: 1, "the number of identities that 16 pushes returned")
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
        try expect(try await push(new), is: PushReceipt(id: first.id, outcome: .replaced), "the receipt of the replacement")
        let found = try await found(first.id)
        try expect(found.name, is: "new", "the payload")
        try expect(found.version, is: 2, "the version")
        try expect(found.destination, is: "y", "the destination")
        try expect(found.traceContext, is: new.traceContext, "the trace context")
        try expect(found.notBefore, is: nil, "`notBefore` after a replacement without a delay")
        try expect(
            found.deadline.map { $0 > old.deadline ?? $0 } ?? false,
            "the deadline is not the replacement's: \(found.deadline as Any)")
        try expect(found.idempotencyKey, is: new.idempotencyKey, "the idempotency key")
        try expect(found.serialKey, is: "other", "the serial key")
        try expect(found.continuesAfterFailure, is: true, "`continuesAfterFailure`")
        try expect(found.isRepeatable, is: false, "`isRepeatable`")
        try expect(found.position, is: old.position, "the position")
        try expect(found.priority, is: .interactive, "the priority")
        try expect(found.pushed, is: old.pushed, "the time of the push")
        try expect(try await self.found(behind.id).isBlocked, is: false, "`isBlocked` behind the serial key that was replaced")
        let claimed = try await claim(worker).jobs
        try expect(claimed.map(\.job.name), is: ["new", "behind"], "the jobs claimed after the replacement")
        let again = try await push("newer") { $0.unique = .replace("key") }
        try expect(again, is: PushReceipt(id: first.id, outcome: .replaced), "the receipt while a claim has not started the job")
        try expect(try await start(claimed[0], by: worker), is: false, "the answer to `start` of the replaced job's claim")
        try expect(try await finish(claimed[0], by: worker, .succeeded), is: false, "the answer to `finish` of that claim")
        let next = try await claimOne(worker)
        try expect(next.job.name, is: "newer", "the job claimed after the second replacement")
        try expect(next.claim > claimed[0].claim, "the number of its claim does not grow")
    }

    /// `.replace` adds one successor to a job that has started, and changes that from then on.
    func checkUniqueSuccessors() async throws {
        let worker = try await register()
        let first = try await push("first") { $0.unique = .replace("key") }
        let claimed = try await claimOne(worker)
        _ = try await start(claimed, by: worker)
        let second = try await push("second") { $0.unique = .replace("key") }
        try expect(second.outcome, is: .appended, "the push while the first job runs")
        let third = try await push("third") { $0.unique = .replace("key") }
        try expect(third, is: PushReceipt(id: second.id, outcome: .replaced), "the push while a successor waits")
        try expect(try await found(first.id).name, is: "first", "the payload of the running job")
        try expect(try await names(worker), is: [], "the jobs claimed while the first one runs")
        try await finish(claimed, by: worker, .again(soft: .seconds(1000), isNetwork: false, hard: nil)) { $0.started = 1 }
        let fourth = try await push("fourth") { $0.unique = .replace("key") }
        try expect(fourth, is: PushReceipt(id: second.id, outcome: .replaced), "the push while the first job backs off")
        _ = try await cancel(second.id)
        let fifth = try await push("fifth") { $0.unique = .replace("key") }
        try expect(fifth.outcome, is: .appended, "the push behind a job that backs off after an attempt")
        try expect(try await names(worker), is: [], "the jobs claimed while the first one backs off")
        _ = try await cancel(first.id)
        let last = try await claimOne(worker)
        try expect(last.job.name, is: "fifth", "the job claimed after the first one was cancelled")
    }

    /// A running job whose cancellation was requested keeps its unique key from no push.
    func checkUnwantedHolders() async throws {
        let worker = try await register()
        let first = try await push("first") { $0.unique = .keep("key") }
        let claimed = try await claimOne(worker)
        _ = try await start(claimed, by: worker)
        _ = try await cancel(first.id)
        let second = try await push("second") { $0.unique = .keep("key") }
        try expect(second.outcome, is: .added, "the push beside a running job whose cancellation was requested")
        try expect(
            try await push("third") { $0.unique = .keep("key") }, is: PushReceipt(id: second.id, outcome: .kept), "a push after it")
        try expect(try await names(worker), is: [], "the jobs claimed while the first one runs")
        try await finish(claimed, by: worker, .cancelled)
        try expect(try await names(worker), is: ["second"], "the jobs claimed after the first one has ended")
    }

    /// `retry` refuses a job whose unique key an unfinished one has.
    func checkUniqueRetries() async throws {
        let worker = try await register()
        let first = try await push("first") { $0.unique = .replace("key") }
        try await finish(try await claimOne(worker), by: worker, .failed(reason: "attempts"))
        let second = try await push("second") { $0.unique = .replace("key") }
        try expect(try await retry(first.id), is: .taken(by: second.id), "the answer to `retry` while a newer job has the key")
        try expect(try await state(first.id), is: .failed, "the state of the job that was not retried")
        _ = try await cancel(second.id)
        try expect(
            try await store.retry([second.id, first.id], limit: nil), is: [.retried, .taken(by: second.id)],
            "the answers to `retry` of two jobs with one key")
    }

    /// Keys and names are equal if their bytes are.
    func checkBytes() async throws {
        let worker = try await register()
        for (number, key) in ["\u{e9}", "e\u{301}"].enumerated() {
            let receipt = try await push("\(number)") { ($0.unique, $0.serialKey, $0.destination) = (.keep(key), key, key) }
            try expect(receipt.outcome, is: .added, "the push with form \(number) of one letter as its keys")
        }
        let jobs = try await claim(worker).jobs.map(\.job)
        try expect(jobs.map(\.name), is: ["0", "1"], "the jobs claimed with two forms of one letter as their keys")
        try expect(try await store.count(queue: Self.queue).map(\.count), is: [1, 1], "the counts of two forms of one destination")
        try expect(
            try await find { $0.serialKey = "e\u{301}" }.map(\.name), is: ["1"], "the jobs found with one form of a letter")
        for name in ["\u{e9}", "e\u{301}"] { try await push(name) { ($0.queue, $0.kind) = (name, name) } }
        for name in ["\u{e9}", "e\u{301}"] {
            let worker = try await register(queue: name)
            try expect(try await names(worker).count, is: 1, "the number of jobs claimed from a queue \(name)")
            try expect(try await store.workers(of: name).map(\.id), is: [worker], "the workers of a queue \(name)")
            try expect(try await store.count(queue: name).count, is: 1, "the number of counts of a queue \(name)")
        }
    }

    /// `.append` adds a job that waits for the others with its key.
    func checkUniqueAppend() async throws {
        let worker = try await register()
        let first = try await push("first") { $0.unique = .append("key") }
        try expect(first.outcome, is: .added, "the first push with a key")
        let second = try await push("second") { ($0.unique, $0.priority) = (.append("key"), .interactive) }
        try expect(second.outcome, is: .appended, "the second push with a key")
        try expect(second.id != first.id, "the appended job has the identity of the first one")
        try expect(try await found(second.id).isBlocked, is: true, "`isBlocked` of the appended job")
        try await push("other kind") { ($0.unique, $0.kind) = (.append("key"), "other") }
        let claimed = try await claim(worker).jobs
        try expect(claimed.map(\.job.name), is: ["first", "other kind"], "the jobs claimed first")
        let replaced = try await push("third") { $0.unique = .replace("key") }
        try expect(replaced, is: PushReceipt(id: second.id, outcome: .replaced), "a replacement while two jobs have the key")
        for job in claimed { try await finish(job, by: worker, .failed(reason: "attempts")) }
        try expect(try await names(worker), is: ["third"], "the jobs claimed after the first one has failed")
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
        try expect(
            receipts.map(\.outcome), is: [.added, .kept, .replaced, .appended, .replaced, .replaced, .added, .appended, .replaced],
            "the outcomes of a push of nine jobs")
        let ids = jobs.map(\.id)
        try expect(
            receipts.map(\.id), is: [ids[0], ids[0], ids[0], ids[3], ids[3], there, ids[6], ids[7], ids[7]],
            "the identities in the receipts")
        try expect(
            try await find().map(\.name), is: ["running", "6", "3", "5", "7", "9"], "the payloads after a push of nine jobs")
    }
}
