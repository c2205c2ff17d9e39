public import GRDB
import ReachableJobs
public import SyncEngine

extension Photo: FetchableRecord, PersistableRecord {}

/// The accepted photos, in a database of the program, and the queue in the same database.
struct Album {
    let queue: JobQueue
    private let database: DatabasePool

    /// Opens the database, and creates it if it is missing.
    init(_ path: String, _ makeQueue: (SQLiteStore) -> JobQueue) throws {
        database = try DatabasePool(path: path)
        try database.writeWithoutTransaction { db in
            // GRDB sets NORMAL, with which a power failure may undo the last commits.
            try db.execute(sql: "PRAGMA synchronous = FULL")
            try db.create(table: "photo", ifNotExists: true) { table in
                table.primaryKey("name", .text)
                table.column("size", .integer).notNull()
                table.column("modified", .integer).notNull()
            }
        }
        queue = makeQueue(try SQLiteStore(writer: database))
    }

    /// Accepts the photos that are new or have changed: each with its job, all or none.
    ///
    /// - Returns: The number of accepted photos.
    func accept(_ photos: [Photo], for engine: SyncEngine) throws -> Int {
        try database.write { db in
            let known = Set(try Photo.fetchAll(db))
            let changed = photos.filter { !known.contains($0) }
            for photo in changed {
                try photo.save(db)
                try queue.push(engine.job(for: photo), unique: .replace(photo.name), in: db)
            }
            return changed.count
        }
    }
}
