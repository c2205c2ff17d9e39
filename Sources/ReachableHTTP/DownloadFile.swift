internal import Foundation
internal import Glibc
internal import Synchronization

/// The file that a download is written to, over several attempts; only this user may read it.
///
/// It is open while an attempt runs and at no other time, so that waiting downloads hold no descriptors. Used by one attempt at a
/// time.
final class DownloadFile: Sendable {
    /// The number of bytes that are kept of the body of an error response.
    static let refusalLimit = 1 << 20

    let location: URL
    private let handle = Mutex<FileHandle?>(nil)

    /// Chooses a name in a directory, by default the system's for temporary files; makes no file.
    init(in directory: URL? = nil) {
        location = (directory ?? FileManager.default.temporaryDirectory)
            .appendingPathComponent("\(UUID().uuidString).download")
    }

    /// Opens the file for an attempt; makes it if it is not there.
    ///
    /// - Returns: Its length in bytes. Less than was written before if something else has removed or cut it.
    /// - Throws: `POSIXError` if the system is short of something; `CocoaError` if the file cannot be opened otherwise.
    func open() throws -> Int64 {
        let descriptor = Glibc.open(location.path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw fileError(errno, isReading: false) }
        let opened = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw fileError(errno, isReading: false) }
        handle.withLock { $0 = opened }
        return Int64(status.st_size)
    }

    /// Closes the file at the end of an attempt.
    func close() { try? handle.withLock { $0.take() }?.close() }

    func append(_ data: some DataProtocol) throws { try opened().write(contentsOf: data) }

    func clear() throws { try opened().truncate(atOffset: 0) }

    /// Replaces the contents.
    func replaceAll(with data: some DataProtocol) throws -> URL {
        _ = try open()
        defer { close() }
        try clear()
        try append(data)
        return location
    }

    func remove() { try? FileManager.default.removeItem(at: location) }

    private func opened() throws -> FileHandle {
        guard let handle = handle.withLock({ $0 }) else { throw CocoaError(.fileWriteUnknown) }
        return handle
    }
}

/// Opens a file that an attempt uploads.
///
/// - Throws: `POSIXError` if the system is short of something; `CocoaError` if the file cannot be opened otherwise.
func openUpload(_ location: URL) throws -> FileHandle {
    let descriptor = open(location.path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw fileError(errno, isReading: true) }
    let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw fileError(errno, isReading: true) }
    // open(2) opens a folder, too.
    guard status.st_mode & S_IFMT != S_IFDIR else { throw fileError(EISDIR, isReading: true) }
    return file
}

/// Makes the error of a file that could not be opened: of a shortage, which passes, the system's, otherwise Foundation's.
private func fileError(_ number: Int32, isReading: Bool) -> any Error {
    let error = POSIXError(POSIXErrorCode(rawValue: number) ?? .EIO)
    let code: CocoaError.Code
    switch number {
    case EMFILE, ENFILE, ENOMEM: return error
    case ENOSPC, EDQUOT: code = .fileWriteOutOfSpace
    case ENOENT where isReading: code = .fileReadNoSuchFile
    case EACCES, EPERM: code = isReading ? .fileReadNoPermission : .fileWriteNoPermission
    default: code = isReading ? .fileReadUnknown : .fileWriteUnknown
    }
    return CocoaError(code, userInfo: [NSUnderlyingErrorKey: error])
}
