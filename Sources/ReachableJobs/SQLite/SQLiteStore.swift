#if SQLite
internal import FoundationEssentials
public import GRDB
internal import GRDBSQLite
internal import Glibc
internal import Synchronization

/// Keeps durable jobs in a SQLite database, for all processes of one machine.
///
/// With a path, the store has a file of its own, readable and writable by its user only. With a writer, it keeps tables named
/// `reachable_…` in the caller's database, so that a job is pushed in the transaction of the change that it belongs to:
///
/// ```swift
/// let queue = JobQueue(try SQLiteStore(writer: database), bus: bus)
/// try await database.write { db in
///     try photo.insert(db)
///     try queue.push(Upload(file: photo.file), in: db)
/// }
/// ```
///
/// Pushes, results, cancellations, retries, pauses, and starts of attempts that must not be repeated are on the disk when they
/// return (`synchronous=FULL`). Claims, other starts and heartbeats survive the process, and may be lost with the machine.
///
/// Beside the database lies the file `<path>-workers`, by whose locks a worker's end is noticed at once.
///
/// After an error nothing has changed, and the store works again as soon as its cause is gone. Methods may be called from any
/// task; cancelling the task does not end them early.
public final class SQLiteStore: Sendable {
    /// The path of the database.
    public let path: String

    private let writer: any DatabaseWriter
    let machine: SQLiteMachine
    let locks: WorkerLocks
    let feed: ChangeFeed
    private let storeExecutor = BlockingExecutor()
    private let connection: ObjectIdentifier
    let isOwn: Bool
    /// The value of `PRAGMA synchronous` that a store has set in a file of its own; 0 at first.
    private let level = Mutex(0)

    /// Opens a store in a file of its own, and creates it if it is missing.
    ///
    /// A missing directory is created with mode 0700, the file with mode 0600. Waits for up to 5 s while another process has the
    /// file locked.
    ///
    /// - Throws: ``JobStoreError``: also for a file of another user, one that other users may write, one on a network file system,
    ///   a database of another program, and one with a newer schema. Such files are not changed.
    public convenience init(path: String) throws(JobStoreError) {
        try self.init(path: path, machine: .kernel)
    }

    /// Keeps the store's tables in the caller's own database, and creates them if they are missing.
    ///
    /// The database has to be a file on a local disk, and so has its journal. Its mode and its settings stay. The tables are those
    /// of the schema `main`. They are no part of the caller's migrations, and nothing else should write them.
    ///
    /// While `PRAGMA synchronous` of the writer is OFF, changes throw ``JobStoreError/Code/unsynchronized``.
    ///
    /// - Warning: A `DatabaseMigrator` whose `eraseDatabaseOnSchemaChange` is true finds tables that it does not know, and erases
    ///   the database with all jobs at each launch. Keep jobs in a file of their own while you develop with it.
    ///
    /// - Throws: ``JobStoreError``: also for tables of a newer version.
    public convenience init(writer: any DatabaseWriter) throws(JobStoreError) {
        try self.init(writer: writer, machine: .kernel)
    }

    package convenience init(path: String, machine: SQLiteMachine) throws(JobStoreError) {
        let file = SQLiteFile(path: Self.absolute(path))
        let isNew = try file.prepare(machine)
        try self.init(path: file.path, mode: 0o600, machine: machine, isOwn: true) {
            var configuration = Configuration()
            configuration.busyMode = .timeout(5)
            configuration.label = "reachability.jobs"
            configuration.maximumReaderCount = 2
            // Before WAL mode writes the first page: a foreign file stays as it is, and a new one can shrink.
            configuration.prepareDatabase { db in
                if db.configuration.readonly { return }
                if isNew { try db.execute(sql: "PRAGMA main.auto_vacuum = INCREMENTAL") }
                try SQLiteSchema.refuseForeignTables(db, path: file.path)
            }
            return try DatabasePool(path: file.path, configuration: configuration)
        }
    }

    package convenience init(writer: any DatabaseWriter, machine: SQLiteMachine) throws(JobStoreError) {
        let path = Self.absolute(writer.path)
        var info = stat()
        guard stat(path, &info) == 0, info.st_mode & S_IFMT == S_IFREG else {
            throw JobStoreError(
                .unsynchronized, "the database is not a file, and its jobs would not survive the process",
                next: "open a file, or use MemoryStore in tests")
        }
        try SQLiteFile.checkFileSystem(of: path, info.st_dev, machine)
        try self.init(path: path, mode: info.st_mode & 0o666, machine: machine, isOwn: false) { writer }
    }

