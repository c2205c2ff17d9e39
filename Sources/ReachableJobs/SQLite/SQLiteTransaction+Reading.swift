#if SQLite
internal import FoundationEssentials
internal import GRDB

// Reads for people, on a connection that no claim waits for.
extension SQLiteTransaction {
    /// Returns jobs by position.
    func find(_ filter: JobFilter) throws -> [DurableJob] {
        if let prefix = filter.idPrefix, !prefix.utf8.allSatisfy({ Character(UnicodeScalar($0)).isHexDigit }) { return [] }
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
        let rows = try ColumnReader.fetchCursor(db, sql: sql, arguments: arguments + [filter.limit.map { max(0, $0) } ?? -1])
        var jobs: [DurableJob] = []
        while var row = try rows.next() { jobs.append(try SQLiteJob(whole: &row).job) }
        return jobs
    }

    /// Returns the number of jobs per state, kind and destination, in this order.
    func count(queue: String) throws -> [JobCount] {
        let names = DurableJob.State.numbered.map { "WHEN \($0.raw) THEN '\($0.rawValue)'" }.joined(separator: " ")
        return try rows(
            """
            SELECT CASE state \(names) END, jobs.kind, destination, count(*), min(created)
            FROM main.reachable_jobs AS jobs JOIN main.reachable_lanes AS lanes ON lanes.id = lane
            WHERE jobs.queue = (SELECT id FROM main.reachable_queues WHERE name = ?) GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
            """, queue
        ) {
            try JobCount(
                state: DurableJob.State(rawValue: $0.next()) ?? .available, kind: $0.next(), destination: $0.next(),
                count: $0.next(), oldest: $0.next())
        }
    }

    /// Returns the store's part of why jobs do not run; `nil` for unknown jobs.
    func explain(_ ids: [DurableJobID]) throws -> [JobExplanation?] {
        var workers: [Int64: Int] = [:]
        for worker in try allWorkers() where end(of: worker) == nil { workers[worker.queue, default: 0] += 1 }
        let sql = """
            SELECT name, version, scope, destination, is_paused, hold_until
            FROM main.reachable_lanes AS lanes JOIN main.reachable_queues AS queues ON queues.id = queue WHERE lanes.id = ?
            """
        return try ids.map { id in
            guard let stored = try job(id) else { return nil }
            return try row(sql, stored.lane) { lane in
                var job = stored.job
                (job.queue, job.version, job.scope, job.destination) = try (lane.next(), lane.next(), lane.next(), lane.next())
                let (isPaused, hold) = try (lane.next(Bool.self), lane.next(StoreInstant?.self))
                return JobExplanation(
                    job: job, isPaused: isPaused, workers: workers[stored.queue] ?? 0,
                    holdUntil: hold.flatMap { $0 > now ? $0 : nil }, blockers: job.isBlocked ? try blockers(of: stored) : [],
                    worker: stored.worker, isStarted: stored.isStarted, now: now)
            }
        }
    }
}
#endif
