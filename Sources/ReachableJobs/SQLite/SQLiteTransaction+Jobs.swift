#if SQLite
internal import FoundationEssentials
internal import GRDB

// The rules are those of `MemoryStoreState`: a job is read, changed and written.
extension SQLiteTransaction {
    // MARK: - Pushing

    /// Adds jobs, all or none.
    mutating func push(_ pushed: [NewJob], limit: Int?) throws -> [PushReceipt] {
        if let error = JobStoreError.tooLarge(pushed) { throw error }
        var queues: Set<Int64> = []
        let receipts = try pushed.map { job in
            let queue = try queue(job.queue)
            let receipt = try push(job, queue)
            if [.added, .appended].contains(receipt.outcome) { queues.insert(queue) }
            return receipt
        }
        try checkRoom(queues, limit)
        return receipts
    }

    private mutating func push(_ job: NewJob, _ queue: Int64) throws -> PushReceipt {
        var last: SQLiteJob?
        if let unique = job.unique {
            // A push that is repeated because its answer was lost changes nothing.
            if try self.job(job.id) != nil { return PushReceipt(id: job.id, outcome: .kept) }
            last = try lastHolder(queue: queue, kind: job.kind, uniqueKey: unique.key)
        }
        switch (job.unique, last) {
        case (.keep, let last?):
            return PushReceipt(id: last.job.id, outcome: .kept)
        case (.replace, let last?) where !last.hasStarted:
            try replace(last, by: job)
            return PushReceipt(id: last.job.id, outcome: .replaced)
        default:
            let isAdded = try insert(job, queue: queue)
            return PushReceipt(id: job.id, outcome: !isAdded ? .kept : last == nil ? .added : .appended)
        }
    }

    /// Returns the last unfinished job with a unique key that holds it against others.
    private func lastHolder(queue: Int64, kind: String, uniqueKey: String) throws -> SQLiteJob? {
        try jobs(
            """
            queue = ? AND kind = ? AND unique_key = ? AND \(SQLiteSchema.holdsUnique) AND is_cancel_requested = 0
            ORDER BY position DESC LIMIT 1
            """, queue, kind, uniqueKey
        ).first
    }

    /// Adds a job behind all others; returns false if it is there already.
    private mutating func insert(_ job: NewJob, queue: Int64) throws -> Bool {
        let new = DurableJob(job, position: nextPosition(), now: now, created: reading.date)
        var stored = try SQLiteJob(new, queue: queue, lane: lane(of: job, queue: queue))
        schedule(&stored)
        stored.job.isBlocked = try !blockers(of: stored).isEmpty
        guard try stored.insert(in: db) else { return false }
        try execute("INSERT INTO main.reachable_payloads (position, payload) VALUES (?, ?)", new.position, job.payload)
        addUnfinished(1, queue: queue)
        addJobs(1, lane: stored.lane)
        wakesWorkers = true
        return true
    }

    private mutating func replace(_ old: SQLiteJob, by job: NewJob) throws {
        var new = DurableJob(job, position: old.job.position, now: now, created: old.job.created)
        (new.id, new.priority, new.pushed) = (old.job.id, old.job.priority, old.job.pushed)
        // Without a worker: a claim that has not started ends.
        var stored = try SQLiteJob(new, queue: old.queue, lane: lane(of: job, queue: old.queue))
        stored.claim = old.claim
        try execute("UPDATE main.reachable_payloads SET payload = ? WHERE position = ?", job.payload, new.position)
        addJobs(-1, lane: old.lane)
        addJobs(1, lane: stored.lane)
        try save(stored, was: old)
        // It has left one chain, and perhaps joined another one.
        for keys in [old, stored] { try settle(keys) }
        wakesWorkers = true
    }

    // MARK: - Attempts

    /// Records that an attempt starts; returns false if it may not.
    mutating func start(_ ticket: JobTicket, by worker: Worker) throws -> Bool {
        try execute(
            """
            UPDATE main.reachable_jobs SET started = started + 1 - is_started, is_started = 1
            WHERE id = ? AND worker = ? AND claim = ? AND is_cancel_requested = 0
            """, ticket.id, worker.id, ticket.claim) > 0
    }

