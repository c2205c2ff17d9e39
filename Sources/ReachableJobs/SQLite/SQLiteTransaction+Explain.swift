#if SQLite
internal import FoundationEssentials
internal import GRDB

extension SQLiteTransaction {
    /// Returns the store's part of why jobs do not run; `nil` for unknown jobs.
    ///
    /// Only reads.
    func explain(_ ids: [DurableJobID]) throws -> [JobStanding?] {
        var workerCounts: [Int64: Int] = [:]
        var present: Set<WorkerID> = []
        for worker in try rows("SELECT \(Worker.columns) FROM reachable_workers").map(Worker.init)
        where lease(of: worker) == .valid {
            workerCounts[worker.queue, default: 0] += 1
            present.insert(WorkerID(rawValue: worker.number))
        }
        let sql = """
            SELECT \(SQLiteRows.columns), reachable_queues.name, reachable_lanes.id, reachable_lanes.kind, reachable_lanes.version,
            reachable_lanes.scope, reachable_lanes.destination, is_paused, hold_until, worker, is_started,
            reachable_jobs.queue, soft_outage, undecodable
            FROM reachable_jobs JOIN reachable_lanes ON reachable_lanes.id = lane
            JOIN reachable_queues ON reachable_queues.id = reachable_jobs.queue WHERE reachable_jobs.id = ?
            """
        return try ids.map { id in
            guard let row = try row(sql, id.description) else { return nil }
            let next = SQLiteRows.count
            let job = try SQLiteRows.job(
                row, queue: StoredText.loaded(row[next]), lane: SQLiteRows.lane(row, from: next + 1), payload: Data())
            let (hold, worker): (Int64?, Int64?) = (row[next + 7], row[next + 8])
            let queue: Int64 = row[next + 10]
            let isCutOff = job.softDelay.map { $0.isNetwork && $0.until > now } ?? false
            let outage = isCutOff ? try group(row[next + 11], row[next + 1])?[0] as String? : nil
            let undecodable = job.state == .available ? try group(row[next + 12], row[next + 1])?[1] as String? : nil
            return JobStanding(
                job: job, isPaused: row[next + 6], workers: workerCounts[queue] ?? 0,
                holdUntil: SQLiteRows.instant(hold.flatMap { $0 > now.nanoseconds ? $0 : nil }),
                blockers: job.isBlocked ? try blockers(of: job, queue) : [], worker: worker.map(WorkerID.init),
                isStarted: row[next + 9], now: now, boundNode: outage.map(StoredText.loaded),
                undecodableBy: present.intersection(Self.numbers(undecodable ?? "").map(WorkerID.init)))
        }
    }

    /// Returns the node and the workers that a group binds; `nil` without a group.
    private func group(_ number: Int64?, _ lane: Int64) throws -> SQLiteRow? {
        try number.flatMap { try row("SELECT node, workers FROM reachable_outages WHERE lane = ? AND number = ?", lane, $0) }
    }

    /// Returns the first job that holds each of a job's keys, or a later one that runs with it.
    private func blockers(of job: DurableJob, _ queue: Int64) throws -> [JobStanding.Blocker] {
        let serial = try job.serialKey.flatMap { key in
            try blocker(
                of: job, .serial, "queue = ? AND serial_key = ?", holds: SQLiteSchema.holdsSerial, queue, StoredText.stored(key))
        }
        let unique = try job.uniqueKey.flatMap { key in
            try blocker(
                of: job, .unique, "queue = ? AND kind = ? AND unique_key = ?", holds: SQLiteSchema.holdsUnique, queue,
                StoredText.stored(job.kind), StoredText.stored(key))
        }
        return [serial, unique].compactMap(\.self)
    }

    private func blocker<each Value: StatementBinding>(
        of job: DurableJob, _ key: JobStanding.Blocker.Key, _ chain: String, holds: String, _ values: repeat each Value
    ) throws -> JobStanding.Blocker? {
        let sql = "SELECT id, state FROM reachable_jobs WHERE \(chain)"
        let first = try row(
            "\(sql) AND position < ? AND \(holds) ORDER BY position LIMIT 1", repeat each values, job.position)
        let running = "AND position <> ? AND \(key.rawValue)_key IS NOT NULL AND state = 1 LIMIT 1"
        guard let row = try first ?? row("\(sql) \(running)", repeat each values, job.position),
            let id = DurableJobID(row[0] as String)
        else { return nil }
        return JobStanding.Blocker(id: id, state: SQLiteSchema.states[row[1]], key: key)
    }
}
#endif
