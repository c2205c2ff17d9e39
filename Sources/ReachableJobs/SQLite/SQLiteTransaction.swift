#if SQLite
internal import FoundationEssentials
internal import GRDB

/// One transaction of a store: reads and writes its tables at one instant.
///
/// Lives on the writer's thread for the time of the transaction.
struct SQLiteTransaction {
    let db: Database
    let locks: WorkerLocks
    /// The clocks at the beginning.
    let reading: StoreClock.Reading
    let monotonic: Int64
    /// The store's time.
    let now: StoreInstant
    private let clock: StoreClock
    private let isNewBoot: Bool
    private var lastPosition: Int64
    private var lastWorker: Int64
    /// The positions and workers that were assigned before.
    private let oldNumbers: [Int64]
    /// True if other workers may have something to do after the commit.
    var wakesWorkers = false
    /// The numbers of queues and lanes that are known.
    private var (queues, lanes): ([Bytes: Int64], [LaneKey: Int64]) = ([:], [:])
    /// The changes of the numbers of jobs.
    private var (queueChanges, laneChanges): ([Int64: Int], [Int64: Int]) = ([:], [:])

    private struct LaneKey: Hashable {
        var (queue, version): (Int64, Int)
        var (kind, scope, destination): (Bytes, Bytes, Bytes?)
    }

    init(_ db: Database, machine: SQLiteMachine, locks: WorkerLocks) throws {
        (self.db, self.locks) = (db, locks)
        (reading, monotonic) = (machine.reading(), machine.monotonic())
        let sql = "SELECT schema, boot_id, boot, newest_wall, instant, last_position, last_worker FROM main.reachable_meta"
        let meta = try ColumnReader.first(of: db.cachedStatement(sql: sql)) { meta in
            try SQLiteSchema.check(meta.next())
            let clock = try StoreClock(bootID: meta.next(), boot: meta.next(), newestWall: meta.next(), instant: meta.next())
            return try (clock: clock, numbers: [meta.next(Int64.self), meta.next(Int64.self)])
        }
        guard var clock = meta?.clock, let numbers = meta?.numbers else { throw DatabaseError(resultCode: .SQLITE_CORRUPT) }
        isNewBoot = !clock.isSameBoot(reading)
        now = clock.advance(to: reading)
        self.clock = clock
        (lastPosition, lastWorker, oldNumbers) = (numbers[0], numbers[1], numbers)
    }

    /// Writes the clock and the numbers before the commit.
    ///
    /// The first transaction of a boot always writes the clock: until then, a step of the wall clock would move the store's time.
    mutating func close(writesClock: Bool) throws {
        try writeChanges()
        guard writesClock || isNewBoot || oldNumbers != [lastPosition, lastWorker] else { return }
        try execute(
            """
            UPDATE main.reachable_meta
            SET boot_id = ?, boot = ?, newest_wall = ?, instant = ?, last_position = ?, last_worker = ?
            """, clock.bootID, clock.boot, clock.newestWall, clock.instant, lastPosition, lastWorker)
    }

    /// Returns the position of the next job: SQLite has one writer at a time, so positions are in commit order.
    mutating func nextPosition() -> Int64 {
        lastPosition += 1
        return lastPosition
    }

    /// Returns the number of the next worker.
    mutating func nextWorker() -> Int64 {
        lastWorker += 1
        return lastWorker
    }

    // MARK: - Queues and lanes

    /// Returns the number of a queue; `nil` if nothing named it yet.
    mutating func existingQueue(_ name: String) throws -> Int64? {
        if let known = queues[Bytes(name)] { return known }
        let id: Int64? = try value("SELECT id FROM main.reachable_queues WHERE name = ?", name)
        queues[Bytes(name)] = id
        return id
    }

    /// Returns the number of a queue, and adds it if it is new.
    mutating func queue(_ name: String) throws -> Int64 {
        if let known = try existingQueue(name) { return known }
        try execute("INSERT INTO main.reachable_queues (name) VALUES (?)", name)
        queues[Bytes(name)] = db.lastInsertedRowID
        return db.lastInsertedRowID
    }

