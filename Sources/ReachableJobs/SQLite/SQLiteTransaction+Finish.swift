#if SQLite
internal import GRDB
internal import Reachability

extension SQLiteTransaction {
    /// Records starts of attempts.
    mutating func start(_ tickets: [JobTicket], by worker: WorkerID) throws -> [Bool] {
        guard let worker = try validWorker(worker) else { return tickets.map { _ in false } }
        return try tickets.map { ticket in
            try execute(
                """
                UPDATE reachable_jobs SET started = started + iif(is_started, 0, 1), is_started = 1
                WHERE id = ? AND state = 1 AND worker = ? AND claim = ? AND NOT is_cancel_requested
                """, ticket.id.description, worker.number, ticket.claim) > 0
        }
    }

    /// Makes claimed jobs available again.
    mutating func giveBack(_ tickets: [JobTicket], by worker: WorkerID) throws {
        guard let worker = try validWorker(worker) else { return }
        for ticket in tickets {
            guard let keys = try claimed(ticket, by: worker) else { continue }
            try free(keys, .givenBack)
        }
    }

    private func claimed(_ ticket: JobTicket, by worker: Worker) throws -> Keys? {
        try row(
            "SELECT \(Keys.columns) FROM reachable_jobs WHERE id = ? AND state = 1 AND worker = ? AND claim = ?",
            ticket.id.description, worker.number, ticket.claim
        ).map(Keys.init)
    }

    /// Records results of attempts.
    mutating func finish(_ results: [AttemptResult], by worker: WorkerID) throws -> [Bool] {
        guard let worker = try validWorker(worker) else { return results.map { _ in false } }
        var ended: [Int64: Int] = [:]
        let accepted = try results.map { result in
            switch result.outcome {
            case .succeeded:
                try end(result, as: .succeeded, reason: nil, by: worker, &ended)
            case .failed(let reason):
                try end(result, as: .failed, reason: reason, by: worker, &ended)
            case .cancelled:
                try end(result, as: .cancelled, reason: nil, by: worker, &ended)
            case .again(let soft, let isNetwork, let hard):
                try repeatLater(result, soft: soft, isNetwork: isNetwork, hard: hard, by: worker, &ended)
            }
        }
        for (queue, number) in ended { try addUnfinished(-number, queue: queue) }
        return accepted
    }

    /// The counters, but for crashes.
    private static let counters = "started = ?, charged = ?, network_failures = ?, failure_index = ?"

    private mutating func end(
        _ result: AttemptResult, as state: DurableJob.State, reason: String?, by worker: Worker, _ ended: inout [Int64: Int]
    ) throws -> Bool {
        let counters = result.counters
        let found = try row(
            """
            UPDATE reachable_jobs SET state = ?, worker = NULL, is_started = 0, is_cancel_requested = 0, \(Self.counters),
            last_error = ifnull(?, last_error), failure_reason = ?, ended = ?, finished = ?
            WHERE id = ? AND state = 1 AND worker = ? AND claim = ? RETURNING \(Keys.columns)
            """,
            SQLiteSchema.number(of: state), counters.started, counters.charged, counters.networkFailures,
            counters.failureIndex, result.storedError.map(SQLiteRows.stored), reason.map(SQLiteRows.stored),
            now.nanoseconds, reading.wall,
            result.ticket.id.description, worker.number, result.ticket.claim)
        guard let keys = found.map(Keys.init) else { return false }
        ended[keys.queue, default: 0] += 1
        if let duration = result.holdsDestination { try hold(keys.lane, for: duration) }
        try settle(keys)
        return true
    }

