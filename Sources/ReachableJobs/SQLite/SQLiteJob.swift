#if SQLite
internal import FoundationEssentials
internal import GRDB

/// A row of `reachable_jobs`: a job without its payload and what its lane says, and what only the store knows of it.
struct SQLiteJob: StoredJob, Equatable {
    var job: DurableJob
    var (queue, lane): (Int64, Int64)
    /// The end of the delays that hold it back on all nodes; `nil` if it was not in the future when the row was written, and after
    /// a claim has found that it has passed.
    var due: StoreInstant?
    var claim: Int64 = 0
    var worker: WorkerID?
    var isStarted = false
    var ended: StoreInstant?

    init(_ job: DurableJob, queue: Int64, lane: Int64) { (self.job, self.queue, self.lane) = (job, queue, lane) }

    // MARK: - Columns

    private mutating func visitPushedColumns(_ visitor: inout some ColumnVisitor) throws {
        try visitor.visit("position", "INTEGER PRIMARY KEY", &job.position)
        try visitor.visit("id", "TEXT NOT NULL UNIQUE", &job.id)
        try visitor.visit("queue", "INTEGER NOT NULL", &queue)
        try visitor.visit("kind", "TEXT NOT NULL", &job.kind)
        try visitor.visit("priority", "INTEGER NOT NULL", &job.priority)
        try visitor.visit("pushed", "INTEGER NOT NULL", &job.pushed)
        try visitor.visit("created", "INTEGER NOT NULL", &job.created)
    }

    private mutating func visitChangingColumns(_ visitor: inout some ColumnVisitor) throws {
        try visitor.visit("lane", "INTEGER NOT NULL", &lane)
        try visitor.visit("is_blocked", "INTEGER NOT NULL", &job.isBlocked)
        try visitor.visit("due", "INTEGER", &due)
        try visitor.visit("not_before", "INTEGER", &job.notBefore)
        try visitor.visit("deadline", "INTEGER", &job.deadline)
        try visitor.visit("unique_key", "TEXT", &job.uniqueKey)
        try visitor.visit("serial_key", "TEXT", &job.serialKey)
        try visitor.visit("continues", "INTEGER NOT NULL", &job.continuesAfterFailure)
        try visitor.visit("is_repeatable", "INTEGER NOT NULL", &job.isRepeatable)
        try visitor.visit("idempotency_key", "TEXT NOT NULL", &job.idempotencyKey)
        try visitor.visit("trace", "TEXT", &job.traceContext)
    }

    /// The columns that have the same values for all new jobs: pushes do not write them.
    private mutating func visitLaterColumns(_ visitor: inout some ColumnVisitor) throws {
        try visitor.visit("state", "INTEGER NOT NULL DEFAULT 0", &job.state)
        try visitor.visit("worker", "INTEGER", &worker)
        try visitor.visit("claim", "INTEGER NOT NULL DEFAULT 0", &claim)
        try visitor.visit("is_started", "INTEGER NOT NULL DEFAULT 0", &isStarted)
        try visitor.visit("is_cancel_requested", "INTEGER NOT NULL DEFAULT 0", &job.isCancelRequested)
        try visitor.visit("has_unknown_outcome", "INTEGER NOT NULL DEFAULT 0", &job.hasUnknownOutcome)
        try visitor.visit("started", "INTEGER NOT NULL DEFAULT 0", &job.counters.started)
        try visitor.visit("charged", "INTEGER NOT NULL DEFAULT 0", &job.counters.charged)
        try visitor.visit("network_failures", "INTEGER NOT NULL DEFAULT 0", &job.counters.networkFailures)
        try visitor.visit("failure_index", "INTEGER NOT NULL DEFAULT 0", &job.counters.failureIndex)
        try visitor.visit("crashes", "INTEGER NOT NULL DEFAULT 0", &job.counters.crashes)
        var soft = (until: job.softDelay?.until, since: job.softDelay?.since)
        try visitor.visit("soft_until", "INTEGER", &soft.until)
        try visitor.visit("soft_since", "INTEGER", &soft.since)
        var (node, boot) = (job.avoidance?.node, job.avoidance?.bootID)
        var (since, until) = (job.avoidance?.since, job.avoidance?.until)
        try visitor.visit("avoided_by", "TEXT", &node)
        try visitor.visit("avoided_boot", "TEXT", &boot)
        try visitor.visit("avoided_since", "INTEGER", &since)
        try visitor.visit("avoided_until", "INTEGER", &until)
        if let node, let boot, let since, let until {
            job.avoidance = .init(node: node, bootID: boot, since: since, until: until)
        }
        if let until = soft.until, let since = soft.since {
            job.softDelay = .init(until: until, since: since, isNetwork: job.avoidance != nil)
        }
        try visitor.visit("hard_until", "INTEGER", &job.hardUntil)
        try visitor.visit("last_error", "TEXT", &job.lastError)
        try visitor.visit("failure_reason", "TEXT", &job.failureReason)
        try visitor.visit("ended", "INTEGER", &ended)
        try visitor.visit("finished", "INTEGER", &job.finished)
    }

