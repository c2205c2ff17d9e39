internal import Foundation
internal import Glibc
internal import ReachableRetry

/// The size and the time of modification of a file, by which a changed file is recognized.
///
/// Without the inode: on FAT and some network file systems it is another one after the next mount.
struct FileStamp: Codable, Hashable, Sendable {
    var size: Int64
    /// The time of modification: seconds since 1970, and nanoseconds.
    var seconds: Int64
    var nanoseconds: Int64

    init(_ status: stat) {
        size = Int64(status.st_size)
        (seconds, nanoseconds) = (Int64(status.st_mtim.tv_sec), Int64(status.st_mtim.tv_nsec))
    }

    /// The difference to a later stamp in words; `nil` if there is none.
    func change(to now: FileStamp) -> String? {
        if size != now.size { return "it had \(size) bytes and has \(now.size)" }
        return self == now ? nil : "it was modified and still has \(size) bytes"
    }
}

/// A file that an attempt uploads; open for as long as the attempt, so that it stays the same one.
struct UploadFile: Sendable {
    let handle: FileHandle
    private let stamp: FileStamp

    /// Opens a file that has to be as it was recorded.
    ///
    /// - Throws: ``DurableHTTPError``; `POSIXError` for a shortage of this machine.
    init(_ path: String, expecting stamp: FileStamp) throws {
        let status: stat
        (handle, status) = try Self.open(path)
        self.stamp = stamp
        if let change = stamp.change(to: FileStamp(status)) { throw Self.changed(change) }
    }

    /// Returns the stamp of a file as it is now.
    static func stamp(of path: String) throws(DurableHTTPError) -> FileStamp {
        do {
            return FileStamp(try open(path).1)
        } catch let error as DurableHTTPError {
            throw error
        } catch {
            throw DurableHTTPError(
                .fileUnreadable, "the file cannot be opened now: \(error.localizedDescription)",
                next: "allow the process more descriptors (ulimit -n), and create the upload again")
        }
    }

    /// Throws a ``ClassifiedError`` if the file has changed since the attempt began.
    ///
    /// - Parameter isSent: True if the server has accepted it.
    func check(isSent: Bool) throws {
        var status = stat()
        guard fstat(handle.fileDescriptor, &status) == 0, let change = stamp.change(to: FileStamp(status)) else { return }
        throw ClassifiedError(ofFile: isSent ? Self.changedWhileSent(change) : Self.changed(change))
    }

    private static func changed(_ change: String) -> DurableHTTPError {
        DurableHTTPError(
            .fileChanged, "the file has changed since the upload was created: \(change)",
            next: "push a new upload of the file as it is now, and cancel this one")
    }

    private static func changedWhileSent(_ change: String) -> DurableHTTPError {
        DurableHTTPError(
            .fileChangedWhileSent, "the file changed while it was sent, and the server may have a mixture: \(change)",
            next: "push a new upload of the file as it is now, with a key of its own, to replace what the server has")
    }

    private static func open(_ path: String) throws -> (FileHandle, stat) {
        // A FIFO without a writer would block.
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw failure(errno) }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw failure(errno) }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw DurableHTTPError(
                .fileUnreadable, "the path leads to something else than a file", next: "push an upload of a regular file")
        }
        return (handle, status)
    }

    private static func failure(_ number: Int32) -> any Error {
        switch number {
        case EMFILE, ENFILE, ENOMEM: POSIXError(POSIXErrorCode(rawValue: number) ?? .EMFILE)
        case ENOENT, ENOTDIR:
            DurableHTTPError(.fileMissing, "the file does not exist", next: "put it back and retry the job, or cancel the job")
        default:
            DurableHTTPError(
                .fileUnreadable, "the file cannot be opened: \(FilePath.text(of: number))",
                next: "correct the permissions and retry the job")
        }
    }
}

/// The paths of durable jobs.
enum FilePath {
    /// Returns the absolute path of a file.
    static func absolute(_ file: URL) throws(DurableHTTPError) -> String {
        let path = file.absoluteURL.path
        guard file.isFileURL, path.hasPrefix("/"), path != "/", !path.utf8.contains(0) else {
            throw DurableHTTPError(
                .invalidPath, "the URL does not name a file", next: "use URL(fileURLWithPath:) with the path of a file")
        }
        return path
    }

    /// Returns the system's words for an error number.
    static func text(of number: Int32) -> String { String(cString: strerror(number)) }
}
