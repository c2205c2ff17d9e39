#if SQLite
internal import GRDB

/// The tables of a store, and the numbers that they hold for enumerations.
///
/// All names begin with `reachable_`, because a store may live in a database of its caller's.
enum SQLiteSchema {
    /// The version of the tables; a store refuses later ones.
    static let version: Int64 = 1

    /// The numbers of ``DurableJob/State`` in the column `state`; indexes name them.
    static let states: [DurableJob.State] = [.available, .running, .failed, .succeeded, .cancelled]

    /// Returns the number of a state.
    static func number(of state: DurableJob.State) -> Int64 {
        switch state {
        case .available: 0
        case .running: 1
        case .failed: 2
        case .succeeded: 3
        case .cancelled: 4
        }
    }

    /// The condition under which a job holds back followers with its serial key.
    static let holdsSerial = "serial_key IS NOT NULL AND (state < 2 OR (state = 2 AND continues = 0))"
    /// The condition under which a job holds back followers with its unique key.
    static let holdsUnique = "unique_key IS NOT NULL AND state < 2"

    /// The end of the delays that no reconnect voids; 0 if there is none.
    static let firmDelay = "max(ifnull(not_before, 0), ifnull(hard_until, 0), iif(soft_network, 0, ifnull(soft_until, 0)))"

    /// The new value of `outage` of a job that no worker has: null unless it is ready, or held back only by a network failure or
    /// from the workers that cannot decode it.
    ///
    /// `?1` is the store's time.
    static let outage = """
        CASE WHEN state <> 0 OR is_blocked OR \(firmDelay) > ?1 THEN NULL
        WHEN soft_network AND soft_until > ?1 THEN soft_outage ELSE ifnull(undecodable, 0) END
        """

    /// The new value of `due`: the time at which to look at `outage` again.
    static let due = """
        CASE WHEN state <> 0 OR is_blocked THEN NULL WHEN \(firmDelay) > ?1 THEN \(firmDelay)
        WHEN soft_network AND soft_until > ?1 THEN soft_until ELSE NULL END
        """

    /// The new value of `age`.
    ///
    /// The runnable time of a bulk job, or while it is ready, the reading of its lane's clock `?2` at which that time was 0. Both
    /// directions are one subtraction.
    static let age = "iif(rank = 2 AND ((\(outage)) IS 0) <> (outage IS 0), ?2 - age, age)"

    /// Places a job in the index that its state and delays call for.
    static let schedule = "UPDATE reachable_jobs SET outage = \(outage), due = \(due), age = \(age)"

    /// Creates the tables.
    static func create(in db: Database) throws {
        try db.execute(sql: tables)
        try db.execute(sql: indexes)
    }

