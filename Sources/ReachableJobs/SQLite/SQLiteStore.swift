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
/// try await database.write { db in
///     try photo.insert(db)
///     try store.push([upload], in: db)
/// }
/// ```
///
/// Pushes, results, cancellations, retries and pauses are on the disk when they return (`synchronous=FULL`). Claims, starts and
/// heartbeats survive the process, and may be lost with the machine.
///
/// Beside the database lies the file `<path>-workers`, by whose locks a worker's end is noticed at once.
///
/// After an error nothing has changed, and the store works again as soon as its cause is gone. Methods may be called from any
/// task; cancelling the task does not end them early.
public final class SQLiteStore: JobStore {
    /// The path of the database.
    public let path: String

    private let writer: any DatabaseWriter
    private let machine: SQLiteMachine
    private let locks: WorkerLocks
    private let feed: ChangeFeed
    private let storeExecutor = StoreExecutor()
    /// The connection that writes.
    private let connection: ObjectIdentifier
    /// True for a connection of the caller's that does not wait for locks.
    private let isImpatient: Bool
    /// The current value of `synchronous` of a connection of our own; `nil` for a caller's.
    private let synchronous: Mutex<Synchronous?>

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
    /// The database has to be a file on a local disk, and so has its journal. Its mode and its settings stay. The tables are no
    /// part of the caller's migrations, and nothing else should write them.
    ///
    /// While `PRAGMA synchronous` of the writer is OFF, changes throw ``JobStoreError/Code/unsynchronized``.
    ///
    /// - Throws: ``JobStoreError``.
    public convenience init(writer: any DatabaseWriter) throws(JobStoreError) {
        try self.init(writer: writer, machine: .kernel)
    }

    /// Opens a store on a machine whose clocks a test holds.
    package convenience init(path: String, machine: SQLiteMachine) throws(JobStoreError) {
        let file = SQLiteFile(path: Self.absolute(path))
        let isNew = try file.prepare(machine)
        do {
            if !isNew { try Self.inspect(file.path) }
            var configuration = Configuration()
            configuration.busyMode = .timeout(5)
            configuration.label = "reachability.jobs"
            configuration.maximumReaderCount = 2
            let pool = try DatabasePool(path: file.path, configuration: configuration)
            try self.init(pool, path: file.path, mode: 0o600, machine: machine, synchronous: .normal)
        } catch {
            throw JobStoreError(sqlite: error, path: file.path)
        }
    }

    /// Keeps the tables in a caller's database, on a machine whose clocks a test holds.
    package convenience init(writer: any DatabaseWriter, machine: SQLiteMachine) throws(JobStoreError) {
        let path = Self.absolute(writer.path)
        var info = stat()
        guard stat(path, &info) == 0, info.st_mode & S_IFMT == S_IFREG else {
            throw JobStoreError(
                .unsynchronized, "the database is not a file, and its jobs would not survive the process",
                next: "open a file, or use MemoryStore in tests")
        }
        try SQLiteFile.checkFileSystem(of: path, info.st_dev, machine)
        do {
            try self.init(writer, path: path, mode: info.st_mode & 0o666, machine: machine, synchronous: nil)
        } catch {
            throw JobStoreError(sqlite: error, path: path)
        }
    }

    private init(
        _ writer: any DatabaseWriter, path: String, mode: mode_t, machine: SQLiteMachine, synchronous: Synchronous?
    ) throws {
        let isOwn = synchronous != nil
        let isImpatient = if case .immediateError = writer.configuration.busyMode { !isOwn } else { false }
        self.isImpatient = isImpatient
        connection = try writer.writeWithoutTransaction { db in
            try Self.patiently(isImpatient, db) {
                try Self.checkJournal(db, path: path)
                try db.inTransaction(.immediate) {
                    try Self.prepareSchema(db, machine, path: path, isOwn: isOwn)
                    return .commit
                }
            }
            // GRDB sets NORMAL when it opens a database in WAL mode, later than `prepareDatabase`.
            if isOwn { try Synchronous.full.set(db) }
            return ObjectIdentifier(db)
        }
        locks = try WorkerLocks(path: path + "-workers", mode: mode)
        feed = ChangeFeed(path: path, writer: writer)
        self.synchronous = Mutex(isOwn ? .full : nil)
        (self.path, self.writer, self.machine) = (path, writer, machine)
    }