    /// Records a result.
    mutating func finish(_ result: AttemptResult, by worker: Worker) throws -> FinishOutcome {
        guard let old = try job(of: result.ticket, by: worker) else { return .refused }
        var stored = old
        stored.job.counters = result.counters
        stored.job.counters.crashes = old.job.counters.crashes
        stored.job.lastError = result.storedError ?? old.job.lastError
        (stored.job.softDelay, stored.job.avoidance, stored.job.hardUntil) = (nil, nil, nil)
        var state = DurableJob.State.available
        switch result.outcome {
        case .succeeded: state = .succeeded
        case .cancelled: state = .cancelled
        case .failed(let reason): (state, stored.job.failureReason) = (.failed, reason)
        case .again where old.job.isCancelRequested: state = .cancelled
        case .again(let soft, let isNetwork, let hard):
            let time = min(result.time ?? now, now)
            if soft > .zero {
                stored.job.softDelay = .init(until: time.advanced(by: soft), since: time, isNetwork: isNetwork)
            }
            if soft > .zero, isNetwork {
                let since = reading.boot - time.duration(to: now).nanoseconds
                let until = StoreInstant(nanoseconds: since).advanced(by: soft).nanoseconds
                stored.job.avoidance = .init(node: worker.node, bootID: reading.bootID, since: since, until: until)
            }
            stored.job.hardUntil = hard.map { time.advanced(by: $0) }
        }
        if let duration = result.holdsDestination { try hold(stored.lane, until: now.advanced(by: duration)) }
        setState(&stored, state)
        try save(stored, was: old)
        if case .again = result.outcome, state == .cancelled { return .cancelled }
        return .recorded
    }

    /// Holds back all lanes of a lane's queue, scope and destination.
    private func hold(_ lane: Int64, until end: StoreInstant) throws {
        try execute(
            """
            UPDATE main.reachable_lanes SET hold_until = max(ifnull(hold_until, 0), ?1) FROM
            (SELECT queue AS q, scope AS s, destination AS d FROM main.reachable_lanes WHERE id = ?2)
            WHERE queue = q AND scope = s AND destination IS d
            """, end, lane)
    }

    /// Makes a claimed job available again.
    mutating func giveBack(_ ticket: JobTicket, by worker: Worker) throws -> FinishOutcome {
        guard let old = try job(of: ticket, by: worker) else { return .refused }
        return try release(old, was: old)
    }

    /// Ends a claim without a result.
    mutating func release(_ changed: SQLiteJob, was old: SQLiteJob) throws -> FinishOutcome {
        var stored = changed
        setState(&stored, old.job.isCancelRequested ? .cancelled : .available)
        try save(stored, was: old)
        return old.job.isCancelRequested ? .cancelled : .recorded
    }

    /// Returns the job of a claim that is still valid.
    private func job(of ticket: JobTicket, by worker: Worker) throws -> SQLiteJob? {
        try jobs("id = ? AND worker = ? AND claim = ?", ticket.id, worker.id, ticket.claim).first
    }

    // MARK: - Management

    /// Fails waiting jobs of a queue whose deadline has passed.
    mutating func expire(queue name: String, limit: Int) throws -> ExpiredJobs {
        var expired = ExpiredJobs(jobs: [], next: nil, hasMore: false)
        guard let queue = try existingQueue(name) else { return expired }
        let waiting = "FROM main.reachable_jobs WHERE queue = ?1 AND deadline IS NOT NULL AND state = 0"
        let changed = try rows(
            """
            UPDATE main.reachable_jobs SET state = 2, is_blocked = 0, failure_reason = 'deadline', ended = ?2, finished = ?3
            WHERE position IN (SELECT position \(waiting) AND deadline <= ?2 ORDER BY deadline, position LIMIT ?4)
            RETURNING \(SQLiteJob.names)
            """, queue, now, reading.date, max(0, limit)
        ) { try SQLiteJob(&$0) }
        addUnfinished(-changed.count, queue: queue)
        for stored in changed { try settle(stored) }
        expired.jobs = try changed.map { try wholeJob($0.job.position).job }.sorted {
            ($0.deadline ?? now, $0.position) < ($1.deadline ?? now, $1.position)
        }
        expired.next = try value("SELECT deadline \(waiting) ORDER BY deadline LIMIT 1", queue)
        expired.hasMore = expired.next.map { $0 <= now } ?? false
        return expired
    }

