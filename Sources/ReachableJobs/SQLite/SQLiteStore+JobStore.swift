#if SQLite
internal import GRDB
internal import Glibc

extension SQLiteStore: JobStore {
    // MARK: - Pushing

    package func push(_ jobs: [NewJob], limit: Int?) async throws(JobStoreError) -> [PushReceipt] {
        try await perform(isDurable: true) { try $0.push(jobs, limit: limit) }
    }

    // MARK: - Workers

    package func register(queue: String, node: String) async throws(JobStoreError) -> WorkerID {
        try await perform { try $0.register(queue: queue, node: node) }
    }

    package func unregister(_ worker: WorkerID) async throws(JobStoreError) {
        try await perform { try $0.remove(worker, .unregistered) }
        locks.unlock(worker.rawValue)
    }

    package func extend(_ id: WorkerID) async throws(JobStoreError) -> [JobTicket] {
        let cancelled = try await perform { transaction -> [JobTicket]? in
            let worker = try transaction.worker(id)
            try transaction.sweep(but: worker?.id)
            guard let worker else { return nil }
            transaction.writesClock = true
            try transaction.db.change(
                "UPDATE main.reachable_workers SET heartbeat = ?, seen = ? WHERE number = ?", transaction.monotonic,
                transaction.now, id)
            return try transaction.cancelled(of: worker)
        }
        if let cancelled { return cancelled }
        locks.unlock(id.rawValue)
        throw .unknown(id)
    }

    package func claim(_ request: ClaimRequest) async throws(JobStoreError) -> Claims {
        guard let claims = try await perform({ try $0.claim(request) }) else { throw .unknown(request.worker) }
        return claims
    }

    /// Releases a worker's lock, as the end of its process would.
    package func abandon(_ worker: WorkerID) { locks.unlock(worker.rawValue) }

    // MARK: - Attempts

