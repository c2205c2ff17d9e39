import GRDB

/// A note, as the app's database keeps it.
struct Note: Codable, FetchableRecord, PersistableRecord {
    var name: String
    var text: String
    var isDelivered = false
}

/// Opens the app's database.
func openDatabase(_ path: String) throws -> DatabasePool {
    let database = try DatabasePool(path: path)
    try database.writeWithoutTransaction { db in
        // GRDB sets NORMAL, with which a power failure may undo the last commits.
        try db.execute(sql: "PRAGMA synchronous = FULL")
        try db.create(table: "note", ifNotExists: true) { table in
            table.primaryKey("name", .text)
            table.column("text", .text).notNull()
            table.column("isDelivered", .boolean).notNull()
        }
    }
    return database
}
