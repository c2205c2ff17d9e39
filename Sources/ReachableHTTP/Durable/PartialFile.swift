internal import Foundation
internal import Glibc
internal import Synchronization

/// The files of a durable download beside its destination, named by the job.
struct PartialPaths: Hashable, Sendable {
    let destination: String
    let folder: String
    let part: String
    let record: String

    /// - Parameters:
    ///   - destination: The absolute path of the file.
    ///   - id: The text of the job's identity.
    init(_ destination: String, id: String) {
        let slash = destination.lastIndex(of: "/") ?? destination.startIndex
        self.destination = destination
        folder = slash == destination.startIndex ? "/" : String(destination[..<slash])
        // A name may have 255 bytes; the identity makes it unique.
        var name = destination[slash...].dropFirst()
        while name.utf8.count > 64 { name.removeLast() }
        let stem = (folder == "/" ? "" : folder) + "/.\(name).\(id)"
        (part, record) = (stem + ".part", stem + ".state")
    }

    /// Removes the partial file and its record.
    func remove() {
        for path in [record, part, record + ".new"] { unlink(path) }
    }
}

/// The partial file of a durable download, open for one attempt, and its record.
///
/// Only this user may read it. A lock keeps other processes away: an attempt of a process that was stopped may overlap the next
/// one. What has arrived is written at once, so that it survives a kill; now and then it is synchronized with its record, so that
/// it survives a power failure, too.
final class PartialFile: Sendable {
    /// The number of bytes that a power failure may cost: 16 MiB.
    static let synchronizationInterval: Int64 = 16 << 20

    private struct State {
        var record: DownloadRecord?
        /// The number of bytes that count.
        var length: Int64
    }

    private let paths: PartialPaths
    private let handle: FileHandle
    private let key: String
    private let bootID: String?
    private let state: Mutex<State>

    private init(_ paths: PartialPaths, _ handle: FileHandle, _ key: String, _ bootID: String?, _ state: State) {
        (self.paths, self.handle, self.key, self.bootID) = (paths, handle, key, bootID)
        self.state = Mutex(state)
    }

    deinit { unlock() }

    private var descriptor: Int32 { handle.fileDescriptor }

    /// Opens or creates the partial file of a job.
    ///
    /// - Throws: ``DurableHTTPError/Code/fileInUse``, ``DurableHTTPError/Code/fileUnwritable``; `POSIXError` for a shortage.
    static func open(_ paths: PartialPaths, key: String, bootID: String? = bootID) throws -> PartialFile {
        let descriptor = Glibc.open(paths.part, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure(errno) }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var (own, named) = (stat(), stat())
        guard fstat(descriptor, &own) == 0 else { throw failure(errno) }
        guard own.st_mode & S_IFMT == S_IFREG, own.st_uid == geteuid() else {
            throw DurableHTTPError(
                .fileUnwritable, "the partial file belongs to another user or is none", next: "remove it and retry the job")
        }
        if flock(descriptor, LOCK_EX | LOCK_NB) != 0, errno == EWOULDBLOCK { throw inUse }
        // Its last owner may have moved it to the destination before the lock was free.
        guard lstat(paths.part, &named) == 0, named.st_ino == own.st_ino, named.st_dev == own.st_dev else { throw inUse }
        var record = readRecord(paths)
        let usable = record?.usable(length: Int64(own.st_size), key: key, bootID: bootID)
        if usable == nil { record = nil }
        if let usable, usable < Int64(own.st_size), ftruncate(descriptor, off_t(usable)) != 0 { throw failure(errno) }
        return PartialFile(paths, handle, key, bootID, State(record: record, length: usable ?? 0))
    }

    /// Returns the record of a download whose file an earlier attempt has put into place; `nil` if it has not.
    static func placed(_ paths: PartialPaths, key: String) -> DownloadRecord? {
        var status = stat()
        guard let record = readRecord(paths), record.key == key, let placed = record.placed,
            lstat(paths.destination, &status) == 0, UInt64(status.st_ino) == placed.inode, FileStamp(status) == placed.file
        else { return nil }
        return record
    }

    /// The number of bytes that have arrived.
    var length: Int64 { state.withLock { $0.length } }

    /// The record of what has arrived; `nil` if the download has to start over.
    var record: DownloadRecord? { state.withLock { $0.record } }

    /// The most bytes that have ever been kept.
    var most: Int64 { state.withLock { max($0.length, $0.record?.most ?? 0) } }

    /// True if all bytes have arrived.
    var isComplete: Bool { state.withLock { $0.length == $0.record?.total } }