    private static let tables = """
        CREATE TABLE reachable_meta (
            one INTEGER PRIMARY KEY CHECK (one = 1),
            schema INTEGER NOT NULL,
            boot_id TEXT NOT NULL, boot INTEGER NOT NULL, newest_wall INTEGER NOT NULL, instant INTEGER NOT NULL,
            last_position INTEGER NOT NULL DEFAULT 0,
            last_worker INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        CREATE TABLE reachable_queues (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            is_paused INTEGER NOT NULL DEFAULT 0,
            unfinished INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        -- open_since is the time from which the worker open_by has named the lane in its claims; open_time is the time before.
        -- jobs is the number of its jobs, ended ones included.
        CREATE TABLE reachable_lanes (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            queue INTEGER NOT NULL,
            kind TEXT NOT NULL, version INTEGER NOT NULL, scope TEXT NOT NULL, destination TEXT,
            hold_until INTEGER,
            open_time INTEGER NOT NULL DEFAULT 0, open_since INTEGER, open_by INTEGER,
            jobs INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        -- Network failures of one lane and node between two reconnects: a reconnect voids the delays of a whole group, without
        -- a write to its jobs. A group without a node binds all nodes, and one with workers, by their numbers, also these, which
        -- could not decode its jobs. Only these are bound by a group without a first failure.
        CREATE TABLE reachable_outages (
            lane INTEGER NOT NULL, number INTEGER NOT NULL,
            node TEXT, workers TEXT,
            first INTEGER, last INTEGER, last_until INTEGER NOT NULL,
            is_closed INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (lane, number)
        ) STRICT, WITHOUT ROWID;
        -- heartbeat is a time of CLOCK_MONOTONIC, and seen the same instant on the store's clock.
        CREATE TABLE reachable_workers (
            number INTEGER PRIMARY KEY,
            queue INTEGER NOT NULL, node TEXT NOT NULL,
            boot_id TEXT NOT NULL, heartbeat INTEGER NOT NULL, seen INTEGER NOT NULL
        ) STRICT;
        -- rank is 0 for interactive jobs, 1 for normal and 2 for bulk ones; it changes when a job has waited for long.
        -- outage is 0 for ready jobs, the group for those that only a network failure delays or that some workers cannot decode,
        -- and null for all others. undecodable is the group of the workers that could not decode the job.
        CREATE TABLE reachable_jobs (
            position INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            queue INTEGER NOT NULL, lane INTEGER NOT NULL, kind TEXT NOT NULL,
            state INTEGER NOT NULL DEFAULT 0,
            priority INTEGER NOT NULL, rank INTEGER NOT NULL,
            outage INTEGER, undecodable INTEGER, due INTEGER, age INTEGER NOT NULL DEFAULT 0,
            is_blocked INTEGER NOT NULL DEFAULT 0,
            worker INTEGER, claim INTEGER NOT NULL DEFAULT 0,
            is_started INTEGER NOT NULL DEFAULT 0, is_cancel_requested INTEGER NOT NULL DEFAULT 0,
            not_before INTEGER, deadline INTEGER,
            soft_until INTEGER, soft_since INTEGER, soft_network INTEGER NOT NULL DEFAULT 0, soft_outage INTEGER,
            hard_until INTEGER,
            unique_key TEXT, serial_key TEXT,
            continues INTEGER NOT NULL, is_repeatable INTEGER NOT NULL,
            idempotency_key TEXT, trace TEXT,
            started INTEGER NOT NULL DEFAULT 0, charged INTEGER NOT NULL DEFAULT 0,
            network_failures INTEGER NOT NULL DEFAULT 0, failure_index INTEGER NOT NULL DEFAULT 0,
            crashes INTEGER NOT NULL DEFAULT 0, has_unknown_outcome INTEGER NOT NULL DEFAULT 0,
            last_error TEXT, failure_reason TEXT,
            created INTEGER NOT NULL, ended INTEGER, finished INTEGER
        ) STRICT;
        -- Apart from the job, so that its changes do not write a large payload again.
        CREATE TABLE reachable_payloads (
            position INTEGER PRIMARY KEY,
            payload BLOB NOT NULL
        ) STRICT;
        """

    // A blocked, running or ended job is in none of the first four. The query planner has no statistics: each query of these names
    // the index's own terms.
    private static let indexes = """
        CREATE INDEX reachable_lanes_name ON reachable_lanes (queue, kind, version, scope, destination);
        CREATE INDEX reachable_lanes_open ON reachable_lanes (open_by) WHERE open_by IS NOT NULL;
        CREATE INDEX reachable_lanes_empty ON reachable_lanes (ifnull(hold_until, 0)) WHERE jobs = 0;
        CREATE INDEX reachable_ready ON reachable_jobs (lane, outage, rank, position) WHERE outage IS NOT NULL;
        CREATE INDEX reachable_delayed ON reachable_jobs (lane, rank, due) WHERE due IS NOT NULL AND outage IS NULL;
        CREATE INDEX reachable_cut_off ON reachable_jobs (lane, outage, due) WHERE outage <> 0;
        CREATE INDEX reachable_undecodable ON reachable_jobs (lane, undecodable) WHERE undecodable IS NOT NULL AND state < 2;
        CREATE INDEX reachable_bulk ON reachable_jobs (lane, age) WHERE rank = 2 AND outage = 0;
        CREATE INDEX reachable_running ON reachable_jobs (worker) WHERE worker IS NOT NULL;
        CREATE INDEX reachable_serial ON reachable_jobs (queue, serial_key, position) WHERE \(holdsSerial);
        CREATE INDEX reachable_unique ON reachable_jobs (queue, kind, unique_key, position) WHERE \(holdsUnique);
        CREATE INDEX reachable_serial_runs ON reachable_jobs (queue, serial_key) WHERE serial_key IS NOT NULL AND state = 1;
        CREATE INDEX reachable_unique_runs ON reachable_jobs (queue, kind, unique_key) WHERE unique_key IS NOT NULL AND state = 1;
        CREATE INDEX reachable_deadline ON reachable_jobs (queue, deadline) WHERE deadline IS NOT NULL AND state = 0;
        CREATE INDEX reachable_ended ON reachable_jobs (state, ended) WHERE state > 1;
        """
}
#endif
