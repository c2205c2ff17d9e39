internal import Glibc

/// A file that is recorded to or replayed from.
///
/// Closed when it is released. Reading and writing block; use it from one thread at a time.
package final class RecordingFile: Sendable {
    private static let readSize = 64 << 10

    /// The path, or the name of the descriptor, for messages.
    package let path: String
    private let descriptor: Int32
    private let isOwner: Bool

    private init(_ descriptor: Int32, path: String) throws(ReachabilityError) {
        guard descriptor >= 0 else { throw ReachabilityError(.fileFailed, errno: errno, operation: "open(\(path))") }
        self.descriptor = descriptor
        self.path = path
        isOwner = true
    }

    /// Creates a file to record to.
    ///
    /// Never overwrites a file.
    ///
    /// - Throws: ``ReachabilityError`` with EEXIST if the file exists, or with another errno of open(2).
    package convenience init(creating path: String) throws(ReachabilityError) {
        try self.init(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666), path: path)
    }

    /// Opens a file to replay from.
    ///
    /// - Throws: ``ReachabilityError`` with the errno of open(2).
    package convenience init(reading path: String) throws(ReachabilityError) {
        try self.init(open(path, O_RDONLY | O_CLOEXEC), path: path)
    }

    /// Wraps an open descriptor, such as standard output, which the caller keeps owning.
    ///
    /// - Parameters:
    ///   - descriptor: the descriptor.
    ///   - name: its name in messages.
    package init(descriptor: Int32, name: String) {
        self.descriptor = descriptor
        path = name
        isOwner = false
    }

    deinit {
        if isOwner { close(descriptor) }
    }

    /// Writes all bytes, and returns when the kernel has taken them.
    ///
    /// - Throws: ``ReachabilityError`` with the errno of write(2). Some bytes may have been written.
    package func write(_ bytes: [UInt8]) throws(ReachabilityError) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count >= 0 { rest = rest.dropFirst(count) } else { try recover("write(\(path))", Int16(POLLOUT)) }
        }
    }

    /// Reads the next bytes, none at the end.
    ///
    /// - Throws: ``ReachabilityError`` with the errno of read(2).
    package func read() throws(ReachabilityError) -> [UInt8] {
        while true {
            var count = 0
            let bytes = [UInt8](unsafeUninitializedCapacity: Self.readSize) { buffer, length in
                count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
                length = max(count, 0)
            }
            if count >= 0 { return bytes }
            try recover("read(\(path))", Int16(POLLIN))
        }
    }

    /// Waits after an EAGAIN, returns after an EINTR, and throws after any other errno.
    private func recover(_ operation: String, _ event: Int16) throws(ReachabilityError) {
        switch errno {
        case EINTR: break
        // Another process that shares the open file may have made it non-blocking.
        case EAGAIN:
            var request = pollfd(fd: descriptor, events: event, revents: 0)
            _ = poll(&request, 1, -1)
        case let error: throw ReachabilityError(.fileFailed, errno: error, operation: operation)
        }
    }
}
