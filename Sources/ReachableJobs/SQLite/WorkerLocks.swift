#if SQLite
internal import Glibc
internal import Synchronization

/// The locks by which workers of one machine prove that their process lives.
///
/// Each worker locks the byte of its number in a file beside the database, by an open file description lock (fcntl(2)). The kernel
/// releases it when the process ends, however it ends. It is not the database file: closing any descriptor of that drops SQLite's
/// own locks, which belong to the process.
///
/// A child made by fork(2) that never calls execve(2) shares the locks, and keeps its parent's workers alive.
final class WorkerLocks: Sendable {
    // bits/fcntl-linux.h; they are hidden without _GNU_SOURCE.
    private static let getLock: Int32 = 36
    private static let setLock: Int32 = 37

    /// The descriptor of the file.
    ///
    /// A process that inherits it keeps the workers of this one alive.
    let descriptor: Int32
    private let held = Mutex<Set<Int64>>([])

    static func path(of database: String) -> String { database + "-workers" }

    init(database: String, mode: mode_t) throws(JobStoreError) {
        let path = Self.path(of: database)
        descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode)
        guard descriptor >= 0 else {
            throw JobStoreError(
                .unavailable, "\(path) cannot be opened: \(String(cString: strerror(errno)))",
                next: "check the permissions of the file and its directory")
        }
    }

    deinit {
        close(descriptor)
    }

    func lock(_ worker: Int64) -> Bool {
        guard control(Self.setLock, F_WRLCK, worker) != nil else { return false }
        held.withLock { _ = $0.insert(worker) }
        return true
    }

    func unlock(_ worker: Int64) {
        held.withLock { _ = $0.remove(worker) }
        _ = control(Self.setLock, F_UNLCK, worker)
    }

    func holds(_ worker: Int64) -> Bool { held.withLock { $0.contains(worker) } }

    /// Returns true if no process has a worker's byte locked.
    func hasEnded(_ worker: Int64) -> Bool {
        // The kernel reports no conflict with a lock of the same open file description.
        if holds(worker) { return false }
        return control(Self.getLock, F_WRLCK, worker) == Int16(F_UNLCK)
    }

    private func control(_ command: Int32, _ type: Int32, _ worker: Int64) -> Int16? {
        var lock = flock()
        lock.l_type = Int16(type)
        lock.l_whence = Int16(SEEK_SET)
        lock.l_start = off_t(worker)
        lock.l_len = 1
        let result = withUnsafeMutablePointer(to: &lock) { fcntl(descriptor, command, UnsafeMutableRawPointer($0)) }
        return result == 0 ? lock.l_type : nil
    }
}
#endif