    deinit {
        feed.finish()
    }

    /// The descriptor whose locks prove that this process's workers live.
    ///
    /// A child process that inherits it proves so, too, until it ends: for work that outlives a killed worker for a moment.
    package var workerLock: Int32 { locks.descriptor }

    /// The executor whose tasks use the database on their own thread.
    ///
    /// ```swift
    /// Task(executorPreference: store.executor) {
    ///     for await photo in photos { try await queue.push(Upload(file: photo.file)) }
    /// }
    /// ```
    ///
    /// A change of the store costs such a task no switch of threads. For a task elsewhere two threads wake up, the database's and
    /// then the task's own: tens of microseconds for each change. The executor pays off for a task that stays there for several
    /// changes, or that has to wake up anyway.
    ///
    /// Jobs run one at a time, in order; a task that pushes in a loop lets waiting ones run between two pushes. The thread may wait
    /// for the disk, and for up to 5 s for a lock. The worker of a ``JobQueue`` changes the store here, and runs handlers
    /// elsewhere: a task that computes for long, or blocks, delays it. Reads run on threads of their own.
    ///
    /// A task with an actor's isolation runs here, too, unless the actor has an executor of its own, as the main actor has
    /// (SE-0417). A task may prefer the executor also when the store is gone. Never `nil`.
    public var executor: (any TaskExecutor)? { storeExecutor }

    // MARK: Jobs

    /// Adds jobs; see ``JobStore/push(_:limit:)``.
    public func push(_ jobs: [NewJob], limit: Int?) async throws(JobStoreError) -> [PushReceipt] {
        try await perform(.full) { try $0.push(jobs, limit: limit) }
    }

    /// Adds jobs within a transaction of the caller's: they are stored if it is committed, and vanish if it is rolled back.
    ///
    /// Workers hear of them after the commit. If this method throws, the transaction is as it was before.
    ///
    /// - Parameters:
    ///   - jobs: The jobs.
    ///   - limit: The most unfinished jobs of a queue; `nil` sets no limit.
    ///   - db: The connection of this store's writer, within a write.
    /// - Throws: ``JobStoreError/Code/otherDatabase`` for another connection; ``JobStoreError/Code/unsynchronized`` if
    ///   `PRAGMA synchronous` is below FULL, or below EXTRA in a database without WAL mode: GRDB sets NORMAL for databases in WAL
    ///   mode, so set it after opening; the errors of ``push(_:limit:)``.
    @discardableResult
    public func push(_ jobs: [NewJob], limit: Int? = nil, in db: Database) throws(JobStoreError) -> [PushReceipt] {
        guard ObjectIdentifier(db) == connection else {
            throw JobStoreError(
                .otherDatabase, "the transaction is not one of the writer of the store \(path)",
                next: "push within a write of the database that the store was made with")
        }
        do {
            guard try Synchronous.makesCommitsDurable(db) else {
                throw JobStoreError(
                    .unsynchronized,
                    "the database would lose commits in a power failure: `synchronous` is below FULL, or below EXTRA without a WAL",
                    next: "after opening it, execute `PRAGMA synchronous = EXTRA` with `writeWithoutTransaction`")
            }
            let isInTransaction = db.isInsideTransaction
            var receipts: [PushReceipt] = []
            try (isInTransaction ? Self.inSavepoint : Self.inTransaction)(db) {
                var transaction = try SQLiteTransaction(db, machine: machine, locks: locks)
                receipts = try transaction.push(jobs, limit: limit)
                try transaction.close(writesClock: true)
            }
            if isInTransaction {
                db.afterNextTransaction { [feed] _ in feed.notify() }
            } else {
                feed.notify()
            }
            return receipts
        } catch {
            throw JobStoreError(sqlite: error, path: path)
        }
    }

