#if SQLite
internal import FoundationEssentials
internal import GRDB

/// One transaction of a store: reads and writes its tables at one instant.
///
/// Lives on the writer's thread for the time of the transaction. A job is read, changed by the rules of ``StoredJob`` and written.
struct SQLiteTransaction {
    let db: Database
    let locks: WorkerLocks
    let moment: StoreMoment
    let monotonic: Int64
    private var clock: StoreClock
    var writesClock: Bool
    /// The last position and worker that are assigned, and were before.
    private var last, oldLast: (position: Int64, worker: Int64)
    /// True if other workers may have something to do after the commit.
    var wakesWorkers = false
    private var lanes: [LaneKey: (queue: Int64, lane: Int64)] = [:]
    /// The changes of the numbers of unfinished jobs of queues, and of all jobs of lanes.
    private var (queueChanges, laneChanges): ([Int64: Int], [Int64: Int]) = ([:], [:])

    private struct LaneKey: Hashable {
        var (queue, kind, scope, destination): (Bytes, Bytes, Bytes, Bytes?)
        var version: Int
    }

    init(_ db: Database, machine: SQLiteMachine, locks: WorkerLocks, writesClock: Bool = false) throws {
        (self.db, self.locks) = (db, locks)
        let reading = machine.reading()
        monotonic = machine.monotonic()
        let sql = "SELECT schema, boot_id, boot, newest_wall, instant, last_position, last_worker FROM main.reachable_meta"
        let meta = try db.row(sql) { meta in
            try SQLiteSchema.check(meta.next())
            let clock = try StoreClock(bootID: meta.next(), boot: meta.next(), newestWall: meta.next(), instant: meta.next())
            return try (clock: clock, last: (position: meta.next(Int64.self), worker: meta.next(Int64.self)))
        }
        guard let meta else { throw DatabaseError(resultCode: .SQLITE_CORRUPT) }
        (clock, last, oldLast) = (meta.clock, meta.last, meta.last)
        // Until the first transaction of a boot has written it, a step of the wall clock would move the store's time.
        self.writesClock = writesClock || !clock.goesOn(with: reading)
        moment = StoreMoment(now: clock.advance(to: reading), bootID: reading.bootID, boot: reading.boot, date: reading.date)
    }

    var now: StoreInstant { moment.now }

    mutating func close() throws {
        try writeChanges()
        guard writesClock || last != oldLast else { return }
        try db.change(
            """
            UPDATE main.reachable_meta
            SET boot_id = ?, boot = ?, newest_wall = ?, instant = ?, last_position = ?, last_worker = ?
            """, clock.bootID, clock.boot, clock.newestWall, clock.instant, last.position, last.worker)
    }

    // MARK: - Queues and lanes

    func queue(_ name: String) throws -> Int64 {
        if let known: Int64 = try db.value("SELECT id FROM main.reachable_queues WHERE name = ?", name) { return known }
        try db.change("INSERT INTO main.reachable_queues (name) VALUES (?)", name)
        return db.lastInsertedRowID
    }

    private mutating func lane(of job: NewJob) throws -> (queue: Int64, lane: Int64) {
        let key = LaneKey(
            queue: Bytes(job.queue), kind: Bytes(job.kind), scope: Bytes(job.scope), destination: job.destination.map(Bytes.init),
            version: job.version)
        if let known = lanes[key] { return known }
        let queue = try queue(job.queue)
        let lane: Int64? = try db.value(
            """
            SELECT id FROM main.reachable_lanes
            WHERE queue = ? AND kind = ? AND version = ? AND scope = ? AND destination IS ?
            """, queue, job.kind, job.version, job.scope, job.destination)
        if lane == nil {
            // A server's order holds for all lanes of its destination.
            try db.change(
                """
                INSERT INTO main.reachable_lanes (queue, kind, version, scope, destination, hold_until) VALUES (?1, ?2, ?3, ?4, ?5,
                (SELECT max(hold_until) FROM main.reachable_lanes WHERE queue = ?1 AND scope = ?4 AND destination IS ?5))
                """, queue, job.kind, job.version, job.scope, job.destination)
        }
        let numbers = (queue: queue, lane: lane ?? db.lastInsertedRowID)
        lanes[key] = numbers
        return numbers
    }

    func hold(_ lane: Int64, until end: StoreInstant) throws {
        try db.change(
            """
            UPDATE main.reachable_lanes SET hold_until = max(ifnull(hold_until, 0), ?1) FROM
            (SELECT queue AS q, scope AS s, destination AS d FROM main.reachable_lanes WHERE id = ?2)
            WHERE queue = q AND scope = s AND destination IS d
            """, end, lane)
    }

