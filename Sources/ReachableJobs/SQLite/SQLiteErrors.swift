#if SQLite
internal import GRDB

extension JobStoreError {
    /// Creates an error from one of SQLite's; an error that is one already stays as it is.
    ///
    /// SQLite's own message names tables and columns, never values.
    init(sqlite error: any Error, path: String) {
        if let error = error as? JobStoreError {
            self = error
            return
        }
        guard let error = error as? DatabaseError else {
            self.init(.unavailable, "the store \(path) failed: \(error)", next: "report this error")
            return
        }
        let reason = error.message.map { " (SQLite: \($0))" } ?? ""
        switch error.resultCode {
        // Growing the shared memory of a full disk is an I/O error, too (unixShmMap of os_unix.c).
        case .SQLITE_FULL,
            .SQLITE_IOERR where error.extendedResultCode == .SQLITE_IOERR_SHMSIZE:
            self.init(.diskFull, "no space is left for the store \(path)", next: "free some space; nothing that was stored is lost")
        case .SQLITE_READONLY, .SQLITE_PERM, .SQLITE_AUTH:
            self.init(
                .readOnly, "the store \(path) cannot be written\(reason)",
                next: "check the permissions of the file and its directory, and whether the file system is mounted read-only")
        case .SQLITE_CORRUPT:
            self.init(
                .corrupt, "the store \(path) is damaged\(reason)",
                next: "stop its workers, keep a copy, and recover it with `sqlite3 \(path) .recover`")
        case .SQLITE_NOTADB:
            self.init(.foreign, "\(path) is not a SQLite database", next: "name another file; this one was not changed")
        // No process has the lock: see SQLITE_BUSY_SNAPSHOT in rescode.html.
        case .SQLITE_BUSY where error.extendedResultCode == .SQLITE_BUSY_SNAPSHOT:
            self.init(
                .busy, "the transaction had read the database \(path) before another one changed it, and cannot write now",
                next: "roll it back, and begin it as an IMMEDIATE one, for example with GRDB's `write`")
        case .SQLITE_ABORT, .SQLITE_INTERRUPT:
            self.init(
                .unavailable, "the program has suspended or interrupted the database \(path)\(reason)",
                next: "resume it with GRDB's `Database.resumeNotification`, and repeat the call")
        case .SQLITE_BUSY, .SQLITE_LOCKED:
            self.init(
                .busy, "another process keeps the store \(path) locked",
                next: "find it with `fuser \(path)`, and end its transaction")
        case .SQLITE_IOERR:
            self.init(
                .inputOutput, "reading or writing the store \(path) failed\(reason)",
                next: "check the disk and the kernel's log; the change was not made")
        case .SQLITE_CANTOPEN:
            self.init(
                .unavailable, "the store \(path) cannot be opened\(reason)",
                next: "check that its directory exists and may be written, and the limit of open files")
        default:
            self.init(
                .unavailable, "the store \(path) failed with SQLite's code \(error.extendedResultCode.rawValue)\(reason)",
                next: "report this error")
        }
    }
}
#endif
