import Glibc
import Reachability

/// Unbuffered lines to a file descriptor: a written line is out, however the process ends.
package struct DescriptorOutput: LineOutput {
    /// Standard output.
    package static let standard = DescriptorOutput(descriptor: STDOUT_FILENO)
    /// Standard error.
    package static let diagnostics = DescriptorOutput(descriptor: STDERR_FILENO)

    private let descriptor: Int32

    /// Writes to a descriptor that the caller owns.
    package init(descriptor: Int32) { self.descriptor = descriptor }

    /// `true` if another process reads the lines: the descriptor is a pipe, a FIFO or a socket.
    package var hasReader: Bool {
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { return false }
        let kind = information.st_mode & S_IFMT
        return kind == S_IFIFO || kind == S_IFSOCK
    }

    package func write(_ line: String) throws(OutputFailure) { try write(bytes: Array((line + "\n").utf8)[...]) }

    /// Writes bytes as they are.
    package func write(bytes: ArraySlice<UInt8>) throws(OutputFailure) {
        var rest = bytes
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count >= 0 {
                rest = rest.dropFirst(count)
                continue
            }
            switch errno {
            case EINTR: continue
            // Another process that shares the descriptor may have made it non-blocking.
            case EAGAIN: awaitRoom()
            case EPIPE: throw .readerGone
            case let error: throw .refused(errno: error)
            }
        }
    }

    private func awaitRoom() {
        var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        _ = poll(&request, 1, -1)
    }
}

extension DescriptorOutput {
    /// Writes a message to standard error, above the ``StatusLine``.
    ///
    /// Ignores errors: there is no other place for messages.
    package static func printMessage(_ message: String) {
        StatusLine.hide()
        defer { StatusLine.restore() }
        try? diagnostics.write("reachability-watch: \(message)")
    }
}

/// A destination of lines.
package protocol LineOutput: Sendable {
    /// Writes a line and its end; returns once the system has taken it.
    func write(_ line: String) throws(OutputFailure)
}

/// The error of a line that was not written.
package enum OutputFailure: Error, Hashable {
    /// The reader is gone (EPIPE): not worth a message.
    case readerGone
    /// The system refused, with this error number (errno(3)).
    case refused(errno: Int32)
}

/// Notices that the reader of standard output has gone while there is nothing to write, as in `reachability-watch | head -1`.
package enum ReaderWatch {
    /// Starts a thread that ends the process quietly once a pipe or socket at standard output has no reader.
    ///
    /// - Parameter end: Ends the process, if there is more to do than that.
    package static func start(_ end: @escaping @Sendable () -> Void = { _exit(ExitStatus.yes.rawValue) }) {
        guard DescriptorOutput.standard.hasReader else { return }
        // Without this thread the EPIPE of the next line ends the process: later, and just as quietly.
        SystemThread.start { watch(end) }
    }

    private static func watch(_ end: () -> Void) {
        // No events are requested: poll(2) always reports POLLERR and POLLHUP, and a pipe without readers has POLLERR.
        var request = pollfd(fd: STDOUT_FILENO, events: 0, revents: 0)
        while true {
            let count = poll(&request, 1, -1)
            if count == 1 { return end() }
            if count == -1, errno != EINTR { return }
        }
    }
}