    package func start(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [Bool] {
        var answers = try await start(tickets, by: worker, isDurable: false)
        let left = tickets.indices.filter { !answers[$0] }
        if left.isEmpty { return answers }
        // That an attempt begins which must not be repeated is on the disk before it does.
        for (index, mayStart) in zip(left, try await start(left.map { tickets[$0] }, by: worker, isDurable: true)) {
            answers[index] = mayStart
        }
        return answers
    }

    /// Records starts: if they need not be durable, those of repeatable jobs alone.
    private func start(_ tickets: [JobTicket], by worker: WorkerID, isDurable: Bool) async throws(JobStoreError) -> [Bool] {
        try await perform(isDurable: isDurable) { transaction in
            guard let worker = try transaction.worker(worker) else { return tickets.map { _ in false } }
            return try tickets.map { ticket in
                try transaction.db.change(
                    """
                    UPDATE main.reachable_jobs SET started = started + 1 - is_started, is_started = 1
                    WHERE id = ? AND worker = ? AND claim = ? AND is_cancel_requested = 0 AND is_repeatable >= ?
                    """, ticket.id, worker.id, ticket.claim, isDurable ? 0 : 1) > 0
            }
        }
    }

    package func finish(_ results: [AttemptResult], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        try await perform(isDurable: results.contains { $0.outcome != .givenBack }) { transaction in
            let worker = try transaction.worker(worker)
            return try results.map { result in
                guard let worker, let job = try transaction.job(of: result.ticket, by: worker) else { return .refused }
                if let duration = result.holdsDestination {
                    let time = min(result.time ?? transaction.now, transaction.now)
                    try transaction.hold(job.lane, until: time.advanced(by: duration))
                }
                return try transaction.change(job) { $0.finish(result, node: worker.node, at: $1) }
            }
        }
    }

    // MARK: - Management

    package func expire(queue: String, limit: Int) async throws(JobStoreError) -> ExpiredJobs {
        // Repeated after a power failure: the clock goes on.
        try await perform { transaction in
            var expired = ExpiredJobs(jobs: [], next: nil, hasMore: false)
            let waiting = """
                queue = (SELECT id FROM main.reachable_queues WHERE name = ?1) AND deadline IS NOT NULL AND state = 0
                """
            let late = try transaction.jobs(
                "\(waiting) AND deadline <= ?2 ORDER BY deadline, position LIMIT ?3", queue, transaction.now, max(0, limit))
            for job in late {
                try transaction.change(job) { $0.fail("deadline", at: $1) }
                expired.jobs.append(try transaction.wholeJob(job.job.position).job)
            }
            let sql = "SELECT deadline FROM main.reachable_jobs WHERE \(waiting) ORDER BY deadline LIMIT 1"
            expired.next = try transaction.db.value(sql, queue)
            expired.hasMore = expired.next.map { $0 <= transaction.now } ?? false
            return expired
        }
    }

    package func cancel(_ ids: [DurableJobID]) async throws(JobStoreError) -> [CancelOutcome] {
        try await perform(isDurable: true) { transaction in
            try ids.map { id in
                guard let job = try transaction.job(id) else { return .unknown }
                return try transaction.change(job) { $0.cancel(at: $1) }
            }
        }
    }

    package func retry(_ ids: [DurableJobID], limit: Int?) async throws(JobStoreError) -> [RetryOutcome] {
        try await perform(isDurable: true) { transaction in
            let outcomes = try ids.map { id -> RetryOutcome in
                guard let job = try transaction.job(id), [.failed, .cancelled].contains(job.job.state) else { return .notEnded }
                if let key = job.job.uniqueKey,
                    let holder = try transaction.lastHolder(queue: job.queue, kind: job.job.kind, uniqueKey: key)
                {
                    return .taken(by: holder.job.id)
                }
                try transaction.change(job) { $0.retry(at: $1) }
                return .retried
            }
            try transaction.checkRoom(limit)
            return outcomes
        }
    }

    package func endBackoff(_ ids: [DurableJobID]) async throws(JobStoreError) -> [Bool] {
        try await perform(isDurable: true) { transaction in
            try ids.map { id in
                guard let job = try transaction.job(id) else { return false }
                return try transaction.change(job) { $0.endBackoff(at: $1) }
            }
        }
    }

    package func setPaused(_ isPaused: Bool, queue: String) async throws(JobStoreError) {
        try await perform(isDurable: true) { transaction in
            let sql = "UPDATE main.reachable_queues SET is_paused = ? WHERE id = ?"
            try transaction.db.change(sql, isPaused, transaction.queue(queue))
            transaction.wakesWorkers = true
        }
    }

    package func prune(_ retention: Retention, limit: Int) async throws(JobStoreError) -> Int {
        if limit <= 0 { return 0 }
        return try await perform { [isOwn] transaction in
            var count = 0
            for state in [DurableJob.State.succeeded, .cancelled, .failed] {
                let kept = state == .succeeded ? retention.succeeded : retention.failed
                count += try transaction.prune(state, until: transaction.now.advanced(by: .zero - kept), limit: limit - count)
            }
            // Few lanes become empty, and many jobs may go with one: a small limit of jobs is none of lanes.
            try transaction.pruneLanes(limit: max(limit, 1000))
            // 4 MiB: a claim must not wait long. Without free pages this writes nothing.
            if isOwn { try transaction.db.execute(sql: "PRAGMA main.incremental_vacuum(1024)") }
            return count
        }
    }

    // MARK: - Reading

    package func find(_ filter: JobFilter) async throws(JobStoreError) -> [DurableJob] {
        var (conditions, arguments): ([String], StatementArguments) = ([], [])
        func add(_ condition: String, _ values: StatementArguments) {
            conditions.append(condition)
            arguments += values
        }
        func list(_ number: Int) -> String { "(\(repeatElement("?", count: number).joined(separator: ", ")))" }
        if let ids = filter.ids {
            let sql = "SELECT position FROM main.reachable_jobs WHERE id IN (SELECT value FROM json_each(?))"
            add("jobs.position IN (\(sql))", ["[\(ids.map { "\"\($0)\"" }.joined(separator: ","))]"])
        }
        if let queue = filter.queue { add("queues.name = ?", [queue.raw]) }
        if let states = filter.states { add("state IN \(list(states.count))", StatementArguments(states.map(\.raw))) }
        if let kinds = filter.kinds { add("jobs.kind IN \(list(kinds.count))", StatementArguments(kinds.map(\.raw))) }
        // The digits end with f, which g follows.
        if let prefix = filter.idPrefix?.lowercased() { add("jobs.id >= ? AND jobs.id < ?", [prefix, prefix + "g"]) }
        if let key = filter.uniqueKey { add("unique_key = ?", [key.raw]) }
        if let key = filter.serialKey { add("serial_key = ?", [key.raw]) }
        if let destination = filter.destination { add("destination = ?", [destination.raw]) }
        if let position = filter.after { add("jobs.position > ?", [position]) }
        let sql = """
            \(SQLiteJob.wholeSelection) \(conditions.isEmpty ? "" : "WHERE " + conditions.joined(separator: " AND "))
            ORDER BY jobs.position LIMIT ?
            """
        arguments += [filter.limit.map { max(0, $0) } ?? -1]
        return try await read { [arguments] transaction in
            let rows = try ColumnReader.fetchCursor(transaction.db, sql: sql, arguments: arguments)
            var jobs: [DurableJob] = []
            while var row = try rows.next() { jobs.append(try SQLiteJob(whole: &row).job) }
            return jobs
        }
    }

