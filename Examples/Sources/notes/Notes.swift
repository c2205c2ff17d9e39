import GRDB
import ReachableJobs
import ReachableRetry

/// The app: its database, and the queue in it.
struct Notes {
    let database: DatabasePool
    let queue: JobQueue

    init(_ path: String, bus: RetryBus) throws {
        database = try openDatabase(path)
        queue = JobQueue(try SQLiteStore(writer: database), bus: bus)
    }

    /// Saves a note with the job that delivers it: both or neither, on the disk when this returns.
    func save(_ note: Note) throws {
        try database.write { db in
            try note.save(db)
            try queue.push(SendNote(name: note.name, text: note.text), unique: .replace(note.name), in: db)
        }
    }

    /// Marks a note as delivered, unless it has changed meanwhile.
    func markDelivered(_ sent: SendNote) throws {
        try database.write { db in
            try db.execute(
                sql: "UPDATE note SET isDelivered = TRUE WHERE name = ? AND text = ?", arguments: [sent.name, sent.text])
        }
    }
}
