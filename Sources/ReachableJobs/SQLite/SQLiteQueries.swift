#if SQLite
internal import FoundationEssentials
internal import GRDB

/// Reads for people, on a connection that no claim waits for.
enum SQLiteQueries {
    /// Returns jobs by position.
    static func find(_ filter: JobFilter, in db: Database) throws -> [DurableJob] {
        if let prefix = filter.idPrefix, !prefix.utf8.allSatisfy({ Character(UnicodeScalar($0)).isHexDigit }) { return [] }
        var (conditions, arguments): ([String], StatementArguments) = ([], [])
        func add(_ condition: String, _ values: StatementArguments) {
            conditions.append(condition)
            arguments += values
        }
        func list(_ number: Int) -> String { repeatElement("?", count: number).joined(separator: ", ") }
        if let queue = filter.queue { add("reachable_queues.name = ?", [StoredText.stored(queue)]) }
        if let states = filter.states {
            add("state IN (\(list(states.count)))", StatementArguments(states.map(SQLiteSchema.number(of:))))
        }
        if let kinds = filter.kinds {
            add("reachable_jobs.kind IN (\(list(kinds.count)))", StatementArguments(kinds.map(StoredText.stored)))
        }
        // The digits end with f, which g follows.
        if let prefix = filter.idPrefix?.lowercased() {
            add("reachable_jobs.id >= ? AND reachable_jobs.id < ?", [prefix, prefix + "g"])
        }
        if let key = filter.uniqueKey { add("unique_key = ?", [StoredText.stored(key)]) }
        if let key = filter.serialKey { add("serial_key = ?", [StoredText.stored(key)]) }
        if let destination = filter.destination { add("destination = ?", [StoredText.stored(destination)]) }
        if let position = filter.after { add("position > ?", [position]) }
        let sql = """
            \(selection)
            \(conditions.isEmpty ? "" : "WHERE " + conditions.joined(separator: " AND ")) ORDER BY position LIMIT ?
            """
        let rows = try SQLiteRow.fetchCursor(db, sql: sql, arguments: arguments + [filter.limit ?? -1])
        var jobs: [DurableJob] = []
        while let row = try rows.next() {
            jobs.append(try job(row))
        }
        return jobs
    }

    /// Selects whole jobs, for ``job(_:)``.
    static let selection = """
        SELECT \(SQLiteRows.columns), reachable_queues.name, reachable_lanes.id, reachable_lanes.kind, reachable_lanes.version,
        reachable_lanes.scope, reachable_lanes.destination, payload
        FROM reachable_jobs JOIN reachable_payloads USING (position) JOIN reachable_lanes ON reachable_lanes.id = lane
        JOIN reachable_queues ON reachable_queues.id = reachable_jobs.queue
        """

    /// Creates a job from a row of ``selection``.
    static func job(_ row: SQLiteRow) throws -> DurableJob {
        let next = SQLiteRows.count
        let lane = SQLiteRows.lane(row, from: next + 1)
        return try SQLiteRows.job(row, queue: StoredText.loaded(row[next]), lane: lane, payload: row[next + 6])
    }

    /// Returns the number of jobs per state, kind and destination.
    static func count(queue: String, in db: Database) throws -> [JobCount] {
        try SQLiteRow.fetchAll(
            db,
            sql: """
                SELECT state, reachable_lanes.kind, destination, count(*), min(created)
                FROM reachable_jobs JOIN reachable_lanes ON reachable_lanes.id = lane
                WHERE reachable_jobs.queue = (SELECT id FROM reachable_queues WHERE name = ?)
                GROUP BY state, reachable_lanes.kind, destination ORDER BY 1, 2, 3
                """, arguments: [StoredText.stored(queue)]
        ).map { row in
            JobCount(
                state: SQLiteSchema.states[row[0]], kind: StoredText.loaded(row[1]),
                destination: (row[2] as String?).map(StoredText.loaded), count: row[3],
                oldest: SQLiteRows.date(row[4]))
        }
    }
}
#endif
