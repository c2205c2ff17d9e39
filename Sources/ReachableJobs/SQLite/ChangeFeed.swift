#if SQLite
internal import Dispatch
internal import GRDB
internal import Glibc
internal import Synchronization

/// The hints of a store: its own changes at once, those of other processes by inotify.
final class ChangeFeed: Sendable {
    private struct State {
        var streams: [Int: AsyncStream<Void>.Continuation] = [:]
        var lastNumber = 0
        var watcher: FileWatcher?
        var isFinished = false
    }

    private let path: String
    private let writer: any DatabaseWriter
    private let state = Mutex(State())
    /// `PRAGMA data_version` of the writer's connection, which changes with the commits of other connections only.
    private let version = Mutex<Int?>(nil)

    init(path: String, writer: any DatabaseWriter) { (self.path, self.writer) = (path, writer) }

    /// Returns a new stream; the first one starts the watch, and the end of the last one stops it.
    func stream() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let (number, isFirst) = state.withLock { state -> (Int, Bool) in
            state.lastNumber += 1
            if state.isFinished { return (0, false) }
            state.streams[state.lastNumber] = continuation
            return (state.lastNumber, state.streams.count == 1)
        }
        guard number > 0 else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in self?.remove(number) }
        if isFirst { watch() }
        return stream
    }

    /// Yields a hint to each stream.
    func notify() {
        let streams = state.withLock { Array($0.streams.values) }
        for stream in streams { stream.yield() }
    }

    /// Ends all streams.
    func finish() {
        let (streams, watcher) = state.withLock { state in
            state.isFinished = true
            defer { (state.streams, state.watcher) = ([:], nil) }
            return (Array(state.streams.values), state.watcher)
        }
        watcher?.stop()
        for stream in streams { stream.finish() }
    }

    private func remove(_ number: Int) {
        let (removed, watcher) = state.withLock { state in
            let removed = state.streams.removeValue(forKey: number)
            guard state.streams.isEmpty else { return (removed, nil as FileWatcher?) }
            defer { state.watcher = nil }
            return (removed, state.watcher)
        }
        // Released here, not under the lock.
        _ = removed
        guard let watcher else { return }
        watcher.stop()
        version.withLock { $0 = nil }
    }

    private func watch() {
        let watcher = FileWatcher(path: path) { [weak self] in self?.check() }
        let unused = state.withLock { state -> FileWatcher? in
            if state.streams.isEmpty || state.watcher != nil { return watcher }
            state.watcher = watcher
            return nil
        }
        unused?.stop()
        // From here on every commit of another process differs from the version that this reads, which itself gives a hint.
        check()
    }

    /// Yields hints if another connection has committed.
    private func check() {
        writer.asyncWriteWithoutTransaction { [weak self] db in
            // An error shows itself to whoever uses the store next.
            guard let self, let new = try? Int.fetchOne(db, sql: "PRAGMA data_version") else { return }
            let isNew = version.withLock { version in
                defer { version = new }
                return version != new
            }
            if isNew { notify() }
        }
    }
}

/// Looks at a database again after each write to its files, by inotify(7): no timer runs while nobody writes.
///
/// The write ahead log is watched, and the directory, because SQLite deletes the log when its last connection closes.
// Sendable: all mutable properties are used on `queue` only.
final class FileWatcher: @unchecked Sendable {
    /// The delays between a write and the checks. The first write of a commit comes before the commit itself, which may have to
    /// wait for the disk, and shows itself in shared memory only: no event tells of that.
    private static let delays: [Int] = [0, 5, 20, 80, 320, 1000, 3000]
    /// The least time between two checks while writes go on, in milliseconds.
    private static let pause = 10

    private let queue = DispatchQueue(label: "reachability.jobs.changes")
    private let path: String
    private let check: @Sendable () -> Void
    private let descriptor: Int32
    private let source: (any DispatchSourceRead)?
    private let timer: any DispatchSourceTimer
    private var directory: Int32 = -1
    private var step = FileWatcher.delays.count
    private var lastCheck = DispatchTime(uptimeNanoseconds: 0)

    init(path: String, check: @escaping @Sendable () -> Void) {
        (self.path, self.check) = (path, check)
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
        var (isWritten, isReplaced) = (false, false)
        while case let count = read(descriptor, &buffer, buffer.count), count > 0 {
            buffer.withUnsafeBytes { bytes in
                // struct inotify_event: wd, mask, cookie, len, and len bytes of the name.
                var offset = 0
                while offset + 16 <= count {
                    let watch = bytes.loadUnaligned(fromByteOffset: offset, as: Int32.self)
                    if watch == directory { isReplaced = true } else { isWritten = true }
                    offset += 16 + Int(bytes.loadUnaligned(fromByteOffset: offset + 12, as: UInt32.self))
                }
            }
        }
        if isReplaced { watchFiles() }
        guard isWritten || isReplaced else { return }
        step = 0
        timer.schedule(deadline: max(.now(), lastCheck + .milliseconds(Self.pause)))
    }

    private func look() {
        lastCheck = .now()
        check()
        step += 1
        if step < Self.delays.count { timer.schedule(deadline: lastCheck + .milliseconds(Self.delays[step])) }
    }
}
#endif