    /// Returns the number of a job's lane, and adds it if it is new.
    mutating func lane(of job: NewJob, queue: Int64) throws -> Int64 {
        let key = LaneKey(
            queue: queue, version: job.version, kind: Bytes(job.kind), scope: Bytes(job.scope),
            destination: job.destination.map(Bytes.init))
        if let known = lanes[key] { return known }
        var id: Int64? = try value(
            """
            SELECT id FROM main.reachable_lanes
            WHERE queue = ? AND kind = ? AND version = ? AND scope = ? AND destination IS ?
            """, queue, job.kind, job.version, job.scope, job.destination)
        if id == nil {
            // A server's order holds for all lanes of its destination.
            id = try value(
                """
                INSERT INTO main.reachable_lanes (queue, kind, version, scope, destination, hold_until) VALUES (?1, ?2, ?3, ?4, ?5,
                (SELECT max(hold_until) FROM main.reachable_lanes WHERE queue = ?1 AND scope = ?4 AND destination IS ?5))
                RETURNING id
                """, queue, job.kind, job.version, job.scope, job.destination)
        }
        guard let id else { throw DatabaseError(resultCode: .SQLITE_CORRUPT) }
        lanes[key] = id
        return id
    }

    /// Changes the number of a lane's jobs.
    mutating func addJobs(_ number: Int, lane: Int64) { laneChanges[lane, default: 0] += number }

    /// Changes the number of a queue's unfinished jobs.
    mutating func addUnfinished(_ number: Int, queue: Int64) { queueChanges[queue, default: 0] += number }

    /// Throws if one of the queues has more unfinished jobs than it may have.
    mutating func checkRoom(_ queues: Set<Int64>, _ limit: Int?) throws {
        guard let limit = limit.map({ max(0, $0) }) else { return }
        try writeChanges()
        for queue in queues {
            let sql = "SELECT name FROM main.reachable_queues WHERE id = ? AND unfinished > ?"
            if let name: String = try value(sql, queue, limit) { throw JobStoreError.full(queue: name, limit: limit) }
        }
    }

    /// Writes the numbers of jobs.
    mutating func writeChanges() throws {
        for (queue, number) in queueChanges where number != 0 {
            try execute("UPDATE main.reachable_queues SET unfinished = unfinished + ? WHERE id = ?", number, queue)
        }
        for (lane, number) in laneChanges where number != 0 {
            try execute("UPDATE main.reachable_lanes SET jobs = jobs + ? WHERE id = ?", number, lane)
        }
        (queueChanges, laneChanges) = ([:], [:])
    }

    // MARK: - Jobs

    /// Returns the jobs that a condition selects, without payloads and what their lanes say.
    func jobs<each Argument: ColumnValue>(_ condition: String, _ arguments: repeat each Argument) throws -> [SQLiteJob] {
        try rows("SELECT \(SQLiteJob.names) FROM main.reachable_jobs WHERE \(condition)", repeat each arguments) {
            try SQLiteJob(&$0)
        }
    }