    mutating func pruneLanes(limit: Int) throws {
        try writeChanges()
        try db.change(
            """
            DELETE FROM main.reachable_lanes WHERE id IN (SELECT id FROM main.reachable_lanes INDEXED BY reachable_lanes_empty
            WHERE jobs = 0 AND ifnull(hold_until, 0) <= ? LIMIT ?)
            """, now, limit)
    }

    mutating func checkRoom(_ limit: Int?) throws {
        guard let limit else { return }
        let queues = queueChanges.keys
        try writeChanges()
        for queue in queues {
            let sql = "SELECT name FROM main.reachable_queues WHERE id = ? AND unfinished > ?"
            if let name: String = try db.value(sql, queue, limit) { throw JobStoreError.full(queue: name, limit: limit) }
        }
    }

    private mutating func writeChanges() throws {
        for (queue, number) in queueChanges where number != 0 {
            try db.change("UPDATE main.reachable_queues SET unfinished = unfinished + ? WHERE id = ?", number, queue)
        }
        for (lane, number) in laneChanges where number != 0 {
            try db.change("UPDATE main.reachable_lanes SET jobs = jobs + ? WHERE id = ?", number, lane)
        }
        (queueChanges, laneChanges) = ([:], [:])
    }

    // MARK: - Jobs

    /// Returns the jobs that a condition selects, without payloads and what their lanes say.
    func jobs<each Argument: ColumnValue>(_ condition: String, _ arguments: repeat each Argument) throws -> [SQLiteJob] {
        try db.rows("SELECT \(SQLiteJob.names) FROM main.reachable_jobs WHERE \(condition)", repeat each arguments) {
            try SQLiteJob(&$0)
        }
    }

    func job(_ id: DurableJobID) throws -> SQLiteJob? { try jobs("id = ?", id).first }

    func job(of ticket: JobTicket, by worker: Worker) throws -> SQLiteJob? {
        try jobs("id = ? AND worker = ? AND claim = ?", ticket.id, worker.id, ticket.claim).first
    }