    private mutating func visitJoinedColumns(_ visitor: inout some ColumnVisitor) throws {
        try visitor.visit("queues.name", "", &job.queue)
        try visitor.visit("lanes.version", "", &job.version)
        try visitor.visit("lanes.scope", "", &job.scope)
        try visitor.visit("lanes.destination", "", &job.destination)
        try visitor.visit("payloads.payload", "", &job.payload)
    }

    private static let blank = SQLiteJob(
        DurableJob(
            NewJob(id: DurableJobID(high: 0, low: 0), queue: "", kind: "", version: 0, payload: Data()), position: 0,
            now: StoreInstant(nanoseconds: 0), created: .distantPast),
        queue: 0, lane: 0)

    private static func list(_ visit: (inout SQLiteJob, inout ColumnList) throws -> Void) -> [(name: String, type: String)] {
        var (job, list) = (blank, ColumnList())
        // A list throws nothing.
        try? visit(&job, &list)
        return list.columns
    }

    private static let pushed = list { try $0.visitPushedColumns(&$1) }
    private static let changing = list { try $0.visitChangingColumns(&$1) }
    private static let later = list { try $0.visitLaterColumns(&$1) }
    private static let joined = list { try $0.visitJoinedColumns(&$1) }
    private static let columns = pushed + changing + later

    static let names = columns.map(\.name).joined(separator: ", ")

    static let definitions = columns.map { "\($0.name) \($0.type)" }.joined(separator: ", ")

    static let wholeSelection = """
        SELECT \((columns.map { "jobs." + $0.name } + joined.map(\.name)).joined(separator: ", "))
        FROM main.reachable_jobs AS jobs JOIN main.reachable_payloads AS payloads ON payloads.position = jobs.position
        JOIN main.reachable_lanes AS lanes ON lanes.id = jobs.lane JOIN main.reachable_queues AS queues ON queues.id = jobs.queue
        """

    private static let insertion = """
        INSERT INTO main.reachable_jobs (\((pushed + changing).map(\.name).joined(separator: ", ")))
        VALUES (\((pushed + changing).map { _ in "?" }.joined(separator: ", "))) ON CONFLICT (id) DO NOTHING
        """
    private static let update = """
        UPDATE main.reachable_jobs SET \((changing + later).map { $0.name + " = ?" }.joined(separator: ", ")) WHERE position = ?
        """

    init(_ reader: inout ColumnReader) throws {
        self = Self.blank
        try visitPushedColumns(&reader)
        try visitChangingColumns(&reader)
        try visitLaterColumns(&reader)
    }

    init(whole reader: inout ColumnReader) throws {
        try self.init(&reader)
        try visitJoinedColumns(&reader)
    }

    /// Adds the row; returns false if its job is there already.
    func insert(in db: Database) throws -> Bool {
        let statement = try db.cachedStatement(sql: Self.insertion)
        var (job, binder) = (self, ColumnBinder(statement))
        try job.visitPushedColumns(&binder)
        try job.visitChangingColumns(&binder)
        try statement.execute()
        return db.changesCount > 0
    }

    func update(in db: Database) throws {
        let statement = try db.cachedStatement(sql: Self.update)
        var (job, binder) = (self, ColumnBinder(statement))
        try job.visitChangingColumns(&binder)
        try job.visitLaterColumns(&binder)
        try binder.bind(job.job.position)
        try statement.execute()
    }
}

/// Reads or writes columns, or notes what they are.
private protocol ColumnVisitor {
    mutating func visit(_ name: String, _ type: String, _ value: inout some ColumnValue) throws
}

private struct ColumnList: ColumnVisitor {
    var columns: [(name: String, type: String)] = []

    mutating func visit(_ name: String, _ type: String, _ value: inout some ColumnValue) { columns.append((name, type)) }
}

extension ColumnReader: ColumnVisitor {
    fileprivate mutating func visit(_ name: String, _ type: String, _ value: inout some ColumnValue) throws {
        value = try next()
    }
}

extension ColumnBinder: ColumnVisitor {
    fileprivate mutating func visit(_ name: String, _ type: String, _ value: inout some ColumnValue) throws { try bind(value) }
}
#endif
