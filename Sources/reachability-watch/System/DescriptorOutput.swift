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
