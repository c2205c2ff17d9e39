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
    private let storeExecutor = BlockingExecutor()
    /// The connection that writes.
    private let connection: ObjectIdentifier
    /// True for a file of our own.
    private let isOwn: Bool
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

    /// Opens a store on a machine whose clocks a test holds.
    package convenience init(path: String, machine: SQLiteMachine) throws(JobStoreError) {
        let file = SQLiteFile(path: Self.absolute(path))
        let isNew = try file.prepare(machine)
        do {
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
            let pool = try DatabasePool(path: file.path, configuration: configuration)
            try self.init(pool, path: file.path, mode: 0o600, machine: machine, isOwn: true)
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
            try self.init(writer, path: path, mode: info.st_mode & 0o666, machine: machine, isOwn: false)
        } catch {
            throw JobStoreError(sqlite: error, path: path)
        }
    }

    private init(
        _ writer: any DatabaseWriter, path: String, mode: mode_t, machine: SQLiteMachine, isOwn: Bool
    ) throws {
        connection = try writer.writeWithoutTransaction { db in
            try Self.patiently(db) {
                try Synchronous.checkJournal(db, path: path)
                try db.inTransaction(.immediate) {
                    // Another program may have been faster.
                    if isOwn { try SQLiteSchema.refuseForeignTables(db, path: path) }
                    try SQLiteSchema.prepare(db, machine)
                    return .commit
                }
            }
            return ObjectIdentifier(db)
        }
        locks = try WorkerLocks(database: path, mode: mode)
        feed = ChangeFeed(path: path, writer: writer)
        (self.path, self.writer, self.machine, self.isOwn) = (path, writer, machine, isOwn)
    }

    deinit {
        feed.finish()
    }

    /// Returns an absolute path: the working directory may change later.
    private static func absolute(_ path: String) -> String {
        if path.isEmpty || path.hasPrefix("/") || path.hasPrefix(":") || path.hasPrefix("file:") { return path }
        guard let directory = getcwd(nil, 0) else { return path }
        defer { free(directory) }
        return String(cString: directory) + "/" + path
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

    // MARK: - Jobs

    /// Adds jobs; see ``JobStore/push(_:limit:)``.
    package func push(_ jobs: [NewJob], limit: Int?) async throws(JobStoreError) -> [PushReceipt] {
        try await perform(.durable) { try $0.push(jobs, limit: limit) }
    }

    /// Adds jobs within a transaction of the caller's; see ``JobQueue/push(_:unique:in:)``.
    @discardableResult
    package func push(_ jobs: [NewJob], limit: Int? = nil, in db: Database) throws(JobStoreError) -> [PushReceipt] {
        guard ObjectIdentifier(db) == connection else {
            throw JobStoreError(
                .otherDatabase, "the transaction is not one of the writer of the store \(path)",
                next: "push within a write of the database that the store was made with")
        }
        do {
            guard try Synchronous.keepsCommits(db) else {
                throw JobStoreError(
                    .unsynchronized,
                    "the database would lose commits in a power failure: `synchronous` is below FULL, or below EXTRA without a WAL",
                    next: "after opening it, execute `PRAGMA synchronous = EXTRA` with `writeWithoutTransaction`")
            }
            var receipts: [PushReceipt] = []
            // A transaction if there is none.
            try db.inSavepoint {
                var transaction = try SQLiteTransaction(db, machine: machine, locks: locks)
                receipts = try transaction.push(jobs, limit: limit)
                try transaction.close(writesClock: true)
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

    /// Records results; see ``JobStore/finish(_:by:)``.
    package func finish(_ results: [AttemptResult], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        try await perform(.durable) { transaction in
            guard let worker = try transaction.worker(worker) else { return results.map { _ in .refused } }
            return try results.map { try transaction.finish($0, by: worker) }
        }
    }

    /// Cancels jobs; see ``JobStore/cancel(_:)``.
    package func cancel(_ ids: [DurableJobID]) async throws(JobStoreError) -> [CancelOutcome] {
        try await perform(.durable) { transaction in try ids.map { try transaction.cancel($0) } }
    }

    /// Makes jobs available again; see ``JobStore/retry(_:limit:)``.
    package func retry(_ ids: [DurableJobID], limit: Int?) async throws(JobStoreError) -> [RetryOutcome] {
        try await perform(.durable) { try $0.retry(ids, limit: limit) }
    }

    /// Ends the backoff of jobs; see ``JobStore/endBackoff(_:)``.
    package func endBackoff(_ ids: [DurableJobID]) async throws(JobStoreError) -> [Bool] {
        try await perform(.durable) { transaction in try ids.map { try transaction.endBackoff($0) } }
    }

    /// Pauses or resumes a queue; see ``JobStore/setPaused(_:queue:)``.
    package func setPaused(_ isPaused: Bool, queue: String) async throws(JobStoreError) {
        try await perform(.durable) { try $0.setPaused(isPaused, queue: queue) }
    }

    /// Fails jobs whose deadline has passed; see ``JobStore/expire(queue:limit:)``.
    package func expire(queue: String, limit: Int) async throws(JobStoreError) -> ExpiredJobs {
        // Repeated after a power failure: the clock goes on.
        try await perform { try $0.expire(queue: queue, limit: limit) }
    }

    /// Deletes old jobs; see ``JobStore/prune(_:limit:)``.
    package func prune(_ retention: Retention, limit: Int) async throws(JobStoreError) -> Int {
        if limit <= 0 { return 0 }
        return try await perform { [isOwn] transaction in
            let count = try transaction.prune(retention, limit: limit)
            // 4 MiB: a claim must not wait long. Without free pages this writes nothing.
            if isOwn { try transaction.db.execute(sql: "PRAGMA main.incremental_vacuum(1024)") }
            return count
        }
    }

    // MARK: - Workers

    /// Adds a worker; see ``JobStore/register(queue:node:)``.
    package func register(queue: String, node: String) async throws(JobStoreError) -> WorkerID {
        try await perform(.withClock) { try $0.register(queue: queue, node: node) }
    }

    /// Removes a worker; see ``JobStore/unregister(_:)``.
    package func unregister(_ worker: WorkerID) async throws(JobStoreError) {
        try await perform(.withClock) { try $0.unregister(worker) }
        locks.unlock(worker.rawValue)
    }

    /// Extends a lease; see ``JobStore/extend(_:)``.
    package func extend(_ worker: WorkerID) async throws(JobStoreError) -> WorkerStatus {
        guard let status = try await perform(.withClock, { try $0.extend(worker) }) else {
            locks.unlock(worker.rawValue)
            throw .unknown(worker)
        }
        return status
    }

    /// Returns a worker's state; see ``JobStore/status(of:)``.
    package func status(of worker: WorkerID) async throws(JobStoreError) -> WorkerStatus {
        guard let status = try await perform(.simple, { try $0.status(of: worker) }) else { throw .unknown(worker) }
        return status
    }

    /// Claims jobs; see ``JobStore/claim(_:)``.
    package func claim(_ request: ClaimRequest) async throws(JobStoreError) -> Claims {
        guard let claims = try await perform(.simple, { try $0.claim(request) }) else { throw .unknown(request.worker) }
        return claims
    }

    /// Records starts; see ``JobStore/start(_:by:)``.
    package func start(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [Bool] {
        try await perform { transaction in
            guard let worker = try transaction.worker(worker) else { return tickets.map { _ in false } }
            return try tickets.map { try transaction.start($0, by: worker) }
        }
    }

    /// Gives jobs back; see ``JobStore/giveBack(_:by:)``.
    @discardableResult
    package func giveBack(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        try await perform { transaction in
            guard let worker = try transaction.worker(worker) else { return tickets.map { _ in .refused } }
            return try tickets.map { try transaction.giveBack($0, by: worker) }
        }
    }

    /// Releases a worker's lock, as the end of its process would.
    package func abandon(_ worker: WorkerID) { locks.unlock(worker.rawValue) }

    /// The time of this machine's boot clock; see ``JobStore/nodeTime``.
    package var nodeTime: Int64 { machine.reading().boot }

    // MARK: - Reads

    /// Returns jobs by position; see ``JobStore/find(_:)``.
    package func find(_ filter: JobFilter) async throws(JobStoreError) -> [DurableJob] {
        try await read { try $0.find(filter) }
    }

    /// Explains why jobs do not run; see ``JobStore/explain(_:)``.
    package func explain(_ ids: [DurableJobID]) async throws(JobStoreError) -> [JobExplanation?] {
        try await read { try $0.explain(ids) }
    }

    /// Returns the workers; see ``JobStore/workers(of:)``.
    ///
    /// The process is known of those that this object has registered.
    package func workers(of queue: String?) async throws(JobStoreError) -> [RegisteredWorker] {
        try await read { try $0.workers(of: queue) }
    }

    /// Counts jobs; see ``JobStore/count(queue:)``.
    ///
    /// Reads all jobs of the store, without making claims wait.
    package func count(queue: String) async throws(JobStoreError) -> [JobCount] {
        try await read { try $0.count(queue: queue) }
    }

    /// Hints that there may be work; see ``JobStore/changes()``.
    ///
    /// Writes and ends of other processes are noticed by inotify(7). If this user has no inotify instance left, only this store's
    /// own changes give hints.
    package func changes() -> AsyncStream<Void> { feed.stream() }

    // MARK: - Transactions

    /// The changes that a transaction keeps.
    private enum Change {
        /// Survives the end of the process.
        case simple
        /// Moves the stored clock, too.
        case withClock
        /// Survives a power failure, and moves the clock.
        case durable
    }

    private func perform<T: Sendable>(
        _ change: Change = .simple, _ body: @escaping @Sendable (inout SQLiteTransaction) throws -> T
    ) async throws(JobStoreError) -> T {
        // A loop of a task there never suspends otherwise.
        if storeExecutor.isCurrent, storeExecutor.hasWaitingJobs { await Task.yield() }
        if storeExecutor.isCurrent, let result = transactHere(change, body) { return try result.get() }
        // Not GRDB's asynchronous `write`: a cancelled task would interrupt it, and lose a result.
        let result: Result<T, JobStoreError> = await withCheckedContinuation { continuation in
            writer.asyncWriteWithoutTransaction { [self] db in continuation.resume(returning: transact(db, change, body)) }
        }
        return try result.get()
    }

    /// Commits what the body writes, on the calling thread; returns `nil` within a transaction of the caller's.
    ///
    /// `Task.immediate` may begin an operation there, which has to wait for the transaction's end. For other methods than a
    /// reentrant one GRDB would end the process.
    private func transactHere<T>(
        _ change: Change, _ body: (inout SQLiteTransaction) throws -> T
    ) -> Result<T, JobStoreError>? {
        writer.unsafeReentrantWrite { db in db.isInsideTransaction ? nil : transact(db, change, body) }
    }

    private func transact<T>(
        _ db: Database, _ change: Change, _ body: (inout SQLiteTransaction) throws -> T
    ) -> Result<T, JobStoreError> {
        do {
            let old = try setSynchronous(db, isDurable: change == .durable)
            defer { if let old { try? db.execute(sql: "PRAGMA main.synchronous = \(old)") } }
            var (result, wakesWorkers): (T?, Bool) = (nil, false)
            try Self.patiently(db) {
                try db.inTransaction(.immediate) {
                    var transaction = try SQLiteTransaction(db, machine: machine, locks: locks)
                    result = try body(&transaction)
                    try transaction.close(writesClock: change != .simple)
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

    /// Waits for locks for up to 5 s, also on a connection of the caller's that does not.
    private static func patiently(_ db: Database, _ body: () throws -> Void) throws {
        guard case .immediateError = db.configuration.busyMode else { return try body() }
        try db.execute(sql: "PRAGMA busy_timeout = 5000")
        defer { try? db.execute(sql: "PRAGMA busy_timeout = 0") }
        try body()
    }

    /// Sets `synchronous`; returns the value to set again afterwards, on a connection of the caller's.
    private func setSynchronous(_ db: Database, isDurable: Bool) throws -> Int? {
        if isOwn {
            let new = isDurable ? Synchronous.full : Synchronous.normal
            if level.withLock({ $0 != new }) { try db.execute(sql: "PRAGMA main.synchronous = \(new)") }
            level.withLock { $0 = new }
            return nil
        }
        let old = try Synchronous.level(of: db)
        guard old > 0 else {
            // Its checkpoints would overwrite the log before the database is on the disk.
            throw JobStoreError(
                .unsynchronized, "a power failure would damage the database, and so lose jobs: `synchronous` is OFF",
                next: "set it to NORMAL or more on the database's writer")
        }
        guard isDurable, try !Synchronous.keepsCommits(db) else { return nil }
        try db.execute(sql: "PRAGMA main.synchronous = \(Synchronous.extra)")
        return old
    }

    private func read<T: Sendable>(_ body: @escaping @Sendable (SQLiteTransaction) throws -> T) async throws(JobStoreError) -> T {
        let result: Result<T, JobStoreError> = await withCheckedContinuation { continuation in
            writer.asyncRead { [path, machine, locks] database in
                let result = Result { try body(SQLiteTransaction(database.get(), machine: machine, locks: locks)) }
                continuation.resume(returning: result.mapError { JobStoreError(sqlite: $0, path: path) })
            }
        }
        return try result.get()
    }
}

/// The part of a database that a power failure leaves.
enum Synchronous {
    /// The values of `PRAGMA synchronous`.
    ///
    /// A commit survives the process; with a write-ahead log, a power failure; with a rollback journal, too. There a commit is the
    /// deletion of the journal, and no other level synchronizes the directory after it.
    static let (normal, full, extra) = (1, 2, 3)

    /// Returns the current value.
    static func level(of db: Database) throws -> Int { Int(try value(of: "synchronous", db)) ?? 0 }

    /// Returns true if commits survive a power failure.
    static func keepsCommits(_ db: Database) throws -> Bool {
        let level = try level(of: db)
        return try level > full || level == full && value(of: "journal_mode", db) != "delete"
    }

    /// Refuses a database whose journal ends with the process.
    static func checkJournal(_ db: Database, path: String) throws {
        let mode = try value(of: "journal_mode", db)
        guard ["memory", "off"].contains(mode) else { return }
        throw JobStoreError(
            .unsynchronized, "the end of a process would damage the database \(path): its journal_mode is \(mode)",
            next: "use WAL mode, for example with a DatabasePool")
    }

    /// Returns the value of a pragma.
    ///
    /// SQLite evaluates it when it compiles the statement, so that none can be kept; GRDB's statements take longer to make.
    private static func value(of pragma: String, _ db: Database) throws -> String {
        var statement: SQLiteStatement?
        defer { sqlite3_finalize(statement) }
        var code = sqlite3_prepare_v2(db.sqliteConnection, "PRAGMA main.\(pragma)", -1, &statement, nil)
        if code == SQLITE_OK { code = sqlite3_step(statement) }
        guard code == SQLITE_ROW, let text = sqlite3_column_text(statement, 0) else {
            throw DatabaseError(resultCode: ResultCode(rawValue: code))
        }
        return String(cString: text)
    }
}
#endif
