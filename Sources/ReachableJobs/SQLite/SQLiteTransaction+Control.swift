#if SQLite
internal import GRDB
internal import Reachability

extension SQLiteTransaction {
    /// Cancels a job, or requests it of its worker.
    mutating func cancel(_ id: DurableJobID) throws -> CancelOutcome {
        let found = try row("SELECT \(Keys.columns), state, continues FROM reachable_jobs WHERE id = ?", id.description)
        guard let found else { return .unknown }
        let keys = Keys(found)
        let state = SQLiteSchema.states[found[6]]
        switch state {
        case .running:
            try execute("UPDATE reachable_jobs SET is_cancel_requested = 1 WHERE position = ?", keys.position)
            wakesWorkers = true
            return .requested
        case .succeeded, .cancelled:
            return .ended
        case .failed where keys.serial == nil || found[7]:
            return .ended
        case .available, .failed:
            // A failed job that holds back its followers lets them go.
            let age = "iif(rank = 2 AND outage IS 0, ?1 - age, age)"
            try execute(
                """
                UPDATE reachable_jobs SET state = 4, age = \(age), outage = NULL, due = NULL, is_blocked = 0, failure_reason = NULL,
                ended = ?2, finished = ?3 WHERE position = ?4
                """, laneClock(keys.lane), now.nanoseconds, reading.wall, keys.position)
            if state == .available { try addUnfinished(-1, queue: keys.queue) }
            try settle(keys)
            return .cancelled
        }
    }

    /// Fails waiting jobs whose deadline has passed.
    mutating func expire(queue name: String, limit: Int) throws -> ExpiredJobs {
        var expired = ExpiredJobs(jobs: [], next: nil, hasMore: false)
        guard let queue = try existingQueue(name) else { return expired }
        let waiting = "FROM reachable_jobs WHERE queue = ? AND deadline IS NOT NULL AND state = 0"
        let due = try rows(
            "SELECT \(Keys.columns) \(waiting) AND deadline <= ? ORDER BY deadline LIMIT ?", queue, now.nanoseconds, limit)
        for keys in due.map(Keys.init) {
            try execute(
                """
                UPDATE reachable_jobs SET state = 2, age = iif(rank = 2 AND outage IS 0, ?1 - age, age), outage = NULL, due = NULL,
                is_blocked = 0, failure_reason = 'deadline', ended = ?2, finished = ?3 WHERE position = ?4
                """, laneClock(keys.lane), now.nanoseconds, reading.wall, keys.position)
            try settle(keys)
            let sql = "\(SQLiteQueries.selection) WHERE position = ?"
            if let row = try row(sql, keys.position) { expired.jobs.append(try SQLiteQueries.job(row)) }
        }
        try addUnfinished(-due.count, queue: queue)
        let next = try row("SELECT deadline \(waiting) ORDER BY deadline LIMIT 1", queue).map { StoreInstant(nanoseconds: $0[0]) }
        if let next, next <= now { expired.hasMore = true } else { expired.next = next }
        return expired
    }

    /// Makes a failed or cancelled job available again; returns false if it is neither.
    mutating func retry(_ id: DurableJobID) throws -> Bool {
        // A deadline that has passed would end it at once.
        let found = try row(
            """
            UPDATE reachable_jobs SET state = 0, rank = 2 - priority, age = 0, is_blocked = 0, is_cancel_requested = 0,
            started = 0, charged = 0, network_failures = 0, failure_index = 0, crashes = 0, has_unknown_outcome = 0,
            soft_until = NULL, soft_since = NULL, soft_network = 0, soft_outage = NULL, undecodable = NULL, hard_until = NULL,
            failure_reason = NULL, ended = NULL, finished = NULL, deadline = iif(deadline <= ?1, NULL, deadline)
            WHERE id = ?2 AND state IN (2, 4) RETURNING \(Keys.columns)
            """, now.nanoseconds, id.description)
        guard let keys = found.map(Keys.init) else { return false }
        try addUnfinished(1, queue: keys.queue)
        try schedule(keys.position, lane: keys.lane)
        try settle(keys)
        wakesWorkers = true
        return true
    }

    /// Ends the backoff of a waiting job; returns false if it has none.
    mutating func endBackoff(_ id: DurableJobID) throws -> Bool {
        let found = try row(
            """
            UPDATE reachable_jobs SET soft_until = NULL, soft_since = NULL, soft_network = 0, soft_outage = NULL
            WHERE id = ?1 AND state = 0 AND soft_until > ?2 RETURNING position, lane
            """, id.description, now.nanoseconds)
        guard let found else { return false }
        try schedule(found[0], lane: found[1])
        wakesWorkers = true
        return true
    }

    /// Pauses or resumes a queue.
    mutating func setPaused(_ isPaused: Bool, queue name: String) throws {
        try execute("UPDATE reachable_queues SET is_paused = ? WHERE id = ?", isPaused, queue(name))
        wakesWorkers = true
    }

    /// Deletes jobs that ended long ago and lanes without jobs; returns the number of jobs.
    mutating func prune(_ retention: Retention, limit: Int) throws -> Int {
        var positions: [(job: Int64, lane: Int64)] = []
        for (state, kept) in [
            (DurableJob.State.succeeded, retention.succeeded), (.cancelled, retention.failed), (.failed, retention.failed),
        ] where positions.count < limit {
            let (before, overflow) = now.nanoseconds.subtractingReportingOverflow(kept.nanoseconds)
            guard !overflow else { continue }
            // The first term is the index's own. A failed job with followers stays: they wait for it.
            positions += try rows(
                """
                SELECT position, lane FROM reachable_jobs AS old WHERE state > 1 AND state = ?1 AND ended <= ?2
                AND NOT (state = 2 AND continues = 0 AND serial_key IS NOT NULL AND EXISTS (
                    SELECT 1 FROM reachable_jobs WHERE queue = old.queue AND serial_key = old.serial_key
                    AND serial_key IS NOT NULL AND (state < 2 OR (state = 2 AND continues = 0)) AND state < 2
                    AND position > old.position))
                ORDER BY ended LIMIT ?3
                """, SQLiteSchema.number(of: state), before, limit - positions.count
            ).map { ($0[0], $0[1]) }
        }
        for (position, lane) in positions {
            try execute("DELETE FROM reachable_jobs WHERE position = ?", position)
            try execute("DELETE FROM reachable_payloads WHERE position = ?", position)
            addJobs(-1, lane: lane)
        }
        // Few lanes become empty, and many jobs may go with one: a small limit of jobs is none of lanes.
        try pruneLanes(limit: max(limit, 1000))
        return positions.count
    }

    /// Deletes lanes without jobs, unless a server's order holds their destination.
    private mutating func pruneLanes(limit: Int) throws {
        try writeLaneChanges()
        let empty = try rows(
            """
            SELECT id FROM reachable_lanes INDEXED BY reachable_lanes_empty WHERE jobs = 0 AND ifnull(hold_until, 0) <= ? LIMIT ?
            """, now.nanoseconds, limit)
        for row in empty {
            try execute("DELETE FROM reachable_outages WHERE lane = ?", row[0] as Int64)
            try execute("DELETE FROM reachable_lanes WHERE id = ?", row[0] as Int64)
        }
    }
}
#endif