    /// Records results; see ``JobStore/finish(_:by:)``.
    public func finish(_ results: [AttemptResult], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        if results.isEmpty { return [] }
        return try await perform(.full) { try $0.finish(results, by: worker) }
    }

    /// Cancels jobs; see ``JobStore/cancel(_:)``.
    public func cancel(_ ids: [DurableJobID]) async throws(JobStoreError) -> [CancelOutcome] {
        if ids.isEmpty { return [] }
        return try await perform(.full) { transaction in try ids.map { try transaction.cancel($0) } }
    }

    /// Makes jobs available again; see ``JobStore/retry(_:)``.
    public func retry(_ ids: [DurableJobID]) async throws(JobStoreError) -> [Bool] {
        if ids.isEmpty { return [] }
        return try await perform(.full) { transaction in try ids.map { try transaction.retry($0) } }
    }

    /// Ends the backoff of jobs; see ``JobStore/endBackoff(_:)``.
    public func endBackoff(_ ids: [DurableJobID]) async throws(JobStoreError) -> [Bool] {
        if ids.isEmpty { return [] }
        return try await perform(.full) { transaction in try ids.map { try transaction.endBackoff($0) } }
    }

    /// Pauses or resumes a queue; see ``JobStore/setPaused(_:queue:)``.
    public func setPaused(_ isPaused: Bool, queue: String) async throws(JobStoreError) {
        try await perform(.full) { try $0.setPaused(isPaused, queue: queue) }
    }

    /// Deletes old jobs; see ``JobStore/prune(_:limit:)``.
    public func prune(_ retention: Retention, limit: Int) async throws(JobStoreError) -> Int {
        if limit <= 0 { return 0 }
        return try await perform(.normal) { try $0.prune(retention, limit: limit) }
    }

    // MARK: Workers

    /// Adds a worker; see ``JobStore/register(queue:node:)``.
    public func register(queue: String, node: String) async throws(JobStoreError) -> WorkerID {
        try await perform(.normal, writesClock: true) { try $0.register(queue: queue, node: node) }
    }

    /// Removes a worker; see ``JobStore/unregister(_:)``.
    public func unregister(_ worker: WorkerID) async throws(JobStoreError) {
        try await perform(.normal, writesClock: true) { try $0.unregister(worker) }
        locks.unlock(worker.rawValue)
    }

    /// Extends a lease; see ``JobStore/extend(_:)``.
    public func extend(_ worker: WorkerID) async throws(JobStoreError) -> WorkerStatus {
        guard let status = try await perform(.normal, writesClock: true, { try $0.extend(worker) }) else {
            locks.unlock(worker.rawValue)
            throw unknown(worker)
        }
        return status
    }

    /// Returns a worker's state; see ``JobStore/status(of:)``.
    public func status(of worker: WorkerID) async throws(JobStoreError) -> WorkerStatus {
        guard let status = try await perform(.normal, { try $0.status(of: worker) }) else { throw unknown(worker) }
        return status
    }

    /// Claims jobs; see ``JobStore/claim(_:)``.
    public func claim(_ request: ClaimRequest) async throws(JobStoreError) -> Claims {
        guard let claims = try await perform(.normal, { try $0.claim(request) }) else { throw unknown(request.worker) }
        return claims
    }

    /// Fails jobs whose deadline has passed; see ``JobStore/expire(queue:limit:)``.
    public func expire(queue: String, limit: Int) async throws(JobStoreError) -> ExpiredJobs {
        // Repeated after a power failure: the clock goes on.
        try await perform(.normal) { try $0.expire(queue: queue, limit: limit) }
    }