    private init(
        path: String, mode: mode_t, machine: SQLiteMachine, isOwn: Bool, _ open: () throws -> any DatabaseWriter
    ) throws(JobStoreError) {
        do {
            let writer = try open()
            connection = try writer.writeWithoutTransaction { db in
                try Self.patiently(db) {
                    try db.checkJournal(path: path)
                    try db.inTransaction(.immediate) {
                        try SQLiteSchema.prepare(db, machine)
                        return .commit
                    }
                }
                return ObjectIdentifier(db)
            }
            locks = try WorkerLocks(database: path, mode: mode)
            feed = ChangeFeed(path: path, writer: writer)
            (self.path, self.writer, self.machine, self.isOwn) = (path, writer, machine, isOwn)
        } catch {
            throw JobStoreError(sqlite: error, path: path)
        }
    }

    deinit {
        feed.finish()
    }

    /// Returns an absolute path: the working directory may change later.
    private static func absolute(_ path: String) -> String {
        path.hasPrefix("/") ? path : FileManager.default.currentDirectoryPath + "/" + path
    }

    /// The descriptor whose locks prove that this process's workers live.
    ///
    /// A child process that inherits it proves so, too, until it ends: for work that outlives a killed worker for a moment.
    package var workerLock: Int32 { locks.descriptor }

    /// The executor whose tasks use the database on their own thread; never `nil`.
    ///
    /// ```swift
    /// Task(executorPreference: store.executor) {
    ///     for await photo in photos { try await queue.push(Upload(file: photo.file)) }
    /// }
    /// ```
    ///
    /// A change of the store costs such a task no switch of threads; for a task elsewhere two threads wake up, tens of
    /// microseconds for each change. Jobs run one at a time, in order, and the thread may wait for the disk, and for up to 5 s for
    /// a lock. The worker of a ``JobQueue`` changes the store here, and runs handlers elsewhere: a task that computes for long, or
    /// blocks, delays it. A task may prefer the executor also when the store is gone.
    public var executor: (any TaskExecutor)? { storeExecutor }

    // MARK: - Transactions

    /// Writes in a transaction.
    ///
    /// - Parameter isDurable: True if the changes survive a power failure, and not only the end of the process.
    func perform<T: Sendable>(
        isDurable: Bool = false, _ body: @escaping @Sendable (inout SQLiteTransaction) throws -> T
    ) async throws(JobStoreError) -> T {
        // A loop of a task there never suspends otherwise.
        if storeExecutor.isCurrent, storeExecutor.hasWaitingJobs { await Task.yield() }
        if storeExecutor.isCurrent {
            // `Task.immediate` may begin an operation within a transaction of the caller's, and it has to wait for the end of that.
            // For other methods than a reentrant one GRDB would end the process.
            let result = writer.unsafeReentrantWrite { db in db.isInsideTransaction ? nil : transact(db, isDurable, body) }
            if let result { return try result.get() }
        }
        // Not GRDB's asynchronous `write`: a cancelled task would interrupt it, and lose a result.
        let result: Result<T, JobStoreError> = await withCheckedContinuation { continuation in
            writer.asyncWriteWithoutTransaction { [self] db in continuation.resume(returning: transact(db, isDurable, body)) }
        }
        return try result.get()
    }

    private func transact<T>(
        _ db: Database, _ isDurable: Bool, _ body: (inout SQLiteTransaction) throws -> T
    ) -> Result<T, JobStoreError> {
        do {
            let old = try setSynchronous(db, isDurable)
            defer { if let old { _ = try? db.pragma("synchronous = \(old)") } }
            var (result, wakesWorkers): (T?, Bool) = (nil, false)
            try Self.patiently(db) {
                try db.inTransaction(.immediate) {
                    var transaction = try SQLiteTransaction(db, machine: machine, locks: locks, writesClock: isDurable)
                    result = try body(&transaction)
                    try transaction.close()
                    wakesWorkers = transaction.wakesWorkers
                    return .commit
                }
            }
            guard let result else { throw DatabaseError(resultCode: .SQLITE_INTERNAL) }
            if wakesWorkers { feed.notify() }
            return .success(result)
        } catch {
            // Damaged pages stay in the cache, also when the file has been repaired.
            if (error as? DatabaseError)?.resultCode == .SQLITE_CORRUPT { try? db.execute(sql: "PRAGMA shrink_memory") }
            return .failure(JobStoreError(sqlite: error, path: path))
        }
    }

