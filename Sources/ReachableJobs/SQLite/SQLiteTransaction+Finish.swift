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
    mutating func giveBack(_ tickets: [JobTicket], by worker: WorkerID) throws -> [FinishOutcome] {
        guard let worker = try validWorker(worker) else { return tickets.map { _ in .refused } }
        return try tickets.map { ticket in
            guard let keys = try claimed(ticket, by: worker) else { return .refused }
            return try free(keys, .givenBack) ? .recorded : .cancelled
        }
    }

    private func claimed(_ ticket: JobTicket, by worker: Worker) throws -> Keys? {
        try row(
            "SELECT \(Keys.columns) FROM reachable_jobs WHERE id = ? AND state = 1 AND worker = ? AND claim = ?",
            ticket.id.description, worker.number, ticket.claim
        ).map(Keys.init)
    }

    /// Records results of attempts.
    mutating func finish(_ results: [AttemptResult], by worker: WorkerID) throws -> [FinishOutcome] {
        guard let worker = try validWorker(worker) else { return results.map { _ in .refused } }
        var ended: [Int64: Int] = [:]
        let outcomes = try results.map { result -> FinishOutcome in
            switch result.outcome {
            case .succeeded:
                try end(result, as: .succeeded, reason: nil, by: worker, &ended) ? .recorded : .refused
            case .failed(let reason):
                try end(result, as: .failed, reason: reason, by: worker, &ended) ? .recorded : .refused
            case .cancelled:
                try end(result, as: .cancelled, reason: nil, by: worker, &ended) ? .recorded : .refused
            case .again(let soft, let isNetwork, let hard):
                try repeatLater(result, soft: soft, isNetwork: isNetwork, hard: hard, by: worker, &ended)
            case .undecodable:
                try withhold(result, from: worker, &ended)
            }
        }
        for (queue, number) in ended { try addUnfinished(-number, queue: queue) }
        return outcomes
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
            counters.failureIndex, result.storedError.map(StoredText.stored), reason.map(StoredText.stored),
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
    ) throws -> FinishOutcome {
        let (id, counters) = (result.ticket.id.description, result.counters)
        let found = try row(
            """
            SELECT is_cancel_requested, soft_until, soft_network, soft_outage, lane, undecodable FROM reachable_jobs
            WHERE id = ? AND state = 1 AND worker = ? AND claim = ?
            """, id, worker.number, result.ticket.claim)
        guard let found else { return .refused }
        // The request came before the result, and another attempt would follow.
        if found[0] { return try end(result, as: .cancelled, reason: nil, by: worker, &ended) ? .cancelled : .refused }
        let time = min(result.time ?? now, now)
        let until = time.advanced(by: soft)
        var outage: Int64?
        if isNetwork, until > now {
            let earlier: (Int64?, Int64?) = (found[1], found[2] ? found[3] : nil)
            let isBoundElsewhere = earlier.0.map { $0 > now.nanoseconds } ?? false
            outage = try addOutage(
                lane: found[4], node: worker.node, at: time, until: until, earlier: isBoundElsewhere ? earlier.1 : nil,
                undecodable: found[5])
        }
        let changed = try row(
            """
            UPDATE reachable_jobs SET state = 0, worker = NULL, is_started = 0, \(Self.counters),
            last_error = ifnull(?, last_error), soft_until = ?, soft_since = ?, soft_network = ?, soft_outage = ?, hard_until = ?
            WHERE id = ? RETURNING \(Keys.columns)
            """,
            counters.started, counters.charged, counters.networkFailures, counters.failureIndex,
            result.storedError.map(StoredText.stored), until.nanoseconds, time.nanoseconds, isNetwork, outage,
            hard.map { time.advanced(by: $0).nanoseconds }, id)
        return try makeAvailable(changed.map(Keys.init), result)
    }

    /// Lets a job that is available again wait for its turn; `nil` is a job of another claim.
    private mutating func makeAvailable(_ keys: Keys?, _ result: AttemptResult) throws -> FinishOutcome {
        guard let keys else { return .refused }
        if let duration = result.holdsDestination { try hold(keys.lane, for: duration) }
        try schedule(keys.position, lane: keys.lane)
        try settle(keys)
        // Other workers have to learn when it is due.
        wakesWorkers = true
        return .recorded
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
    /// - Parameters:
    ///   - earlier: The group of the delay within which the job failed again.
    ///   - undecodable: The group of the workers that cannot decode the job: they stay bound.
    private func addOutage(
        lane: Int64, node: String, at time: StoreInstant, until: StoreInstant, earlier: Int64?, undecodable: Int64?
    ) throws -> Int64 {
        var node: String? = node
        let workers = try undecodable.flatMap { try numbers(of: $0, lane) }
        if let earlier,
            let first = try row("SELECT node FROM reachable_outages WHERE lane = ? AND number = ?", lane, earlier),
            first[0] as String? != node
        {
            // A second node failed within the first one's delay: now it binds all.
            node = nil
        }
        let found = try row(
            """
            SELECT number, is_closed FROM reachable_outages WHERE lane = ? AND node IS ? AND workers IS ? AND first IS NOT NULL
            ORDER BY number DESC LIMIT 1
            """, lane, node, workers)
        // Without a limit, a link that flaps would make claims look at many groups. A closed group is never wrong, but its jobs
        // are compared with the reconnect one by one.
        if let found {
            let number: Int64 = found[0]
            if try !(found[1] as Bool) || hasManyGroups(lane) {
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
            INSERT INTO reachable_outages (lane, number, node, workers, first, last, last_until)
            SELECT ?1, ifnull(max(number), 0) + 1, ?2, ?5, ?3, ?3, ?4 FROM reachable_outages WHERE lane = ?1 RETURNING number
            """, lane, node, time.nanoseconds, until.nanoseconds, workers)
        guard let inserted else { throw DatabaseError(resultCode: .SQLITE_CORRUPT) }
        return inserted[0]
    }

    private func hasManyGroups(_ lane: Int64) throws -> Bool {
        let count: Int64 = try row("SELECT count(*) FROM reachable_outages WHERE lane = ?", lane)?[0] ?? 0
        return count >= 32
    }

    // MARK: Undecodable payloads

    /// Makes a job available again, but not for a worker that cannot decode it.
    private mutating func withhold(
        _ result: AttemptResult, from worker: Worker, _ ended: inout [Int64: Int]
    ) throws -> FinishOutcome {
        let (id, counters) = (result.ticket.id.description, result.counters)
        let found = try row(
            """
            SELECT is_cancel_requested, undecodable, lane FROM reachable_jobs
            WHERE id = ? AND state = 1 AND worker = ? AND claim = ?
            """, id, worker.number, result.ticket.claim)
        guard let found else { return .refused }
        if found[0] { return try end(result, as: .cancelled, reason: nil, by: worker, &ended) ? .cancelled : .refused }
        let changed = try row(
            """
            UPDATE reachable_jobs SET state = 0, worker = NULL, is_started = 0, \(Self.counters),
            last_error = ifnull(?, last_error), soft_until = NULL, soft_since = NULL, soft_network = 0, soft_outage = NULL,
            hard_until = NULL, undecodable = ? WHERE id = ? RETURNING \(Keys.columns)
            """,
            counters.started, counters.charged, counters.networkFailures, counters.failureIndex,
            result.storedError.map(StoredText.stored), addWorkers(lane: found[2], worker, to: found[1]), id)
        return try makeAvailable(changed.map(Keys.init), result)
    }

    /// Returns the group of jobs that a worker cannot decode, and neither can the workers of their present group.
    private func addWorkers(lane: Int64, _ worker: Worker, to earlier: Int64?) throws -> Int64 {
        var numbers: Set = [worker.number]
        if let earlier, let bound = try self.numbers(of: earlier, lane) { numbers.formUnion(Self.numbers(bound)) }
        // Their numbers are not used again.
        let present = Set(try rows("SELECT number FROM reachable_workers WHERE queue = ?", worker.queue).map { $0[0] as Int64 })
        numbers.formIntersection(present)
        if let group = try group(of: numbers, lane) { return group }
        // Each set of many workers could have a group: then the job waits for a worker that is registered later.
        if try hasManyGroups(lane) {
            numbers = present
            if let group = try group(of: numbers, lane) { return group }
        }
        let inserted = try row(
            """
            INSERT INTO reachable_outages (lane, number, workers, last_until, is_closed)
            SELECT ?1, ifnull(max(number), 0) + 1, ?2, 0, 1 FROM reachable_outages WHERE lane = ?1 RETURNING number
            """, lane, Self.text(of: numbers))
        guard let inserted else { throw DatabaseError(resultCode: .SQLITE_CORRUPT) }
        return inserted[0]
    }

    private func group(of workers: Set<Int64>, _ lane: Int64) throws -> Int64? {
        let sql = "SELECT number FROM reachable_outages WHERE lane = ? AND workers = ? AND first IS NULL"
        return try row(sql, lane, Self.text(of: workers))?[0]
    }

    private func numbers(of group: Int64, _ lane: Int64) throws -> String? {
        try row("SELECT workers FROM reachable_outages WHERE lane = ? AND number = ?", lane, group)?[0]
    }

    private static func text(of workers: Set<Int64>) -> String { workers.sorted().map(String.init).joined(separator: " ") }

    /// Returns the numbers of a group's workers.
    static func numbers(_ text: String) -> [Int64] { text.split(separator: " ").compactMap { Int64($0) } }
}
#endif
