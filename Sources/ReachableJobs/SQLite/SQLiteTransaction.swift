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
    private var lanes: [LaneKey: Int64] = [:]
    private var queues: [String: Int64] = [:]
    /// The changes of the lanes' numbers of jobs.
    private var laneChanges: [Int64: Int] = [:]
    /// The statements of a new job, and of its payload.
    var insertStatements: (Statement, Statement)?

    struct LaneKey: Hashable {
        var queue: Int64
        var kind: String
        var version: Int
        var scope: String
        var destination: String?
    }

    init(_ db: Database, machine: SQLiteMachine, locks: WorkerLocks) throws {
        (self.db, self.locks) = (db, locks)
        (reading, monotonic) = (machine.reading(), machine.monotonic())
        let statement = try db.cachedStatement(
            sql: "SELECT boot_id, boot, newest_wall, instant, last_position, last_worker, schema FROM reachable_meta")
        guard let row = try SQLiteRow.first(of: statement) else { throw DatabaseError(resultCode: .SQLITE_CORRUPT) }
        try SQLiteStore.checkVersion(row[6])
        var clock = StoreClock(bootID: row[0], boot: row[1], newestWall: row[2], instant: row[3])
        isNewBoot = !clock.isSameBoot(reading)
        now = clock.advance(to: reading)
        self.clock = clock
        (lastPosition, lastWorker) = (row[4], row[5])
        oldNumbers = [lastPosition, lastWorker]
    }

    /// Writes the clock and the numbers before the commit.
    ///
    /// The first transaction of a boot always writes the clock: until then, a step of the wall clock would move the store's time.
    mutating func close(writesClock: Bool) throws {
        try writeLaneChanges()
        guard writesClock || isNewBoot || oldNumbers != [lastPosition, lastWorker] else { return }
        try execute(
            "UPDATE reachable_meta SET boot_id = ?, boot = ?, newest_wall = ?, instant = ?, last_position = ?, last_worker = ?",
            clock.bootID, clock.boot, clock.newestWall, clock.instant, lastPosition, lastWorker)
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

    // MARK: Statements

    /// Executes a statement, and returns the number of rows that it changed.
    @discardableResult
    func execute<each Value: StatementBinding>(_ sql: String, _ values: repeat each Value) throws -> Int {
        let statement = try db.cachedStatement(sql: sql)
        try statement.bind(repeat each values)
        try statement.execute()
        return db.changesCount
    }

    /// Returns the first row.
    func row<each Value: StatementBinding>(_ sql: String, _ values: repeat each Value) throws -> SQLiteRow? {
        let statement = try db.cachedStatement(sql: sql)
        try statement.bind(repeat each values)
        return try SQLiteRow.first(of: statement)
    }

    /// Returns all rows.
    func rows<each Value: StatementBinding>(_ sql: String, _ values: repeat each Value) throws -> [SQLiteRow] {
        let statement = try db.cachedStatement(sql: sql)
        try statement.bind(repeat each values)
        return try SQLiteRow.fetchAll(statement)
    }

    /// Returns true if there is a row.
    func exists<each Value: StatementBinding>(_ sql: String, _ values: repeat each Value) throws -> Bool {
        try row(sql, repeat each values) != nil
    }

    // MARK: Queues and lanes

    /// Returns the number of a queue; `nil` if nothing named it yet.
    mutating func existingQueue(_ name: String) throws -> Int64? {
        if let known = queues[name] { return known }
        let id: Int64? = try row("SELECT id FROM reachable_queues WHERE name = ?", StoredText.stored(name))?[0]
        if let id { queues[name] = id }
        return id
    }

    /// Returns the number of a queue, and adds it if it is new.
    mutating func queue(_ name: String) throws -> Int64 {
        if let known = try existingQueue(name) { return known }
        try execute("INSERT INTO reachable_queues (name) VALUES (?)", StoredText.stored(name))
        queues[name] = db.lastInsertedRowID
        return db.lastInsertedRowID
    }

    /// Changes the number of a queue's unfinished jobs, and returns the new one.
    @discardableResult
    func addUnfinished(_ number: Int, queue: Int64) throws -> Int64 {
        let sql = "UPDATE reachable_queues SET unfinished = unfinished + ? WHERE id = ? RETURNING unfinished"
        return number == 0 ? 0 : try row(sql, number, queue)?[0] ?? 0
    }

    /// Returns the number of a lane, and adds it if it is new.
    mutating func lane(_ key: LaneKey) throws -> Int64 {
        if let known = lanes[key] { return known }
        let found = try row(
            """
            SELECT id FROM reachable_lanes
            WHERE queue = ? AND kind = ? AND version = ? AND scope = ? AND destination IS ?
            """, key.queue, key.kind, key.version, key.scope, key.destination)
        let id: Int64
        if let found {
            id = found[0]
        } else {
            // A server's order holds for all lanes of its destination.
            try execute(
                """
                INSERT INTO reachable_lanes (queue, kind, version, scope, destination, hold_until) VALUES (?1, ?2, ?3, ?4, ?5,
                (SELECT max(hold_until) FROM reachable_lanes WHERE queue = ?1 AND scope = ?4 AND destination IS ?5))
                """, key.queue, key.kind, key.version, key.scope, key.destination)
            id = db.lastInsertedRowID
        }
        lanes[key] = id
        return id
    }

    /// Changes the number of a lane's jobs, at the end of the transaction.
    mutating func addJobs(_ number: Int, lane: Int64) { laneChanges[lane, default: 0] += number }

    /// Writes the numbers of the lanes' jobs.
    mutating func writeLaneChanges() throws {
        for (lane, number) in laneChanges where number != 0 {
            try execute("UPDATE reachable_lanes SET jobs = jobs + ? WHERE id = ?", number, lane)
        }
        laneChanges = [:]
    }

    /// Returns the reading of a lane's clock, which runs while the lane is open in claims.
    func laneClock(_ lane: Int64) throws -> Int64 {
        try row("SELECT open_time, open_since, open_by FROM reachable_lanes WHERE id = ?", lane)
            .map { SQLiteLaneClock(openTime: $0[0], openSince: $0[1], openBy: $0[2]).reading(at: now) } ?? 0
    }

    /// Places a job in the index that its state and delays call for.
    func schedule(_ position: Int64, lane: Int64) throws {
        try execute(SQLiteSchema.schedule + " WHERE position = ?3", now.nanoseconds, laneClock(lane), position)
    }

    // MARK: Chains

    /// The keys of a job, by which it waits for others.
    struct Keys {
        var position: Int64
        var lane: Int64
        var queue: Int64
        var kind: String
        var serial: String?
        var unique: String?

        /// The columns that ``init(_:)`` reads.
        static let columns = "position, lane, queue, kind, serial_key, unique_key"

        init(_ row: SQLiteRow) {
            (position, lane, queue, kind, serial, unique) = (row[0], row[1], row[2], row[3], row[4], row[5])
        }

        var isEmpty: Bool { serial == nil && unique == nil }
    }

    /// Unblocks and blocks the jobs that a change of a job with keys concerns: itself, and the first other one of each chain.
    ///
    /// A job waits while an earlier one holds its key, and while any other runs: a retried job may come back before a running one.
    mutating func settle(_ keys: Keys) throws {
        guard !keys.isEmpty else { return }
        var concerned = [keys]
        if let serial = keys.serial {
            let sql = first("queue = ? AND serial_key = ? AND \(SQLiteSchema.holdsSerial)")
            concerned += try rows(sql, keys.queue, serial, keys.position).map(Keys.init)
        }
        if let unique = keys.unique {
            let sql = first("queue = ? AND kind = ? AND unique_key = ? AND \(SQLiteSchema.holdsUnique)")
            concerned += try rows(sql, keys.queue, keys.kind, unique, keys.position).map(Keys.init)
        }
        for keys in concerned {
            let isBlocked = try isBlocked(keys)
            let changed = try execute(
                "UPDATE reachable_jobs SET is_blocked = ?1 WHERE position = ?2 AND state = 0 AND is_blocked <> ?1",
                isBlocked, keys.position)
            guard changed > 0 else { continue }
            try schedule(keys.position, lane: keys.lane)
            if !isBlocked { wakesWorkers = true }
        }
    }

    /// Selects the first job of a chain but one.
    private func first(_ condition: String) -> String {
        "SELECT \(Keys.columns) FROM reachable_jobs WHERE \(condition) AND position <> ? ORDER BY position LIMIT 1"
    }

    /// Returns true if an available job has to wait for another one with its keys.
    func isBlocked(_ keys: Keys) throws -> Bool {
        if let serial = keys.serial {
            let sql = "SELECT 1 FROM reachable_jobs WHERE queue = ? AND serial_key = ?"
            if try exists("\(sql) AND position < ? AND \(SQLiteSchema.holdsSerial) LIMIT 1", keys.queue, serial, keys.position)
                || exists(
                    "\(sql) AND position <> ? AND serial_key IS NOT NULL AND state = 1 LIMIT 1", keys.queue, serial, keys.position)
            {
                return true
            }
        }
        if let unique = keys.unique {
            let sql = "SELECT 1 FROM reachable_jobs WHERE queue = ? AND kind = ? AND unique_key = ?"
            if try exists(
                "\(sql) AND position < ? AND \(SQLiteSchema.holdsUnique) LIMIT 1", keys.queue, keys.kind, unique, keys.position)
                || exists(
                    "\(sql) AND position <> ? AND unique_key IS NOT NULL AND state = 1 LIMIT 1", keys.queue, keys.kind, unique,
                    keys.position)
            {
                return true
            }
        }
        return false
    }
}

/// The time for which a lane was open in claims, by which bulk jobs age.
///
/// A lane is open from a claim that names it to the same worker's next claim that does not, or that worker's end. With several
/// workers the one that opened it counts, so that time is counted at most once.
struct SQLiteLaneClock {
    /// An hour: the runnable time that makes a bulk job a normal one.
    static let age: Int64 = 3_600_000_000_000

    var openTime: Int64
    var openSince: Int64?
    var openBy: Int64?

    /// The reading at an instant.
    func reading(at now: StoreInstant) -> Int64 { openTime + (openSince.map { max(0, now.nanoseconds - $0) } ?? 0) }
}
#endif
