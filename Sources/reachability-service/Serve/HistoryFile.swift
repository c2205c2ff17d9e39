#if SQLite
import CommandKit
import FoundationEssentials
import GRDB
import Glibc
import Reachability

/// The history in a SQLite file of its own, which one service writes and others may read meanwhile.
final class HistoryFile: HistoryStorage {
    /// "RWhy", as `file` shows it.
    private static let applicationID: Int32 = 0x5257_6879
    /// Version 2 added `losses`.
    private static let version = 2

    let path: String
    private let pool: DatabasePool
    /// The descriptor whose lock says that a service writes the file.
    private let lock: Int32
    private let run: Int64

    /// Opens or creates the file `history.db` in a directory, and begins a run.
    ///
    /// A missing directory is created with mode 0700, files with mode 0600.
    ///
    /// - Parameter started: The time of the service's start, since 1970.
    init(directory: String, started: Duration) throws(CommandFailure) {
        let path = "\(directory)/history.db"
        Self.create(directory)
        let lock = try Self.takeLock(path)
        do {
            try Self.checkOwner(path)
            try Self.inspect(path)
            var configuration = Configuration()
            configuration.busyMode = .timeout(5)
            configuration.label = "reachability.history"
            // One for a reader of the page, one for another.
            configuration.maximumReaderCount = 2
            pool = try DatabasePool(path: path, configuration: configuration)
            run = try pool.write { db in
                if try !Self.checkTables(db, path) { try db.execute(sql: Self.schema) }
                if try Int.fetchOne(db, sql: "PRAGMA user_version") == 1 { try db.execute(sql: Self.addingLosses) }
                let time = Self.nanoseconds(started)
                try db.execute(sql: "INSERT INTO runs (started, alive) VALUES (?, ?)", arguments: [time, time])
                return db.lastInsertedRowID
            }
        } catch {
            FileLock.close(lock)
            throw error as? CommandFailure ?? Self.failure(error, path)
        }
        (self.path, self.lock) = (path, lock)
    }

    deinit { FileLock.close(lock) }

    // MARK: - HistoryStorage

    func write(_ observations: [Observation], alive: Duration, isEnd: Bool) async throws {
        let (run, path, time) = (run, path, Self.nanoseconds(alive))
        do {
            try await pool.write { db in
                for observation in observations { try Self.insert(observation, run, db) }
                try db.execute(
                    sql: "UPDATE runs SET alive = max(alive, ?1), ended = ifnull(?2, ended) WHERE id = ?3",
                    arguments: [time, isEnd ? time : nil, run])
            }
        } catch {
            throw Self.failure(error, path)
        }
    }

    func prune(before time: Duration, keeping count: Int) async throws {
        let limit = Self.nanoseconds(time)
        // In batches: a write of the service waits for no longer than one of them.
        while true {
            let removed = try await pool.write { db in
                try db.execute(
                    sql: """
                        DELETE FROM observations WHERE id IN (
                            SELECT id FROM observations AS old WHERE
                            (time < ?1 AND EXISTS (
                                SELECT 1 FROM observations WHERE scope = old.scope AND time < ?1 AND id > old.id))
                            OR id <= (SELECT max(id) FROM observations) - ?2
                            LIMIT 1000)
                        """, arguments: [limit, count])
                return db.changesCount
            }
            if removed == 0 { break }
        }
        let run = run
        try await pool.write { db in
            try db.execute(
                sql: """
                    DELETE FROM runs WHERE alive < ?1 AND id <> ?2
                    AND NOT EXISTS (SELECT 1 FROM observations WHERE run = runs.id)
                    """, arguments: [limit, run])
        }
    }

    func reduce<Result: Sendable>(
        into initial: Result, from start: Duration, of scopes: [String],
        _ update: @escaping @Sendable (inout Result, Observation) -> Void
    ) async throws -> Result {
        let (limit, present) = (Self.nanoseconds(start), run)
        return try await pool.read { db in
            var result = initial
            try Self.read(from: limit, of: scopes, except: present, db) { update(&result, $0) }
            return result
        }
    }

    // MARK: - Reading

