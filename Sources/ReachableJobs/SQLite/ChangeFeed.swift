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

    init(path: String, writer: any DatabaseWriter) { (self.path, self.writer) = (path, writer) }

    /// Returns a new stream; the first one starts the watch, and the end of the last one stops it.
    func stream() -> AsyncStream<Void> {
        let stream = listeners.stream(keeping: 1) { [weak self] in self?.updateWatcher() }
        updateWatcher()
        return stream
    }

    func notify() { listeners.yield(()) }

    func finish() { listeners.finish() }

    private func updateWatcher() {
        watcher.withLock { watcher in
            if listeners.isEmpty {
                watcher = nil
            } else if watcher == nil {
                watcher = FileWatcher(path: path, writer: writer) { [weak self] in self?.notify() }
            }
        }
    }
}

/// Notices commits of other connections and ends of other processes, by inotify(7): no timer runs while no process writes.
///
/// The write ahead log is watched, and the directory, because SQLite deletes the log when its last connection closes. The file of
/// the workers' locks is closed when a process ends that had workers: their jobs are free.
// Sendable: all mutable properties are used on `queue` only.
private final class FileWatcher: @unchecked Sendable {
    /// The least time between two checks while writes go on, and the largest one while the database is locked, in milliseconds.
    private static let (pause, longestPause) = (10, 1000)

    private let queue = DispatchQueue(label: "reachability.jobs.changes")
    private let path: String
    private let writer: any DatabaseWriter
    private let notify: @Sendable () -> Void
    private let source: (any DispatchSourceRead)?
    private var (directory, workers): (Int32, Int32) = (-1, -1)
    /// `PRAGMA data_version` of the writer's connection, which changes with the commits of other connections only.
    private var version: Int?
    private var isCheckPlanned = false
    private var pause = FileWatcher.pause
    private var lastCheck = DispatchTime(uptimeNanoseconds: 0)

    /// Begins to watch, and calls back once when it does.
    init(path: String, writer: any DatabaseWriter, notify: @escaping @Sendable () -> Void) {
        (self.path, self.writer, self.notify) = (path, writer, notify)
        // IN_CLOEXEC and IN_NONBLOCK have the values of these (inotify_init(2)).
        let descriptor = inotify_init1(O_CLOEXEC | O_NONBLOCK)
        source = descriptor >= 0 ? DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue) : nil
        if let source {
            source.setEventHandler { [weak self] in self?.drain(descriptor) }
            source.setCancelHandler { _ = close(descriptor) }
            // Before the first event can arrive on the queue.
            watchFiles(descriptor)
            directory = inotify_add_watch(
                descriptor, SQLiteFile(path: path).directory, UInt32(IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_ONLYDIR))
            workers = inotify_add_watch(descriptor, WorkerLocks.path(of: path), UInt32(IN_CLOSE_WRITE))
            source.activate()
        }
        // From here on every commit of another process differs from the version that this reads, which itself gives a hint.
        queue.async { [weak self] in self?.planCheck() }
    }

    deinit { source?.cancel() }

    /// Adding a watch again changes nothing.
    private func watchFiles(_ descriptor: Int32) {
        for file in [path + "-wal", path] { _ = inotify_add_watch(descriptor, file, UInt32(IN_MODIFY)) }
    }

    private func drain(_ descriptor: Int32) {
        var buffer = [UInt8](repeating: 0, count: 4096)
        var watches: Set<Int32> = []
        while case let count = read(descriptor, &buffer, buffer.count), count > 0 {
            buffer.withUnsafeBytes { bytes in
                // struct inotify_event: wd, mask, cookie, len, and len bytes of the name.
                var offset = 0
                while offset + 16 <= count {
                    watches.insert(bytes.loadUnaligned(fromByteOffset: offset, as: Int32.self))
                    offset += 16 + Int(bytes.loadUnaligned(fromByteOffset: offset + 12, as: UInt32.self))
                }
            }
        }
        if watches.contains(directory) { watchFiles(descriptor) }
        // The kernel releases the locks of a closed file just after the event (__fput in fs/file_table.c).
        if watches.remove(workers) != nil {
            queue.asyncAfter(deadline: .now() + .milliseconds(Self.pause)) { [weak self] in self?.notify() }
        }
        if !watches.isEmpty { planCheck() }
    }

    private func planCheck() {
        if isCheckPlanned { return }
        isCheckPlanned = true
        queue.asyncAfter(deadline: max(.now(), lastCheck + .milliseconds(pause))) { [weak self] in self?.check() }
    }

    /// Yields hints if another connection has committed.
    ///
    /// A commit is written, then it may wait for the disk, and last it shows itself in shared memory, of which no event tells. Its
    /// connection has the write lock until then: with that lock, the version includes every write that an event has told of.
    private func check() {
        (isCheckPlanned, lastCheck) = (false, .now())
        writer.asyncWriteWithoutTransaction { [weak self] db in
            let result = Result {
                var version: Int?
                try db.inTransaction(.immediate) {
                    version = try Int.fetchOne(db, sql: "PRAGMA main.data_version")
                    return .commit
                }
                return version
            }
            guard let self else { return }
            queue.async { self.checked(result) }
        }
    }

    private func checked(_ result: Result<Int?, any Error>) {
        switch result {
        case .success(let new):
            pause = Self.pause
            if new != version { notify() }
            version = new
        case .failure(let error as DatabaseError) where error.resultCode == .SQLITE_BUSY:
            (pause, lastCheck) = (min(pause * 2, Self.longestPause), .now())
            planCheck()
        // Other errors show themselves to the next call of the store.
        case .failure: pause = Self.pause
        }
    }
}
#endif