    package func explain(_ ids: [DurableJobID]) async throws(JobStoreError) -> [JobExplanation?] {
        try await read { transaction in
            var workers: [Int64: Int] = [:]
            for worker in try transaction.allWorkers() where transaction.end(of: worker) == nil {
                workers[worker.queue, default: 0] += 1
            }
            let sql = """
                SELECT name, version, scope, destination, is_paused, hold_until
                FROM main.reachable_lanes AS lanes JOIN main.reachable_queues AS queues ON queues.id = queue WHERE lanes.id = ?
                """
            return try ids.map { id in
                guard let stored = try transaction.job(id) else { return nil }
                return try transaction.db.row(sql, stored.lane) { lane in
                    var job = stored.job
                    (job.queue, job.version, job.scope, job.destination) = try (lane.next(), lane.next(), lane.next(), lane.next())
                    let (isPaused, hold) = try (lane.next(Bool.self), lane.next(StoreInstant?.self))
                    return JobExplanation(
                        job: job, isPaused: isPaused, workers: workers[stored.queue] ?? 0,
                        holdUntil: hold.flatMap { $0 > transaction.now ? $0 : nil },
                        blockers: job.isBlocked ? try transaction.blockers(of: stored) : [], worker: stored.worker,
                        isStarted: stored.isStarted, now: transaction.now)
                }
            }
        }
    }

    /// Returns the workers; the process is known of those that this object has registered.
    package func workers(of queue: String?) async throws(JobStoreError) -> [RegisteredWorker] {
        try await read { transaction in
            let sql = """
                SELECT \(SQLiteTransaction.Worker.columns), name,
                (SELECT count(*) FROM main.reachable_jobs WHERE worker = number)
                FROM main.reachable_workers JOIN main.reachable_queues ON id = queue WHERE ?1 IS NULL OR name = ?1 ORDER BY number
                """
            return try transaction.db.rows(sql, queue) { row -> RegisteredWorker? in
                let worker = try SQLiteTransaction.Worker(&row)
                guard transaction.end(of: worker) == nil else { return nil }
                return try RegisteredWorker(
                    id: worker.id, queue: row.next(), node: worker.node, host: Machine.hostName,
                    // The kernel does not name the process of another open file description's lock (F_OFD_GETLK, fcntl(2)).
                    process: transaction.locks.holds(worker.id.rawValue) ? Int(getpid()) : nil, claims: row.next(),
                    sinceHeartbeat: max(.zero, worker.seen.duration(to: transaction.now)))
            }.compactMap(\.self)
        }
    }

    /// Counts jobs: reads all of the store, without making claims wait.
    package func count(queue: String) async throws(JobStoreError) -> [JobCount] {
        try await read { transaction in
            let counts = try transaction.db.rows(
                """
                SELECT state, jobs.kind, destination, count(*), min(created)
                FROM main.reachable_jobs AS jobs JOIN main.reachable_lanes AS lanes ON lanes.id = lane
                WHERE jobs.queue = (SELECT id FROM main.reachable_queues WHERE name = ?) GROUP BY 1, 2, 3 ORDER BY 2, 3
                """, queue
            ) {
                try JobCount(
                    state: $0.next(), kind: $0.next(), destination: $0.next(), count: $0.next(), oldest: $0.next())
            }
            return counts.sorted { $0.state.rawValue < $1.state.rawValue }
        }
    }

    /// Hints that there may be work.
    ///
    /// Writes and ends of other processes are noticed by inotify(7). If this user has no inotify instance left, only this store's
    /// own changes give hints.
    package func changes() -> AsyncStream<Void> { feed.stream() }

    package var nodeTime: Int64 { machine.reading().boot }
}
#endif
