#if SQLite
internal import Dispatch
internal import GRDB
internal import Glibc
internal import Synchronization

/// The hints of a store: its own changes at once, those of other processes and their ends by inotify.
final class ChangeFeed: Sendable {
    private let path: String
    private let writer: any DatabaseWriter
    private let listeners = Listeners<Void>()
    private let watcher = Mutex<FileWatcher?>(nil)
    /// `PRAGMA data_version` of the writer's connection, which changes with the commits of other connections only.
    private let version = Mutex<Int?>(nil)

    init(path: String, writer: any DatabaseWriter) { (self.path, self.writer) = (path, writer) }

    /// Returns a new stream; the first one starts the watch, and the end of the last one stops it.
    func stream() -> AsyncStream<Void> {
        let stream = listeners.stream(keeping: 1) { [weak self] in self?.stopIfUnused() }
        if watcher.withLock({ $0 == nil }), !listeners.isEmpty { watch() }
        return stream
    }

    /// Yields a hint to each stream.
    func notify() { listeners.yield(()) }

    /// Ends all streams.
    func finish() {
        listeners.finish()
        stopIfUnused()
    }

    private func stopIfUnused() {
        let unused = watcher.withLock { watcher -> FileWatcher? in
            // A stream that is added meanwhile finds no watcher, and makes one.
            guard listeners.isEmpty else { return nil }
            defer { watcher = nil }
            return watcher
        }
        guard let unused else { return }
        unused.stop()
        version.withLock { $0 = nil }
    }

    private func watch() {
        let new = FileWatcher(path: path, onEnd: { [weak self] in self?.notify() }, check: { [weak self] in self?.check($0) })
        let isUsed = watcher.withLock { watcher in
            // Another stream was faster, or this one has ended.
            guard watcher == nil, !listeners.isEmpty else { return false }
            watcher = new
            return true
        }
        guard isUsed else { return new.stop() }
        // From here on every commit of another process differs from the version that this reads, which itself gives a hint.
        check { _ in }
    }

    /// Yields hints if another connection has committed.
    ///
    /// A commit is written, then it may wait for the disk, and last it shows itself in shared memory, of which no event tells. Its
    /// connection has the write lock until then: with that lock, the version includes every write that an event has told of.
    ///
    /// - Parameter finish: Receives false if the lock was not free: check again later.
    private func check(_ finish: @escaping @Sendable (Bool) -> Void) {
        writer.asyncWriteWithoutTransaction { [weak self] db in
            guard let self else { return }
            var new: Int?
            do {
                try db.inTransaction(.immediate) {
                    new = try Int.fetchOne(db, sql: "PRAGMA main.data_version")
                    return .commit
                }
            } catch {
                // Other errors show themselves to the next call of the store.
                return finish((error as? DatabaseError)?.resultCode != .SQLITE_BUSY)
            }
            let isNew = version.withLock { version in
                defer { version = new }
                return version != new
            }
            if isNew { notify() }
            finish(true)
        }
    }
}

/// Looks at a database again after each write to its files, by inotify(7): no timer runs while no process writes.
///
/// The write ahead log is watched, and the directory, because SQLite deletes the log when its last connection closes. The file of
/// the workers' locks is closed when a process ends that had workers: their jobs are free.
// Sendable: all mutable properties are used on `queue` only.
final class FileWatcher: @unchecked Sendable {
    /// The least time between two checks while writes go on, and the largest one while the database is locked, in milliseconds.
    private static let (pause, longestPause) = (10, 1000)

    private let queue = DispatchQueue(label: "reachability.jobs.changes")
    private let path: String
    private let check: @Sendable (@escaping @Sendable (Bool) -> Void) -> Void
    private let onEnd: @Sendable () -> Void
    private let descriptor: Int32
    private let source: (any DispatchSourceRead)?
    private let timer: any DispatchSourceTimer
    private var (directory, workers): (Int32, Int32) = (-1, -1)
    private var pause = FileWatcher.pause
    private var lastCheck = DispatchTime(uptimeNanoseconds: 0)

    /// Begins to watch.
    ///
    /// - Parameters:
    ///   - path: The path of the database.
    ///   - onEnd: Called after the end of another process that may have had workers.
    ///   - check: Looks at the database after a write, and says whether it could.
    init(
        path: String, onEnd: @escaping @Sendable () -> Void,
        check: @escaping @Sendable (@escaping @Sendable (Bool) -> Void) -> Void
    ) {
        (self.path, self.onEnd, self.check) = (path, onEnd, check)
        // IN_CLOEXEC and IN_NONBLOCK have the values of these (inotify_init(2)).
        descriptor = inotify_init1(O_CLOEXEC | O_NONBLOCK)
        timer = DispatchSource.makeTimerSource(queue: queue)
        source = descriptor >= 0 ? DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue) : nil
        timer.setEventHandler { [weak self] in self?.look() }
        timer.activate()
        guard let source else { return }
        source.setEventHandler { [weak self] in self?.drain() }
        source.setCancelHandler { [descriptor] in _ = close(descriptor) }
        // Before the first event can arrive on the queue.
        watchFiles()
        directory = inotify_add_watch(
            descriptor, SQLiteFile(path: path).directory, UInt32(IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_ONLYDIR))
        workers = inotify_add_watch(descriptor, WorkerLocks.path(of: path), UInt32(IN_CLOSE_WRITE))
        source.activate()
    }

    /// Stops the watch and closes its descriptor.
    func stop() {
        timer.cancel()
        source?.cancel()
    }

    /// Adding a watch again changes nothing.
    private func watchFiles() {
        for file in [path + "-wal", path] { _ = inotify_add_watch(descriptor, file, UInt32(IN_MODIFY)) }
    }

    private func drain() {
        var buffer = [UInt8](repeating: 0, count: 4096)
        var (isWritten, isReplaced, isClosed) = (false, false, false)
        while case let count = read(descriptor, &buffer, buffer.count), count > 0 {
            buffer.withUnsafeBytes { bytes in
                // struct inotify_event: wd, mask, cookie, len, and len bytes of the name.
                var offset = 0
                while offset + 16 <= count {
                    let watch = bytes.loadUnaligned(fromByteOffset: offset, as: Int32.self)
                    switch watch {
                    case directory: isReplaced = true
                    case workers: isClosed = true
                    default: isWritten = true
                    }
                    offset += 16 + Int(bytes.loadUnaligned(fromByteOffset: offset + 12, as: UInt32.self))
                }
            }
        }
        if isReplaced { watchFiles() }
        // The kernel releases the locks of a closed file just after the event (__fput in fs/file_table.c).
        if isClosed { queue.asyncAfter(deadline: .now() + .milliseconds(Self.pause), execute: onEnd) }
        guard isWritten || isReplaced else { return }
        timer.schedule(deadline: max(.now(), lastCheck + .milliseconds(Self.pause)))
    }

    private func look() {
        lastCheck = .now()
        check { [weak self] isDone in
            guard let self else { return }
            queue.async { self.checked(isDone) }
        }
    }

    private func checked(_ isDone: Bool) {
        pause = isDone ? Self.pause : min(pause * 2, Self.longestPause)
        if !isDone { timer.schedule(deadline: .now() + .milliseconds(pause)) }
    }
}
#endif
