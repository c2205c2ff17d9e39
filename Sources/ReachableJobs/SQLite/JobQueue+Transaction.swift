#if SQLite
public import GRDB
public import ReachableRetry

extension JobQueue {
    /// Creates a queue in a SQLite database; ``run()`` makes this process a worker.
    ///
    /// The queue writes to the logger and the metrics of the bus's configuration.
    public convenience init(_ store: SQLiteStore, bus: RetryBus, configuration: Configuration = .init()) {
        self.init(store as any JobStore, bus: bus, configuration: configuration)
    }

    /// Adds a job within a transaction of the caller's: it is stored if that is committed, and vanishes if it is rolled back.
    ///
    /// Workers hear of it after the commit. Available with the package's trait `SQLite`; see ``SQLiteStore``.
    ///
    /// - Parameters:
    ///   - parameters: The job.
    ///   - unique: The rule if an unfinished job of the same kind has the key already.
    ///   - db: The connection of the writer that the queue's ``SQLiteStore`` was made with, within a write.
    /// - Returns: The job that is there now.
    /// - Throws: ``JobStoreError/Code/otherDatabase`` if the queue's store is not in this database;
    ///   ``JobStoreError/Code/unsynchronized`` if `PRAGMA synchronous` is below FULL, or below EXTRA in a database without WAL
    ///   mode: GRDB sets NORMAL for databases in WAL mode, so set it after opening; the errors of ``push(_:unique:)``. After an
    ///   error the transaction is as it was before.
    @discardableResult
    public func push(
        _ parameters: some JobParameters, unique: JobQueue.Unique? = nil, in db: Database
    ) throws -> PushReceipt {
        try push([makeJob(parameters, unique: unique)], in: db)[0]
    }

    /// Adds jobs of one kind in this order within a transaction of the caller's; see ``push(_:unique:in:)``.
    ///
    /// - Parameters:
    ///   - parameters: The jobs.
    ///   - unique: Returns the rule for each job if an unfinished job of the same kind has the key already, also an earlier one of
    ///     this call; `nil` allows duplicates.
    ///   - db: The connection of the writer that the queue's ``SQLiteStore`` was made with, within a write.
    /// - Returns: For each job, in this order, the one that is there now and what happened.
    /// - Throws: The errors of ``push(_:unique:in:)``.
    @discardableResult
    public func push<Parameters: JobParameters>(
        _ parameters: [Parameters], uniqueBy unique: (Parameters) -> JobQueue.Unique? = { _ in nil }, in db: Database
    ) throws -> [PushReceipt] {
        try push(parameters.map { try makeJob($0, unique: unique($0)) }, in: db)
    }

    private func push(_ jobs: [NewJob], in db: Database) throws(JobStoreError) -> [PushReceipt] {
        guard let store = store as? SQLiteStore else {
            throw JobStoreError(
                .otherDatabase, "the queue's store is not a SQLite database",
                next: "create the queue with a SQLiteStore of this database")
        }
        let receipts = try store.push(jobs, limit: configuration.maxJobs, in: db)
        // In a task: no metrics are recorded on the writer's queue.
        if db.isInsideTransaction {
            db.afterNextTransaction { [self] _ in Task { notePushes(receipts) } }
        } else {
            Task { notePushes(receipts) }
        }
        return receipts
    }
}
#endif