    /// Records starts; see ``JobStore/start(_:by:)``.
    public func start(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [Bool] {
        if tickets.isEmpty { return [] }
        return try await perform(.normal) { try $0.start(tickets, by: worker) }
    }

    /// Gives jobs back; see ``JobStore/giveBack(_:by:)``.
    @discardableResult
    public func giveBack(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        if tickets.isEmpty { return [] }
        return try await perform(.normal) { try $0.giveBack(tickets, by: worker) }
    }

    private func unknown(_ worker: WorkerID) -> JobStoreError {
        JobStoreError(
            .unknownWorker, "worker \(worker.rawValue) is not registered with the store \(path), or its lease has ended",
            next: "end its attempts, and register again")
    }

    /// Releases a worker's lock, as the end of its process would.
    package func abandon(_ worker: WorkerID) { locks.unlock(worker.rawValue) }

    // MARK: Reads

    /// Returns jobs by position; see ``JobStore/find(_:)``.
    public func find(_ filter: JobFilter) async throws(JobStoreError) -> [DurableJob] {
        try await read { try SQLiteQueries.find(filter, in: $0) }
    }

    /// Explains why jobs do not run; see ``JobStore/explain(_:)``.
    public func explain(_ ids: [DurableJobID]) async throws(JobStoreError) -> [JobStanding?] {
        if ids.isEmpty { return [] }
        return try await read { [machine, locks] in
            try SQLiteTransaction($0, machine: machine, locks: locks).explain(ids)
        }
    }

    /// Returns the workers; see ``JobStore/workers(of:)``.
    ///
    /// The process is known of those that this object has registered.
    public func workers(of queue: String?) async throws(JobStoreError) -> [RegisteredWorker] {
        try await read { [machine, locks] in
            try SQLiteTransaction($0, machine: machine, locks: locks).workers(of: queue)
        }
    }

    /// Counts jobs; see ``JobStore/count(queue:)``.
    ///
    /// Reads all jobs of the store, without making claims wait.
    public func count(queue: String) async throws(JobStoreError) -> [JobCount] {
        try await read { try SQLiteQueries.count(queue: queue, in: $0) }
    }

    /// Hints that there may be work; see ``JobStore/changes()``.
    ///
    /// Writes of other processes are noticed by inotify(7). If this user has no inotify instance left, only this store's own
    /// changes give hints.
    public func changes() -> AsyncStream<Void> { feed.stream() }

    // MARK: Transactions

    private func perform<T: Sendable>(
        _ level: Synchronous, writesClock: Bool = false, _ body: @escaping @Sendable (inout SQLiteTransaction) throws -> T
    ) async throws(JobStoreError) -> T {
        let writesClock = writesClock || level == .full
        // A loop of a task there never suspends otherwise.
        if storeExecutor.isCurrent, storeExecutor.hasWaitingJobs { await Task.yield() }
        if storeExecutor.isCurrent, let result = transactHere(level, writesClock: writesClock, body) { return try result.get() }
        // Not GRDB's asynchronous `write`: a cancelled task would interrupt it, and lose a result.
        let result: Result<T, JobStoreError> = await withCheckedContinuation { continuation in
            writer.asyncWriteWithoutTransaction { [self] db in
                continuation.resume(returning: transact(db, level, writesClock: writesClock, body))
            }
        }
        return try result.get()
    }

    /// Commits what the body writes, on the calling thread; returns `nil` within a transaction of the caller's.
    ///
    /// `Task.immediate` may begin an operation there, which has to wait for the transaction's end. For other methods than a
    /// reentrant one GRDB would end the process.
    private func transactHere<T>(
        _ level: Synchronous, writesClock: Bool, _ body: (inout SQLiteTransaction) throws -> T
    ) -> Result<T, JobStoreError>? {
        writer.unsafeReentrantWrite { db in
            db.isInsideTransaction ? nil : transact(db, level, writesClock: writesClock, body)
        }
    }

    private func transact<T>(
        _ db: Database, _ level: Synchronous, writesClock: Bool, _ body: (inout SQLiteTransaction) throws -> T
    ) -> Result<T, JobStoreError> {
        do {
            let old = try prepare(db, level)
            defer { if let old { try? db.execute(sql: "PRAGMA synchronous = \(old)") } }
            var (result, wakesWorkers): (T?, Bool) = (nil, false)
            try Self.patiently(isImpatient, db) {
                try Self.inTransaction(db) {
                    var transaction = try SQLiteTransaction(db, machine: machine, locks: locks)
                    result = try body(&transaction)
                    try transaction.close(writesClock: writesClock)
                    wakesWorkers = transaction.wakesWorkers
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

    /// Commits what the body writes, or nothing if it throws.
    ///
    /// GRDB's own transactions compile BEGIN and COMMIT each time.
    private static func inTransaction(_ db: Database, _ body: () throws -> Void) throws {
        try db.cachedStatement(sql: "BEGIN IMMEDIATE TRANSACTION").execute()
        do {
            try body()
            try db.cachedStatement(sql: "COMMIT TRANSACTION").execute()
        } catch {
            // SQLite may have rolled it back already.
            if db.isInsideTransaction { try? db.rollback() }
            throw error
        }
    }

    /// Adds what the body writes to the current transaction, or nothing if it throws.
    private static func inSavepoint(_ db: Database, _ body: () throws -> Void) throws {
        try db.cachedStatement(sql: "SAVEPOINT reachable_push").execute()
        do {
            try body()
        } catch {
            // SQLite may have rolled back the whole transaction.
            if db.isInsideTransaction {
                try? db.cachedStatement(sql: "ROLLBACK TRANSACTION TO SAVEPOINT reachable_push").execute()
                try? db.cachedStatement(sql: "RELEASE SAVEPOINT reachable_push").execute()
            }
            throw error
        }
        try db.cachedStatement(sql: "RELEASE SAVEPOINT reachable_push").execute()
    }

    /// Waits for locks for up to 5 s, also on a connection that does not.
    private static func patiently(_ isImpatient: Bool, _ db: Database, _ body: () throws -> Void) throws {
        guard isImpatient else { return try body() }
        try db.execute(sql: "PRAGMA busy_timeout = 5000")
        defer { try? db.execute(sql: "PRAGMA busy_timeout = 0") }
        try body()
    }

    /// Sets `synchronous`; returns the value to set again afterwards, on a connection of the caller's.
    private func prepare(_ db: Database, _ level: Synchronous) throws -> Int? {
        if let known = synchronous.withLock({ $0 }) {
            if known != level {
                // Without the check of `set`, which was made on opening.
                try db.execute(sql: "PRAGMA synchronous = \(level.rawValue)")
                synchronous.withLock { $0 = level }
            }
            return nil
        }
        let old = try Synchronous.current(of: db)
        guard old > 0 else {
            // Its checkpoints would overwrite the log before the database is on the disk.
            throw JobStoreError(
                .unsynchronized, "a power failure would damage the database, and so lose jobs: `synchronous` is OFF",
                next: "set it to NORMAL or more on the database's writer")
        }
        guard level == .full, try !Synchronous.makesCommitsDurable(db) else { return nil }
        try Synchronous.extra.set(db)
        return old
    }

    private func read<T: Sendable>(_ body: @escaping @Sendable (Database) throws -> T) async throws(JobStoreError) -> T {
        let path = path
        let result: Result<T, JobStoreError> = await withCheckedContinuation { continuation in
            writer.asyncRead { database in
                let result = Result { try body(database.get()) }
                continuation.resume(returning: result.mapError { JobStoreError(sqlite: $0, path: path) })
            }
        }
        return try result.get()
    }

    // MARK: Opening

    /// Returns an absolute path: the working directory may change later.
    private static func absolute(_ path: String) -> String {
        if path.isEmpty || path.hasPrefix("/") || path.hasPrefix(":") || path.hasPrefix("file:") { return path }
        guard let directory = getcwd(nil, 0) else { return path }
        defer { free(directory) }
        return String(cString: directory) + "/" + path
    }

    /// Refuses a database of another program or of a later version, before opening it for writing would change it.
    private static func inspect(_ path: String) throws {
        do {
            try inspect(path, readonly: true)
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_READONLY_ROLLBACK {
            // A process died while it created the store, or in another transaction with a rollback journal. Every program that
            // opens the database rolls that back.
            try inspect(path, readonly: false)
        }
    }

    private static func inspect(_ path: String, readonly: Bool) throws {
        var configuration = Configuration()
        configuration.readonly = readonly
        configuration.busyMode = .timeout(5)
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        _ = try queue.read { db in try checkTables(db, path: path) }
        try queue.close()
    }

    /// Returns true if the store's tables are there.
    @discardableResult
    private static func checkTables(_ db: Database, path: String) throws -> Bool {
        let sql = "SELECT count(*), count(*) FILTER (WHERE name = 'reachable_meta') FROM sqlite_master"
        guard let tables = try Row.fetchOne(db, sql: sql), tables[0] > 0 else { return false }
        guard tables[1] > 0 else {
            throw JobStoreError(
                .foreign, "\(path) is a database of another program",
                next: "name another file; or keep jobs in your own database with SQLiteStore(writer:)")
        }
        try checkVersion(Int64.fetchOne(db, sql: "SELECT schema FROM reachable_meta") ?? 0)
        return true
    }

    /// Refuses a database whose journal ends with the process.
    private static func checkJournal(_ db: Database, path: String) throws {
        let mode = try String.fetchOne(db, sql: "PRAGMA journal_mode") ?? ""
        guard ["memory", "off"].contains(mode) else { return }
        throw JobStoreError(
            .unsynchronized, "the end of a process would damage the database \(path): its journal_mode is \(mode)",
            next: "use WAL mode, for example with a DatabasePool")
    }

    /// Refuses tables of later versions.
    static func checkVersion(_ version: Int64) throws {
        guard version > SQLiteSchema.version else { return }
        throw JobStoreError(
            .newerSchema, "the store has version \(version), and this program knows versions up to \(SQLiteSchema.version)",
            next: "update this program")
    }

    private static func prepareSchema(_ db: Database, _ machine: SQLiteMachine, path: String, isOwn: Bool) throws {
        let exists =
            if isOwn { try checkTables(db, path: path) } else { try db.tableExists("reachable_meta") }
        if exists {
            return try checkVersion(Int64.fetchOne(db, sql: "SELECT schema FROM reachable_meta") ?? 0)
        }
        try SQLiteSchema.create(in: db)
        let clock = StoreClock(machine.reading())
        try db.execute(
            sql: "INSERT INTO reachable_meta (one, schema, boot_id, boot, newest_wall, instant) VALUES (1, ?, ?, ?, ?, ?)",
            arguments: [SQLiteSchema.version, clock.bootID, clock.boot, clock.newestWall, clock.instant])
    }
}

/// The values of `PRAGMA synchronous` that a store uses.
enum Synchronous: Int {
    /// A commit survives the process.
    case normal = 1
    /// A commit to the write-ahead log survives a power failure.
    case full = 2
    /// A commit with a rollback journal survives a power failure, too: it is the deletion of the journal, and no other level
    /// synchronizes the directory after it.
    case extra = 3

    /// Sets the value, outside of a transaction.
    // SQLite evaluates this pragma when it prepares the statement: a cached statement would do nothing.
    func set(_ db: Database) throws {
        try db.execute(sql: "PRAGMA synchronous = \(rawValue)")
        guard try Self.current(of: db) == rawValue else {
            throw JobStoreError(
                .unsynchronized, "SQLite did not change `synchronous`", next: "set it to FULL on the database's writer")
        }
    }

    /// Returns the current value.
    static func current(of db: Database) throws -> Int { Int(try value(of: "synchronous", db)) ?? 0 }

    /// Returns true if commits survive a power failure.
    static func makesCommitsDurable(_ db: Database) throws -> Bool {
        let level = try current(of: db)
        if level != full.rawValue { return level > full.rawValue }
        return try value(of: "journal_mode", db) != "delete"
    }

    /// Returns the value of a pragma.
    ///
    /// SQLite evaluates it when it compiles the statement, so that none can be kept; GRDB's statements take longer to make.
    private static func value(of pragma: String, _ db: Database) throws -> String {
        var statement: SQLiteStatement?
        defer { sqlite3_finalize(statement) }
        var code = sqlite3_prepare_v2(db.sqliteConnection, "PRAGMA \(pragma)", -1, &statement, nil)
        if code == SQLITE_OK { code = sqlite3_step(statement) }
        guard code == SQLITE_ROW, let text = sqlite3_column_text(statement, 0) else {
            throw DatabaseError(resultCode: ResultCode(rawValue: code))
        }
        return String(cString: text)
    }
}
#endif