    private mutating func repeatLater(
        _ result: AttemptResult, soft: Duration, isNetwork: Bool, hard: Duration?, by worker: Worker, _ ended: inout [Int64: Int]
    ) throws -> Bool {
        let (id, counters) = (result.ticket.id.description, result.counters)
        let found = try row(
            """
            SELECT is_cancel_requested, soft_until, soft_network, soft_outage, lane FROM reachable_jobs
            WHERE id = ? AND state = 1 AND worker = ? AND claim = ?
            """, id, worker.number, result.ticket.claim)
        guard let found else { return false }
        // The request came before the result, and another attempt would follow.
        if found[0] { return try end(result, as: .cancelled, reason: nil, by: worker, &ended) }
        let time = min(result.time ?? now, now)
        let until = time.advanced(by: soft)
        var outage: Int64?
        if isNetwork, until > now {
            let earlier: (Int64?, Int64?) = (found[1], found[2] ? found[3] : nil)
            let isBoundElsewhere = earlier.0.map { $0 > now.nanoseconds } ?? false
            outage = try addOutage(
                lane: found[4], node: worker.node, at: time, until: until, earlier: isBoundElsewhere ? earlier.1 : nil)
        }
        let changed = try row(
            """
            UPDATE reachable_jobs SET state = 0, worker = NULL, is_started = 0, \(Self.counters),
            last_error = ifnull(?, last_error), soft_until = ?, soft_since = ?, soft_network = ?, soft_outage = ?, hard_until = ?
            WHERE id = ? RETURNING \(Keys.columns)
            """,
            counters.started, counters.charged, counters.networkFailures, counters.failureIndex,
            result.storedError.map(SQLiteRows.stored), until.nanoseconds, time.nanoseconds, isNetwork, outage,
            hard.map { time.advanced(by: $0).nanoseconds }, id)
        guard let keys = changed.map(Keys.init) else { return false }
        if let duration = result.holdsDestination { try hold(keys.lane, for: duration) }
        try schedule(keys.position, lane: keys.lane)
        try settle(keys)
        // Other workers have to learn when it is due.
        wakesWorkers = true
        return true
    }

    /// Holds back all lanes of a lane's queue, scope and destination.
    private mutating func hold(_ lane: Int64, for duration: Duration) throws {
        try execute(
            """
            UPDATE reachable_lanes SET hold_until = max(ifnull(hold_until, 0), ?1) FROM
            (SELECT queue AS q, scope AS s, destination AS d FROM reachable_lanes WHERE id = ?2)
            WHERE queue = q AND scope = s AND destination IS d
            """, now.advanced(by: duration).nanoseconds, lane)
    }

    /// Returns the group of a network failure's delay, and adds one if a reconnect has closed the last one.
    ///
    /// - Parameter earlier: The group of the delay within which the job failed again.
    private func addOutage(lane: Int64, node: String, at time: StoreInstant, until: StoreInstant, earlier: Int64?) throws -> Int64 {
        var node: String? = node
        if let earlier,
            let first = try row("SELECT node FROM reachable_outages WHERE lane = ? AND number = ?", lane, earlier),
            first[0] as String? != node
        {
            // A second node failed within the first one's delay: now it binds all.
            node = nil
        }
        let found = try row(
            """
            SELECT number, is_closed FROM reachable_outages WHERE lane = ? AND node IS ? ORDER BY number DESC LIMIT 1
            """, lane, node)
        // Without a limit, a link that flaps would make claims look at many groups. A closed group is never wrong, but its jobs
        // are compared with the reconnect one by one.
        if let found {
            let number: Int64 = found[0]
            let groups: Int = try row("SELECT count(*) FROM reachable_outages WHERE lane = ?", lane)?[0] ?? 0
            if !(found[1] as Bool) || groups >= 32 {
                try execute(
                    """
                    UPDATE reachable_outages SET last = max(last, ?), last_until = max(last_until, ?) WHERE lane = ? AND number = ?
                    """,
                    time.nanoseconds, until.nanoseconds, lane, number)
                return number
            }
        }
        let inserted = try row(
            """
            INSERT INTO reachable_outages (lane, number, node, first, last, last_until)
            SELECT ?1, ifnull(max(number), 0) + 1, ?2, ?3, ?3, ?4 FROM reachable_outages WHERE lane = ?1 RETURNING number
            """, lane, node, time.nanoseconds, until.nanoseconds)
        guard let inserted else { throw DatabaseError(resultCode: .SQLITE_CORRUPT) }
        return inserted[0]
    }
}
#endif