    func wholeJob(_ position: Int64) throws -> SQLiteJob {
        let found = try db.row("\(SQLiteJob.wholeSelection) WHERE jobs.position = ?", position) { try SQLiteJob(whole: &$0) }
        guard let found else { throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "a job has no payload") }
        return found
    }

    func lastHolder(queue: Int64, kind: String, uniqueKey: String) throws -> SQLiteJob? {
        try jobs(
            """
            queue = ? AND kind = ? AND unique_key = ? AND \(SQLiteSchema.holdsUnique) AND is_cancel_requested = 0
            ORDER BY position DESC LIMIT 1
            """, queue, kind, uniqueKey
        ).first
    }

    mutating func push(_ jobs: [NewJob], limit: Int?) throws -> [PushReceipt] {
        if let error = JobStoreError.tooLarge(jobs) { throw error }
        let receipts = try jobs.map { try push($0) }
        try checkRoom(limit)
        return receipts
    }

    private mutating func push(_ job: NewJob) throws -> PushReceipt {
        var last: SQLiteJob?
        if let unique = job.unique {
            // A push that is repeated because its answer was lost changes nothing.
            if try self.job(job.id) != nil { return PushReceipt(id: job.id, outcome: .kept) }
            last = try lastHolder(queue: queue(job.queue), kind: job.kind, uniqueKey: unique.key)
        }
        switch (job.unique, last) {
        case (.keep, let last?):
            return PushReceipt(id: last.job.id, outcome: .kept)
        case (.replace, let last?) where !last.hasStarted:
            try replace(last, by: job)
            return PushReceipt(id: last.job.id, outcome: .replaced)
        default:
            let isAdded = try insert(job)
            return PushReceipt(id: job.id, outcome: !isAdded ? .kept : last == nil ? .added : .appended)
        }
    }

    private mutating func insert(_ job: NewJob) throws -> Bool {
        let (queue, lane) = try lane(of: job)
        // SQLite has one writer at a time, so that positions are in commit order.
        last.position += 1
        let new = DurableJob(job, position: last.position, now: now, created: moment.date)
        var stored = SQLiteJob(new, queue: queue, lane: lane)
        schedule(&stored)
        stored.job.isBlocked = try !blockers(of: stored).isEmpty
        guard try stored.insert(in: db) else { return false }
        try db.change("INSERT INTO main.reachable_payloads (position, payload) VALUES (?, ?)", new.position, job.payload)
        queueChanges[queue, default: 0] += 1
        laneChanges[lane, default: 0] += 1
        wakesWorkers = true
        return true
    }

    private mutating func replace(_ old: SQLiteJob, by job: NewJob) throws {
        // Without a worker: a claim that has not started ends.
        var new = try SQLiteJob(old.job.replaced(by: job, now: now), queue: old.queue, lane: lane(of: job).lane)
        new.claim = old.claim
        try db.change("UPDATE main.reachable_payloads SET payload = ? WHERE position = ?", job.payload, old.job.position)
        laneChanges[old.lane, default: 0] -= 1
        laneChanges[new.lane, default: 0] += 1
        try save(new, was: old)
        // It may have left a chain.
        try settle(followers(of: old))
    }

    mutating func change<Answer>(_ old: SQLiteJob, _ body: (inout SQLiteJob, StoreMoment) -> Answer) throws -> Answer {
        var new = old
        let answer = body(&new, moment)
        if new != old { try save(new, was: old) }
        return answer
    }

    /// Writes a changed job, and settles it and the next one of each of its chains.
    private mutating func save(_ changed: SQLiteJob, was old: SQLiteJob) throws {
        var new = changed
        schedule(&new)
        new.job.isBlocked = false
        try new.update(in: db)
        if new.job.state.isFinal != old.job.state.isFinal {
            queueChanges[new.queue, default: 0] += old.job.state.isFinal ? 1 : -1
        }
        if !new.job.state.isFinal { wakesWorkers = true }
        try settle([new] + followers(of: new))
    }

    private func schedule(_ stored: inout SQLiteJob) { stored.due = stored.job.heldUntil.flatMap { $0 > now ? $0 : nil } }

    mutating func prune(_ state: DurableJob.State, until end: StoreInstant, limit: Int) throws -> Int {
        // A failed job with followers stays: they wait for it.
        let deleted = try db.rows(
            """
            DELETE FROM main.reachable_jobs WHERE position IN (
                SELECT position FROM main.reachable_jobs AS old WHERE state > 1 AND state = ? AND ended <= ?
                AND NOT (state = 2 AND continues = 0 AND serial_key IS NOT NULL AND EXISTS (
                    SELECT 1 FROM main.reachable_jobs WHERE queue = old.queue AND serial_key = old.serial_key
                    AND \(SQLiteSchema.holdsSerial) AND state < 2 AND position > old.position))
                ORDER BY ended LIMIT ?)
            RETURNING position, lane
            """, state, end, limit
        ) { try (position: $0.next(Int64.self), lane: $0.next(Int64.self)) }
        for (position, lane) in deleted {
            try db.change("DELETE FROM main.reachable_payloads WHERE position = ?", position)
            laneChanges[lane, default: 0] -= 1
        }
        return deleted.count
    }

    // MARK: - Chains

    /// The statements for the jobs that run one after the other.
    ///
    /// ?1 is the queue, ?2 the kind, ?3 the key and ?4 the position of one of them.
    private struct Chain {
        let key: JobExplanation.Blocker.Key
        /// Selects the first other job that keeps others waiting.
        let other: String
        /// Selects the job for which this one waits: the first that holds its key, or one that runs.
        ///
        /// A job that is retried may come back before one that runs.
        let blocker: String

        init(_ key: JobExplanation.Blocker.Key, _ jobs: String, holds: String) {
            self.key = key
            let holders = "FROM main.reachable_jobs WHERE queue = ?1 AND \(jobs) = ?3 AND \(holds)"
            other = "SELECT \(SQLiteJob.names) \(holders) AND position <> ?4 ORDER BY position LIMIT 1"
            blocker = """
                SELECT id, state FROM (SELECT id, state \(holders) AND position < ?4 ORDER BY position LIMIT 1)
                UNION ALL SELECT id, state FROM main.reachable_jobs
                WHERE queue = ?1 AND \(jobs) = ?3 AND \(key)_key IS NOT NULL AND state = 1 AND position <> ?4 LIMIT 1
                """
        }

        static let serial = Chain(.serial, "serial_key", holds: SQLiteSchema.holdsSerial)
        static let unique = Chain(.unique, "kind = ?2 AND unique_key", holds: SQLiteSchema.holdsUnique)
    }

    private func chains(of stored: SQLiteJob) -> [(chain: Chain, key: String)] {
        [stored.job.serialKey.map { (.serial, $0) }, stored.job.uniqueKey.map { (.unique, $0) }].compactMap(\.self)
    }

    /// Returns the jobs for which an available one waits, of each chain.
    func blockers(of stored: SQLiteJob) throws -> [JobExplanation.Blocker] {
        try chains(of: stored).compactMap { chain, key in
            try db.row(chain.blocker, stored.queue, stored.job.kind, key, stored.job.position) { row in
                try JobExplanation.Blocker(id: row.next(), state: row.next(), key: chain.key)
            }
        }
    }

    /// Returns the first other job of each chain that holds it: only that one can begin to run, or have to wait.
    private func followers(of stored: SQLiteJob) throws -> [SQLiteJob] {
        try chains(of: stored).compactMap { chain, key in
            try db.row(chain.other, stored.queue, stored.job.kind, key, stored.job.position) { try SQLiteJob(&$0) }
        }
    }

    private mutating func settle(_ jobs: [SQLiteJob]) throws {
        for stored in jobs where stored.job.state == .available && (stored.job.serialKey ?? stored.job.uniqueKey) != nil {
            let isBlocked = try !blockers(of: stored).isEmpty
            let sql = "UPDATE main.reachable_jobs SET is_blocked = ?1 WHERE position = ?2 AND is_blocked <> ?1"
            if try db.change(sql, isBlocked, stored.job.position) > 0, !isBlocked { wakesWorkers = true }
        }
    }

    // MARK: - Workers

    struct Worker {
        let (id, queue): (WorkerID, Int64)
        let (node, bootID): (String, String)
        /// The last heartbeat, on CLOCK_MONOTONIC and on the store's clock.
        let (heartbeat, seen): (Int64, StoreInstant)

        static let columns = "number, reachable_workers.queue, node, boot_id, heartbeat, seen"

        init(_ row: inout ColumnReader) throws {
            (id, queue, node, bootID) = try (row.next(), row.next(), row.next(), row.next())
            (heartbeat, seen) = try (row.next(), row.next())
        }
    }

    /// Returns the reason why other workers may take a worker's jobs; `nil` while they may not.
    func end(of worker: Worker) -> WorkerEnd? {
        if worker.bootID != moment.bootID { return .leaseEnded }
        if locks.hasEnded(worker.id.rawValue) { return .crashed }
        return monotonic - worker.heartbeat >= StoreLease.duration.nanoseconds ? .leaseEnded : nil
    }

    /// Returns a worker, unless another one has taken its jobs, its process has ended, or the machine has rebooted.
    ///
    /// A heartbeat may come late.
    func worker(_ id: WorkerID) throws -> Worker? {
        try db.row("SELECT \(Worker.columns) FROM main.reachable_workers WHERE number = ?", id) { try Worker(&$0) }
            .flatMap { $0.bootID != moment.bootID || locks.hasEnded(id.rawValue) ? nil : $0 }
    }

    mutating func register(queue name: String, node: String) throws -> WorkerID {
        // A byte may be left over from a registration that was not committed.
        repeat { last.worker += 1 } while !locks.lock(last.worker)
        try db.change(
            "INSERT INTO main.reachable_workers (number, queue, node, boot_id, heartbeat, seen) VALUES (?, ?, ?, ?, ?, ?)",
            last.worker, queue(name), node, moment.bootID, monotonic, now)
        return WorkerID(rawValue: last.worker)
    }

    func allWorkers() throws -> [Worker] {
        try db.rows("SELECT \(Worker.columns) FROM main.reachable_workers") { try Worker(&$0) }
    }

    func cancelled(of worker: Worker) throws -> [JobTicket] {
        let sql = "SELECT id, claim FROM main.reachable_jobs WHERE worker = ? AND is_cancel_requested = 1"
        return try db.rows(sql, worker.id) { try JobTicket(id: $0.next(), claim: $0.next()) }
    }

    /// Frees the claims of other workers that have ended.
    mutating func sweep(but own: WorkerID?) throws {
        for worker in try allWorkers() where worker.id != own {
            if let end = end(of: worker) { try remove(worker.id, end) }
            // Of a machine that was restored from a snapshot: its lease runs on from now.
            if worker.heartbeat > monotonic {
                try db.change("UPDATE main.reachable_workers SET heartbeat = ? WHERE number = ?", monotonic, worker.id)
            }
        }
    }

    mutating func remove(_ worker: WorkerID, _ end: WorkerEnd) throws {
        guard try db.change("DELETE FROM main.reachable_workers WHERE number = ?", worker) > 0 else { return }
        for job in try jobs("worker = ?", worker) { try change(job) { $0.release(end, at: $1) } }
    }
}
#endif
