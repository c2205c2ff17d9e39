#if SQLite
internal import GRDB

/// The tables of a store.
///
/// All names begin with `reachable_`, because a store may live in a database of its caller's. All statements name the schema
/// `main`: a caller may have attached the file of another store.
enum SQLiteSchema {
    /// The steps from one version to the next, the first from 1 to 2; new stores begin with the newest.
    ///
    /// Not GRDB's `DatabaseMigrator`: its table `grdb_migrations` is that of the caller's own migrations.
    static let migrations: [String] = []
    /// The version of the tables; a store refuses later ones.
    static var version: Int { migrations.count + 1 }

    /// Creates the tables, or changes those of an older version, within a transaction.
    static func prepare(_ db: Database, _ machine: SQLiteMachine, migrations: [String] = migrations) throws {
        if let stored = try storedVersion(db) {
            try check(stored)
            for step in migrations.dropFirst(max(0, stored - 1)) { try db.execute(sql: step) }
            try db.change("UPDATE main.reachable_meta SET schema = ?1 WHERE schema < ?1", migrations.count + 1)
            return
        }
        try db.execute(sql: tables + indexes)
        let clock = StoreClock(machine.reading())
        try db.change(
            "INSERT INTO main.reachable_meta (schema, boot_id, boot, newest_wall, instant) VALUES (?, ?, ?, ?, ?)",
            version, clock.bootID, clock.boot, clock.newestWall, clock.instant)
    }

    static func storedVersion(_ db: Database) throws -> Int? {
        guard try db.tableExists("reachable_meta", in: "main") else { return nil }
        return try Int.fetchOne(db, sql: "SELECT schema FROM main.reachable_meta")
    }

    static func refuseForeignTables(_ db: Database, path: String) throws {
        if let stored = try storedVersion(db) { return try check(stored) }
        guard try Int.fetchOne(db, sql: "SELECT 1 FROM main.sqlite_master") == nil else {
            throw JobStoreError(
                .foreign, "\(path) is a database of another program",
                next: "name another file; or keep jobs in your own database with SQLiteStore(writer:)")
        }
    }

    static func check(_ stored: Int) throws(JobStoreError) {
        guard stored > version else { return }
        throw JobStoreError(
            .newerSchema, "the store has version \(stored), and this program knows versions up to \(version)",
            next: "update this program")
    }

    /// The condition under which a job holds back followers with its serial key.
    static let holdsSerial = "serial_key IS NOT NULL AND (state < 2 OR (state = 2 AND continues = 0))"
    /// The condition under which a job holds back followers with its unique key.
    static let holdsUnique = "unique_key IS NOT NULL AND state < 2"
    static let isOpen = "state = 0 AND is_blocked = 0"

    private static let tables = """
        CREATE TABLE main.reachable_meta (
            one INTEGER PRIMARY KEY DEFAULT 1 CHECK (one = 1),
            schema INTEGER NOT NULL,
            boot_id TEXT NOT NULL, boot INTEGER NOT NULL, newest_wall INTEGER NOT NULL, instant INTEGER NOT NULL,
            last_position INTEGER NOT NULL DEFAULT 0,
            last_worker INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        CREATE TABLE main.reachable_queues (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            is_paused INTEGER NOT NULL DEFAULT 0,
            unfinished INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        -- jobs is the number of its jobs, ended ones included.
        CREATE TABLE main.reachable_lanes (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            queue INTEGER NOT NULL,
            kind TEXT NOT NULL, version INTEGER NOT NULL, scope TEXT NOT NULL, destination TEXT,
            hold_until INTEGER,
            jobs INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        -- heartbeat is a time of CLOCK_MONOTONIC, and seen the same instant on the store's clock.
        CREATE TABLE main.reachable_workers (
            number INTEGER PRIMARY KEY,
            queue INTEGER NOT NULL, node TEXT NOT NULL,
            boot_id TEXT NOT NULL, heartbeat INTEGER NOT NULL, seen INTEGER NOT NULL
        ) STRICT;
        CREATE TABLE main.reachable_jobs (\(SQLiteJob.definitions)) STRICT;
        -- Apart from the job, so that its changes do not write a large payload again.
        CREATE TABLE main.reachable_payloads (
            position INTEGER PRIMARY KEY,
            payload BLOB NOT NULL
        ) STRICT;

        """

    // The query planner has no statistics: each query repeats the terms of its partial index.
    private static let indexes = """
        CREATE INDEX main.reachable_lanes_name ON reachable_lanes (queue, kind, version, scope, destination);
        CREATE INDEX main.reachable_lanes_empty ON reachable_lanes (ifnull(hold_until, 0)) WHERE jobs = 0;
        CREATE INDEX main.reachable_claimable ON reachable_jobs (lane, priority, position) WHERE \(isOpen) AND due IS NULL;
        CREATE INDEX main.reachable_delayed ON reachable_jobs (lane, due) WHERE \(isOpen) AND due IS NOT NULL;
        CREATE INDEX main.reachable_avoided ON reachable_jobs (lane) WHERE \(isOpen) AND avoided_by IS NOT NULL;
        CREATE INDEX main.reachable_running ON reachable_jobs (worker) WHERE worker IS NOT NULL;
        CREATE INDEX main.reachable_serial ON reachable_jobs (queue, serial_key, position) WHERE \(holdsSerial);
        CREATE INDEX main.reachable_unique ON reachable_jobs (queue, kind, unique_key, position) WHERE \(holdsUnique);
        CREATE INDEX main.reachable_serial_runs ON reachable_jobs (queue, serial_key) WHERE serial_key IS NOT NULL AND state = 1;
        CREATE INDEX main.reachable_unique_runs ON reachable_jobs (queue, kind, unique_key)
            WHERE unique_key IS NOT NULL AND state = 1;
        CREATE INDEX main.reachable_deadline ON reachable_jobs (queue, deadline) WHERE deadline IS NOT NULL AND state = 0;
        CREATE INDEX main.reachable_ended ON reachable_jobs (state, ended) WHERE state > 1;
        """
}
#endif