    /// Cancels a waiting job or a failed one that keeps others waiting, or requests the cancellation of a running one.
    mutating func cancel(_ id: DurableJobID) throws -> CancelOutcome {
        guard let old = try job(id) else { return .unknown }
        var stored = old
        switch old.job.state {
        case .running:
            stored.job.isCancelRequested = true
            wakesWorkers = true
            try save(stored, was: old)
            return .requested
        case .failed where old.job.serialKey != nil && !old.job.continuesAfterFailure, .available:
            setState(&stored, .cancelled)
            try save(stored, was: old)
            return .cancelled
        case .succeeded, .failed, .cancelled: return .ended
        }
    }

    /// Makes failed and cancelled jobs available again; throws if a queue has no room for them.
    mutating func retry(_ ids: [DurableJobID], limit: Int?) throws -> [RetryOutcome] {
        var queues: Set<Int64> = []
        let outcomes = try ids.map { try retry($0, &queues) }
        try checkRoom(queues, limit)
        return outcomes
    }

    private mutating func retry(_ id: DurableJobID, _ queues: inout Set<Int64>) throws -> RetryOutcome {
        guard let old = try job(id), [.failed, .cancelled].contains(old.job.state) else { return .notEnded }
        if let key = old.job.uniqueKey, let holder = try lastHolder(queue: old.queue, kind: old.job.kind, uniqueKey: key) {
            return .taken(by: holder.job.id)
        }
        var stored = old
        (stored.job.counters, stored.job.hasUnknownOutcome) = (.init(), false)
        (stored.job.softDelay, stored.job.avoidance, stored.job.hardUntil) = (nil, nil, nil)
        (stored.job.failureReason, stored.job.finished, stored.ended) = (nil, nil, nil)
        if let deadline = stored.job.deadline, deadline <= now { stored.job.deadline = nil }
        setState(&stored, .available)
        try save(stored, was: old)
        queues.insert(old.queue)
        return .retried
    }

    /// Ends the backoff of a waiting job; returns false if it has none.
    mutating func endBackoff(_ id: DurableJobID) throws -> Bool {
        guard let old = try job(id), old.job.state == .available, let delay = old.job.softDelay, delay.until > now else {
            return false
        }
        var stored = old
        (stored.job.softDelay, stored.job.avoidance, wakesWorkers) = (nil, nil, true)
        try save(stored, was: old)
        return true
    }

    /// Pauses or resumes a queue.
    mutating func setPaused(_ isPaused: Bool, queue name: String) throws {
        try execute("UPDATE main.reachable_queues SET is_paused = ? WHERE id = ?", isPaused, queue(name))
        wakesWorkers = true
    }

    /// Deletes jobs that ended long ago and lanes without jobs; returns the number of jobs.
    mutating func prune(_ retention: Retention, limit: Int) throws -> Int {
        var count = 0
        for (state, kept) in [
            (DurableJob.State.succeeded, retention.succeeded), (.cancelled, retention.failed), (.failed, retention.failed),
        ] {
            let (before, overflow) = now.nanoseconds.subtractingReportingOverflow(kept.nanoseconds)
            guard !overflow else { continue }
            // A failed job with followers stays: they wait for it.
            let deleted = try rows(
                """
                DELETE FROM main.reachable_jobs WHERE position IN (
                    SELECT position FROM main.reachable_jobs AS old WHERE state > 1 AND state = ? AND ended <= ?
                    AND NOT (state = 2 AND continues = 0 AND serial_key IS NOT NULL AND EXISTS (
                        SELECT 1 FROM main.reachable_jobs WHERE queue = old.queue AND serial_key = old.serial_key
                        AND \(SQLiteSchema.holdsSerial) AND state < 2 AND position > old.position))
                    ORDER BY ended LIMIT ?)
                RETURNING position, lane
                """, state, before, limit - count
            ) { try (position: $0.next(Int64.self), lane: $0.next(Int64.self)) }
            for (position, lane) in deleted {
                try execute("DELETE FROM main.reachable_payloads WHERE position = ?", position)
                addJobs(-1, lane: lane)
            }
            count += deleted.count
        }
        try writeChanges()
        // Few lanes become empty, and many jobs may go with one: a small limit of jobs is none of lanes.
        try execute(
            """
            DELETE FROM main.reachable_lanes WHERE id IN (SELECT id FROM main.reachable_lanes INDEXED BY reachable_lanes_empty
            WHERE jobs = 0 AND ifnull(hold_until, 0) <= ? LIMIT ?)
            """, now, max(limit, 1000))
        return count
    }
}
#endif
