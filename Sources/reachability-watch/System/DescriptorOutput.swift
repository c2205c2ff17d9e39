import Glibc

/// Lines to a file descriptor, unbuffered: a line that was written is out, whatever ends the process.
struct DescriptorOutput: LineOutput {
    /// Standard output.
    static let standard = DescriptorOutput(descriptor: STDOUT_FILENO)
    /// Standard error.
    static let diagnostics = DescriptorOutput(descriptor: STDERR_FILENO)

    private let descriptor: Int32

    /// Lines to a descriptor that stays the caller's.
    init(descriptor: Int32) { self.descriptor = descriptor }

    /// Whether another process reads the lines: the descriptor is a pipe, a FIFO or a socket.
    var hasReader: Bool {
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { return false }
        let kind = information.st_mode & S_IFMT
        return kind == S_IFIFO || kind == S_IFSOCK
    }

    func write(_ line: String) throws(OutputFailure) {
        var rest = Array((line + "\n").utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count >= 0 {
                rest = rest.dropFirst(count)
                continue
            }
            switch errno {
            case EINTR: continue
            // The descriptor may be shared with somebody who made it non-blocking.
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
    /// Writes a message for people who look at standard error.
    ///
    /// If it cannot be written there is nobody left to tell.
    static func complain(_ message: String) {
        try? diagnostics.write("reachability-watch: \(message)")
    }
}

/// Somewhere to write lines to.
protocol LineOutput: Sendable {
    /// Writes a line and its end, and returns when the system has taken it.
    func write(_ line: String) throws(OutputFailure)
}

/// A line could not be written.
enum OutputFailure: Error, Hashable {
    /// Nobody reads any more (EPIPE): no reason to complain.
    case readerGone
    /// The system refused, with this error number (errno(3)).
    case refused(errno: Int32)
}

/// Notices that the reader of standard output has gone although there is nothing to write, as in `reachability-watch | head -1`.
enum ReaderWatch {
    /// Ends the process quietly when standard output is a pipe or socket that nobody reads any more.
    static func start() {
        guard DescriptorOutput.standard.hasReader else { return }
        var thread = pthread_t()
        let error = pthread_create(&thread, nil, { _ in ReaderWatch.watch() }, nil)
        // Without it the next line's EPIPE ends the process: later, and just as quietly.
        if error == 0 { pthread_detach(thread) }
    }

    private static func watch() -> UnsafeMutableRawPointer? {
        // No events are asked for: POLLERR and POLLHUP come unasked, and a pipe without readers has POLLERR (poll(2)).
        var request = pollfd(fd: STDOUT_FILENO, events: 0, revents: 0)
        while true {
            let count = poll(&request, 1, -1)
            if count == 1 { _exit(ExitStatus.yes.rawValue) }
            if count == -1, errno != EINTR { return nil }
        }
    }
}
