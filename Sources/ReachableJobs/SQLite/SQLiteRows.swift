#if SQLite
internal import FoundationEssentials
internal import GRDB
internal import ReachableRetry

/// Jobs and their rows.
enum SQLiteRows {
    /// The columns of a job's row, in the order in which ``job(_:queue:lane:payload:)`` reads them.
    static let columns = """
        reachable_jobs.id, position, priority, not_before, deadline, unique_key, serial_key, continues, is_repeatable,
        idempotency_key, trace, state, is_cancel_requested, started, charged, network_failures, failure_index, crashes,
        soft_until, soft_since, soft_network, hard_until, last_error, failure_reason, created, finished, is_blocked,
        has_unknown_outcome
        """
    /// The number of these columns.
    static let count = 28

    /// Creates a lane from the columns id, kind, version, scope and destination, the first of which is given.
    static func lane(_ row: SQLiteRow, from column: Int) -> Lane {
        Lane(
            id: row[column], kind: StoredText.loaded(row[column + 1]), version: row[column + 2],
            scope: StoredText.loaded(row[column + 3]),
            destination: (row[column + 4] as String?).map(StoredText.loaded))
    }

    /// Creates a job from its row, queue, lane and payload.
    static func job(_ row: SQLiteRow, queue: String, lane: Lane, payload: Data) throws -> DurableJob {
        let text: String = row[0]
        let state: Int = row[11]
        let priority: Int = row[2]
        guard let id = DurableJobID(text), SQLiteSchema.states.indices.contains(state),
            let priority = JobPriority(rawValue: priority)
        else { throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "a job's row cannot be read") }
        var new = NewJob(id: id, queue: queue, kind: lane.kind, version: lane.version, payload: payload)
        (new.scope, new.destination, new.priority) = (lane.scope, lane.destination, priority)
        (new.serialKey, new.continuesAfterFailure, new.isRepeatable) = ((row[6] as String?).map(StoredText.loaded), row[7], row[8])
        if let key = row[9] as String? { new.idempotencyKey = StoredText.loaded(key) }
        new.traceContext = StoredText.context(of: row[10])
        var job = DurableJob(new, position: row[1], now: StoreInstant(nanoseconds: 0), created: date(row[24]))
        (job.notBefore, job.deadline) = (instant(row[3]), instant(row[4]))
        job.uniqueKey = (row[5] as String?).map(StoredText.loaded)
        (job.state, job.isCancelRequested) = (SQLiteSchema.states[state], row[12])
        job.counters.started = row[13]
        job.counters.charged = row[14]
        job.counters.networkFailures = row[15]
        job.counters.failureIndex = row[16]
        job.counters.crashes = row[17]
        if let until = instant(row[18]), let since = instant(row[19]) {
            job.softDelay = DurableJob.SoftDelay(until: until, since: since, isNetwork: row[20])
        }
        job.hardUntil = instant(row[21])
        (job.lastError, job.failureReason) = (
            (row[22] as String?).map(StoredText.loaded), (row[23] as String?).map(StoredText.loaded)
        )
        job.finished = (row[25] as Int64?).map(date)
        (job.isBlocked, job.hasUnknownOutcome) = (row[26], row[27])
        return job
    }

    /// Returns an optional instant.
    static func instant(_ nanoseconds: Int64?) -> StoreInstant? { nanoseconds.map(StoreInstant.init) }

    /// Returns a date from the nanoseconds since 1970.
    static func date(_ nanoseconds: Int64) -> Date { Date(timeIntervalSince1970: Double(nanoseconds) / 1e9) }
}
#endif