    /// Returns the observations in a directory, while a service may write them; opens the file for reading only.
    ///
    /// - Parameter start: The time from which on all are returned, with the last one of each scope before it; `nil` for all.
    static func observations(in directory: String, from start: Duration?) throws(CommandFailure) -> [Observation] {
        let path = "\(directory)/history.db"
        do {
            guard access(path, R_OK) == 0 else {
                throw CommandFailure(
                    .noInput, "there is no history \(quotation(path)): \(errorText(errno)); next: name the directory of a service")
            }
            return try inspecting(path) { db in
                guard try checkTables(db, path) else { return [] }
                let scopes = try String.fetchAll(db, sql: "SELECT DISTINCT scope FROM observations ORDER BY scope")
                var found: [Observation] = []
                // No limit of time is before 1970.
                if !scopes.isEmpty { try read(from: start.map(nanoseconds) ?? 0, of: scopes, except: nil, db) { found.append($0) } }
                return found
            }
        } catch {
            throw error as? CommandFailure ?? failure(error, path, verb: "read")
        }
    }

    private static func read(
        from limit: Int64, of scopes: [String], except present: Int64?, _ db: Database, _ body: (Observation) -> Void
    ) throws {
        let names = repeatElement("?", count: scopes.count).joined(separator: ", ")
        let last = scopes.map { _ in "ifnull((SELECT max(id) FROM observations WHERE scope = ? AND time < ?), 0)" }
        // One scope's last observation before the time may be older than another's.
        let first = last.count > 1 ? "min(\(last.joined(separator: ", ")))" : last.joined()
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT observations.*, ifnull(runs.ended, runs.alive) AS until FROM observations JOIN runs ON runs.id = run
                WHERE observations.id >= \(first) AND scope IN (\(names)) ORDER BY observations.id
                """,
            arguments: StatementArguments(scopes.flatMap { [$0.databaseValue, limit.databaseValue] })
                + StatementArguments(scopes))
        var previous: (run: Int64, end: Observation)?
        while let row = try rows.next() {
            let run: Int64 = row["run"]
            if let previous, previous.run != run { body(previous.end) }
            previous = (run, .end(at: .nanoseconds(row["until"] as Int64)))
            body(observation(row))
        }
        if let previous, previous.run != present { body(previous.end) }
    }

    private static func insert(_ observation: Observation, _ run: Int64, _ db: Database) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO observations (run, kind, time, since_boot, scope, status, reason, interface, kinds, cause_kind,
                    cause_detail, flap_penalty, sequence, losses) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """
        ).execute(arguments: [
            run, observation.kind.rawValue, nanoseconds(observation.time), observation.sinceBoot.map(nanoseconds),
            observation.scope, observation.status.rawValue, observation.reason, observation.interface,
            observation.kinds.joined(separator: " "), observation.causeKind, observation.causeDetail, observation.flapPenalty,
            observation.sequence.map { Int64(clamping: $0) }, observation.losses,
        ])
    }

    private static func observation(_ row: Row) -> Observation {
        let kinds: String = row["kinds"]
        return Observation(
            kind: Observation.Kind(rawValue: row["kind"]) ?? .transition, time: .nanoseconds(row["time"] as Int64),
            sinceBoot: (row["since_boot"] as Int64?).map { .nanoseconds($0) }, scope: row["scope"],
            status: NetworkPath.Status(rawValue: row["status"]) ?? .unknown, reason: row["reason"], interface: row["interface"],
            kinds: kinds.split(separator: " ").map(String.init), causeKind: row["cause_kind"], causeDetail: row["cause_detail"],
            flapPenalty: row["flap_penalty"], losses: row["losses"],
            sequence: (row["sequence"] as Int64?).map { UInt64(clamping: $0) })
    }

    private static func nanoseconds(_ time: Duration) -> Int64 { Int64(clamping: time.attoseconds / 1_000_000_000) }

    // MARK: - Opening

    /// Refuses a file of another program or version, before opening it for writing changes it.
    private static func inspect(_ path: String) throws {
        guard access(path, F_OK) == 0 else { return }
        _ = try inspecting(path) { db in try checkTables(db, path) }
    }

    /// Reads a file that stays as it is.
    private static func inspecting<Value>(_ path: String, _ body: (Database) throws -> Value) throws -> Value {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(5)
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        let value = try queue.read(body)
        try queue.close()
        return value
    }

    /// Returns true if the tables are there.
    private static func checkTables(_ db: Database, _ path: String) throws -> Bool {
        let application = try Int32.fetchOne(db, sql: "PRAGMA application_id") ?? 0
        let tables = try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_master") ?? 0
        guard tables > 0 else { return false }
        guard application == applicationID else {
            throw CommandFailure(
                .invalidData, "\(quotation(path)) is a database of another program; next: name another directory with --history")
        }
        let found = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
        guard found <= version else {
            throw CommandFailure(
                .invalidData,
                "\(quotation(path)) has version \(found), and this program knows versions up to \(version); next: update it")
        }
        return true
    }

    /// Times are nanoseconds since 1970, or since boot.
    private static let schema = """
        PRAGMA application_id = \(applicationID);
        PRAGMA user_version = \(version);
        CREATE TABLE runs (
            id INTEGER PRIMARY KEY,
            started INTEGER NOT NULL, alive INTEGER NOT NULL, ended INTEGER
        ) STRICT;
        CREATE TABLE observations (
            id INTEGER PRIMARY KEY,
            run INTEGER NOT NULL REFERENCES runs (id),
            kind TEXT NOT NULL, time INTEGER NOT NULL, since_boot INTEGER,
            scope TEXT NOT NULL, status TEXT NOT NULL, reason TEXT, interface TEXT,
            kinds TEXT NOT NULL, cause_kind TEXT, cause_detail TEXT, flap_penalty REAL, sequence INTEGER,
            losses INTEGER
        ) STRICT;
        CREATE INDEX observations_by_scope ON observations (scope, time);
        CREATE INDEX observations_by_run ON observations (run);
        """

    private static let addingLosses = """
        ALTER TABLE observations ADD COLUMN losses INTEGER;
        PRAGMA user_version = 2;
        """

    /// Creates a directory and those above it (mkdir -p); errors show themselves at the file.
    private static func create(_ directory: String) {
        var path = directory.hasPrefix("/") ? "" : "."
        for part in directory.split(separator: "/") {
            path += "/\(part)"
            mkdir(path, 0o700)
        }
    }

    /// Takes the lock of a service, which ends with the process.
    private static func takeLock(_ path: String) throws(CommandFailure) -> Int32 {
        let file = path + "-lock"
        let descriptor = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw CommandFailure(
                .cannotCreate,
                "\(quotation(file)) cannot be created: \(errorText(errno)); next: name a directory of yours with --history, or none"
            )
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            close(descriptor)
            throw CommandFailure(
                .cannotCreate,
                "another service writes the history \(quotation(path)); next: stop it, or name another directory with --history, "
                    + "or none")
        }
        return descriptor
    }

    /// Refuses a file that is not this user's, or that others may write.
    private static func checkOwner(_ path: String) throws(CommandFailure) {
        var info = stat()
        guard lstat(path, &info) == 0 else { return }
        guard info.st_mode & S_IFMT == S_IFREG, info.st_uid == geteuid(), info.st_mode & 0o022 == 0 else {
            throw CommandFailure(
                .notPermitted,
                "\(quotation(path)) belongs to another user, is no file, or others may write it; next: name another directory with "
                    + "--history")
        }
    }

    private static func failure(_ error: any Error, _ path: String, verb: String = "written") -> CommandFailure {
        let code = (error as? DatabaseError)?.resultCode
        let reason = (error as? DatabaseError)?.message ?? "\(error)"
        let (status, next): (ExitStatus, String) =
            switch code {
            case .SQLITE_FULL: (.outputFailed, "free some space on its disk")
            case .SQLITE_NOTADB: (.invalidData, "name another directory with --history")
            case .SQLITE_CORRUPT: (.invalidData, "move it away: a new one is created")
            case .SQLITE_READONLY, .SQLITE_CANTOPEN, .SQLITE_PERM: (.cannotCreate, "check the permissions of its directory")
            default: (.outputFailed, "check the disk and the kernel's log")
            }
        return CommandFailure(status, "the history \(quotation(path)) cannot be \(verb): \(reason); next: \(next)")
    }
}
#endif