    /// Begins a representation: the file is empty, and its record on the disk, before the first byte counts.
    func begin(validator: String?, total: Int64?, status: Int, headers: [String: String]) throws {
        // An old record must not meet bytes of the new representation, nor a new one old bytes.
        guard ftruncate(descriptor, 0) == 0, fsync(descriptor) == 0 else { throw Self.failure(errno) }
        let isSmall = headers.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count } <= 64 << 10
        var record = DownloadRecord(
            key: key, validator: validator, total: total, status: status, headers: isSmall ? headers : [:], bootID: bootID)
        if self.record != nil { record.most = most }
        try save(record)
        state.withLock { [record] in $0 = State(record: record, length: 0) }
    }

    /// Notes that further bytes come in another response.
    func join(total: Int64?) throws {
        guard var record else { return }
        (record.isJoined, record.total) = (true, total)
        (record.synchronized, record.bootID) = (try synchronized(), bootID)
        try save(record)
        state.withLock { [record] in $0.record = record }
    }

    /// Writes bytes behind those that have arrived.
    func append(_ data: Data) throws {
        for region in data.regions {
            try region.withUnsafeBytes { bytes in
                var rest = bytes[...]
                while !rest.isEmpty {
                    let count = write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                    if count < 0, errno == EINTR { continue }
                    guard count > 0 else { throw Self.failure(count == 0 ? ENOSPC : errno) }
                    state.withLock { $0.length += Int64(count) }
                    rest = rest.dropFirst(count)
                }
            }
        }
        let isDue = state.withLock { $0.length - ($0.record?.synchronized ?? 0) >= Self.synchronizationInterval }
        if isDue { try synchronize() }
    }

    /// Forgets what has arrived.
    func discard() throws {
        state.withLock { $0 = State(record: nil, length: 0) }
        unlink(paths.record)
        guard ftruncate(descriptor, 0) == 0 else { throw Self.failure(errno) }
    }

    /// Makes what has arrived survive a power failure.
    func synchronize() throws {
        guard var record else { return }
        (record.synchronized, record.bootID) = (try synchronized(), bootID)
        try save(record)
        state.withLock { [record] in $0.record = record }
    }

    private func synchronized() throws -> Int64 {
        let length = length
        guard fdatasync(descriptor) == 0 else { throw Self.failure(errno) }
        return length
    }

    /// Returns the SHA-256 of the file in hexadecimal digits.
    ///
    /// - Throws: `CancellationError` when the task is cancelled.
    func digest() async throws -> String {
        var (hash, position) = (SHA256(), off_t(0))
        var chunk = [UInt8](repeating: 0, count: 1 << 20)
        while true {
            try Task.checkCancellation()
            let count = chunk.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, position) }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Self.failure(errno) }
            guard count > 0 else { return hash.finish() }
            chunk.withUnsafeBytes { hash.update(UnsafeRawBufferPointer(rebasing: $0.prefix(count))) }
            position += off_t(count)
            // A large file takes seconds: other tasks of this thread go on meanwhile.
            await Task.yield()
        }
    }

    /// Moves the complete file to its destination, where it replaces an older file.
    ///
    /// The record stays, so that another attempt recognizes the file.
    func place() throws -> DownloadRecord {
        var status = stat()
        guard fsync(descriptor) == 0, fstat(descriptor, &status) == 0 else { throw Self.failure(errno) }
        guard var record else { throw Self.failure(EIO) }
        record.placed = .init(inode: UInt64(status.st_ino), file: FileStamp(status))
        (record.total, record.synchronized, record.bootID) = (length, length, bootID)
        try save(record)
        state.withLock { [record] in $0.record = record }
        guard rename(paths.part, paths.destination) == 0 else { throw errno == ENOENT ? Self.vanished : Self.failure(errno) }
        try Self.synchronize(folder: paths.folder)
        return record
    }

    /// A process that is being started elsewhere shares the descriptor, and with it the lock, until its execve(2).
    private func unlock() { flock(handle.fileDescriptor, LOCK_UN) }

    /// Ends the attempt; the rest of what has arrived is synchronized.
    func close() {
        let isDue = state.withLock { state in state.record.map { $0.placed == nil && $0.synchronized < state.length } == true }
        if isDue { try? synchronize() }
        unlock()
        try? handle.close()
    }

    /// Removes the file and its record.
    func remove() {
        state.withLock { $0 = State(record: nil, length: 0) }
        paths.remove()
    }
}

// MARK: - The record

extension PartialFile {
    /// The identity of the boot (random(4)); `nil` if it cannot be read.
    static let bootID: String? = try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8)

    private static var inUse: DurableHTTPError {
        DurableHTTPError(
            .fileInUse, "another attempt of the job still writes the file", next: "wait: the next attempt follows by itself")
    }

    private static var vanished: DurableHTTPError {
        DurableHTTPError(
            .fileInUse, "the partial file was removed while it was written",
            next: "keep tools that tidy up away from hidden files; the next attempt starts over")
    }

    private static func readRecord(_ paths: PartialPaths) -> DownloadRecord? {
        let descriptor = Glibc.open(paths.record, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(),
            let data = try? handle.read(upToCount: 1 << 20)
        else { return nil }
        return try? JSONDecoder().decode(DownloadRecord.self, from: data)
    }

    /// Replaces the record on the disk, synchronized.
    private func save(_ record: DownloadRecord) throws {
        let data: Data
        do {
            data = try JSONEncoder().encode(record)
        } catch {
            throw Self.failure(EIO)
        }
        let path = paths.record + ".new"
        unlink(path)
        let descriptor = Glibc.open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Self.failure(errno) }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        do {
            try handle.write(contentsOf: data)
        } catch {
            unlink(path)
            throw Self.failure(ENOSPC)
        }
        guard fsync(descriptor) == 0, rename(path, paths.record) == 0 else { throw Self.failure(errno) }
        try Self.synchronize(folder: paths.folder)
    }

    private static func synchronize(folder: String) throws {
        let descriptor = Glibc.open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(errno) }
        defer { Glibc.close(descriptor) }
        // Some file systems cannot synchronize a directory (fsync(2), EINVAL).
        guard fsync(descriptor) == 0 || errno == EINVAL else { throw failure(errno) }
    }

    /// Returns the system's error if it may pass, and otherwise one that ends the job.
    private static func failure(_ number: Int32) -> any Error {
        switch number {
        case EMFILE, ENFILE, ENOMEM, ENOSPC, EDQUOT, EINTR, EIO, EAGAIN:
            POSIXError(POSIXErrorCode(rawValue: number) ?? .EIO)
        case ENOENT, ENOTDIR:
            DurableHTTPError(
                .fileUnwritable, "the directory of the destination does not exist", next: "create it and retry the job")
        default:
            DurableHTTPError(
                .fileUnwritable, "the destination cannot be written: \(FilePath.text(of: number))",
                next: "correct the directory or its permissions, and retry the job")
        }
    }
}
