#if SQLite
public import GRDB

extension JobQueue {
    /// Adds a job within a transaction of the caller's: it is stored if that is committed, and vanishes if it is rolled back.
    ///
    /// Workers hear of it after the commit. Available with the package's trait `SQLite`.
    ///
    /// ```swift
    /// try await database.write { db in
    ///     try photo.insert(db)
    ///     try queue.push(Upload(file: photo.file), in: db)
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - parameters: The job.
    ///   - unique: The rule if an unfinished job of the same kind has the key already.
    ///   - db: The connection of the writer that the queue's ``SQLiteStore`` was made with, within a write.
    /// - Returns: The job that is there now.
    /// - Throws: ``JobStoreError/Code/otherDatabase`` if the queue's store is not in this database; the errors of
    ///   ``SQLiteStore/push(_:limit:in:)``; the encoder's error.
    @discardableResult
    public func push(
        _ parameters: some JobParameters, unique: NewJob.Unique? = nil, in db: Database
    ) throws -> PushReceipt {
        guard let store = store as? SQLiteStore else {
            throw JobStoreError(
                .otherDatabase, "the queue's store is not a SQLite database",
                next: "create the queue with a SQLiteStore of this database")
        }
        let receipt = try store.push([makeJob(parameters, unique: unique)], limit: configuration.maxJobs, in: db)[0]
        // In a task: no metrics are recorded on the writer's queue.
        if db.isInsideTransaction {
            db.afterNextTransaction { [self] _ in Task { notePush(receipt) } }
        } else {
            Task { notePush(receipt) }
        }
        return receipt
    }
}
#endif