    @discardableResult
    package func push(_ jobs: [NewJob], limit: Int? = nil, in db: Database) throws(JobStoreError) -> [PushReceipt] {
        guard ObjectIdentifier(db) == connection else {
            throw JobStoreError(
                .otherDatabase, "the transaction is not one of the writer of the store \(path)",
                next: "push within a write of the database that the store was made with")
        }
        do {
            guard try db.keepsCommits(at: db.synchronous()) else {
                throw JobStoreError(
                    .unsynchronized,
                    "the database would lose commits in a power failure: `synchronous` is below FULL, or below EXTRA without a WAL",
                    next: "after opening it, execute `PRAGMA synchronous = EXTRA` with `writeWithoutTransaction`")
            }
            var receipts: [PushReceipt] = []
            // A transaction if there is none.
            try db.inSavepoint {
                var transaction = try SQLiteTransaction(db, machine: machine, locks: locks, writesClock: true)
                receipts = try transaction.push(jobs, limit: limit)
                try transaction.close()
                return .commit
            }
            if db.isInsideTransaction {
                db.afterNextTransaction { [feed] _ in feed.notify() }
            } else {
                feed.notify()
            }
            return receipts
        } catch {
            throw JobStoreError(sqlite: error, path: path)
        }
    }

    /// Reads in a transaction, on a connection that no claim waits for.
    func read<T: Sendable>(_ body: @escaping @Sendable (SQLiteTransaction) throws -> T) async throws(JobStoreError) -> T {
        let result: Result<T, JobStoreError> = await withCheckedContinuation { continuation in
            writer.asyncRead { [path, machine, locks] database in
                let result = Result { try body(SQLiteTransaction(database.get(), machine: machine, locks: locks)) }
                continuation.resume(returning: result.mapError { JobStoreError(sqlite: $0, path: path) })
            }
        }
        return try result.get()
    }

    /// Waits for locks for up to 5 s, also on a connection of the caller's that does not.
    private static func patiently(_ db: Database, _ body: () throws -> Void) throws {
        guard case .immediateError = db.configuration.busyMode else { return try body() }
        try db.execute(sql: "PRAGMA busy_timeout = 5000")
        defer { try? db.execute(sql: "PRAGMA busy_timeout = 0") }
        try body()
    }

    /// Sets `synchronous`; returns the value to set again afterwards, on a connection of the caller's.
    private func setSynchronous(_ db: Database, _ isDurable: Bool) throws -> Int? {
        let old = try isOwn ? level.withLock { $0 } : db.synchronous()
        guard isOwn || old > 0 else {
            // Its checkpoints would overwrite the log before the database is on the disk.
            throw JobStoreError(
                .unsynchronized, "a power failure would damage the database, and so lose jobs: `synchronous` is OFF",
                next: "set it to NORMAL or more on the database's writer")
        }
        let new = if isOwn { isDurable ? 2 : 1 } else { try isDurable && !db.keepsCommits(at: old) ? 3 : old }
        if new == old { return nil }
        _ = try db.pragma("synchronous = \(new)")
        guard isOwn else { return old }
        level.withLock { $0 = new }
        return nil
    }
}

extension Database {
    /// Returns the value of `PRAGMA synchronous`: OFF, NORMAL, FULL or EXTRA, from 0 on.
    fileprivate func synchronous() throws -> Int { Int(try pragma("synchronous") ?? "") ?? 0 }

    /// Returns true if commits survive a power failure with a value of `PRAGMA synchronous`.
    ///
    /// With a rollback journal, a commit is its deletion, and only EXTRA synchronizes the directory after it.
    fileprivate func keepsCommits(at level: Int) throws -> Bool {
        try level > 2 || level == 2 && pragma("journal_mode") != "delete"
    }

    fileprivate func checkJournal(path: String) throws {
        let mode = try pragma("journal_mode") ?? ""
        guard ["memory", "off"].contains(mode) else { return }
        throw JobStoreError(
            .unsynchronized, "the end of a process would damage the database \(path): its journal_mode is \(mode)",
            next: "use WAL mode, for example with a DatabasePool")
    }

    /// Executes a pragma, and returns its value.
    ///
    /// SQLite evaluates it when it compiles the statement, so that none can be kept; GRDB's statements take longer to make.
    fileprivate func pragma(_ text: String) throws -> String? {
        var statement: SQLiteStatement?
        defer { sqlite3_finalize(statement) }
        var code = sqlite3_prepare_v2(sqliteConnection, "PRAGMA main.\(text)", -1, &statement, nil)
        if code == SQLITE_OK { code = sqlite3_step(statement) }
        guard code == SQLITE_ROW || code == SQLITE_DONE else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
        return sqlite3_column_text(statement, 0).map { String(cString: $0) }
    }
}
#endif