    /// Returns a whole job.
    func wholeJob(_ position: Int64) throws -> SQLiteJob {
        let found = try row("\(SQLiteJob.wholeSelection) WHERE jobs.position = ?", position) { try SQLiteJob(whole: &$0) }
        guard let found else { throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "a job has no payload") }
        return found
    }

    /// Returns a job with an identity.
    func job(_ id: DurableJobID) throws -> SQLiteJob? { try jobs("id = ?", id).first }

    /// Ends a claim, if the job has one, and moves a job to a state.
    mutating func setState(_ stored: inout SQLiteJob, _ state: DurableJob.State) {
        stored.job.state = state
        (stored.worker, stored.isStarted) = (nil, false)
        if state.isFinal {
            stored.job.isCancelRequested = false
            (stored.job.finished, stored.ended) = (reading.date, now)
        }
        if !state.isFinal { wakesWorkers = true }
    }

    /// Writes a changed job, and settles all that wait for one with its keys.
    mutating func save(_ stored: SQLiteJob, was old: SQLiteJob) throws {
        var stored = stored
        schedule(&stored)
        stored.job.isBlocked = false
        try stored.update(in: db)
        if stored.job.state.isFinal != old.job.state.isFinal {
            addUnfinished(old.job.state.isFinal ? 1 : -1, queue: stored.queue)
        }
        try settle(stored)
    }

    /// Sets the end of the delays that hold a job back on all nodes.
    func schedule(_ stored: inout SQLiteJob) {
        let soft = stored.job.softDelay.flatMap { $0.isNetwork ? nil : $0.until }
        let end = [stored.job.notBefore, stored.job.hardUntil, soft].compactMap(\.self).max()
        stored.due = end.flatMap { $0 > now ? $0 : nil }
    }

    // MARK: - Chains

    /// The jobs that run one after the other: ?1 is the queue, ?2 the kind, ?3 the key and ?4 the position of one of them.
    private struct Chain {
        let key: JobExplanation.Blocker.Key
        let text: String
        /// The conditions for its jobs, those that keep others waiting, and those that run.
        let (jobs, holders, running): (String, String, String)
    }

    private func chains(of stored: SQLiteJob) -> [Chain] {
        if stored.job.serialKey == nil, stored.job.uniqueKey == nil { return [] }
        let serial = stored.job.serialKey.map { key in
            Chain(
                key: .serial, text: key, jobs: "queue = ?1 AND serial_key = ?3", holders: SQLiteSchema.holdsSerial,
                running: "serial_key IS NOT NULL AND state = 1")
        }
        let unique = stored.job.uniqueKey.map { key in
            Chain(
                key: .unique, text: key, jobs: "queue = ?1 AND kind = ?2 AND unique_key = ?3", holders: SQLiteSchema.holdsUnique,
                running: "unique_key IS NOT NULL AND state = 1")
        }
        return [serial, unique].compactMap(\.self)
    }

    /// Unblocks and blocks the jobs that a change of a job with keys concerns: itself, and the first other one of each chain.
    mutating func settle(_ stored: SQLiteJob) throws {
        var concerned = [stored]
        for chain in chains(of: stored) {
            concerned += try jobs(
                "\(chain.jobs) AND \(chain.holders) AND position <> ?4 ORDER BY position LIMIT 1", stored.queue, stored.job.kind,
                chain.text, stored.job.position)
        }
        for other in concerned where other.job.state == .available && (other.job.serialKey ?? other.job.uniqueKey) != nil {
            let isBlocked = try !blockers(of: other).isEmpty
            let sql = "UPDATE main.reachable_jobs SET is_blocked = ?1 WHERE position = ?2 AND is_blocked <> ?1"
            if try execute(sql, isBlocked, other.job.position) > 0, !isBlocked { wakesWorkers = true }
        }
    }

    /// Returns the jobs for which an available one waits: of each chain the first that holds its key, or one that runs.
    ///
    /// A job that is retried may come back before one that runs.
    func blockers(of stored: SQLiteJob) throws -> [JobExplanation.Blocker] {
        try chains(of: stored).compactMap { chain in
            func first(_ condition: String) throws -> JobExplanation.Blocker? {
                try row(
                    "SELECT id, state FROM main.reachable_jobs WHERE \(chain.jobs) AND \(condition) LIMIT 1", stored.queue,
                    stored.job.kind, chain.text, stored.job.position
                ) { try JobExplanation.Blocker(id: $0.next(), state: $0.next(), key: chain.key) }
            }
            return try first("\(chain.holders) AND position < ?4 ORDER BY position")
                ?? first("\(chain.running) AND position <> ?4")
        }
    }
}
#endif
