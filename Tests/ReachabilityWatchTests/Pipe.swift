import Glibc
import Synchronization

/// A pipe(7), closed with its owner.
final class Pipe: Sendable {
    let writeEnd: Int32
    private let readEnd: Int32
    private let isReadEndOpen = Mutex(true)
    private let isWriteEndOpen = Mutex(true)

    struct Failure: Error {
        var errno: Int32
    }

    init() throws {
        // A pipe without a name would be open in children that other tests start before it is marked close-on-exec.
        let path = "/tmp/reachability-watch-test-\(getpid())-\(UInt64.random(in: 0 ... .max))"
        guard mkfifo(path, 0o600) == 0 else { throw Failure(errno: errno) }
        defer { unlink(path) }
        readEnd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        writeEnd = open(path, O_WRONLY | O_CLOEXEC)
        guard readEnd >= 0, writeEnd >= 0, fcntl(readEnd, F_SETFL, 0) == 0 else { throw Failure(errno: errno) }
    }

    deinit {
        closeReadEnd()
        closeWriteEnd()
    }

    func closeReadEnd() {
        isReadEndOpen.withLock { isOpen in
            if isOpen { close(readEnd) }
            isOpen = false
        }
    }

    func closeWriteEnd() {
        isWriteEndOpen.withLock { isOpen in
            if isOpen { close(writeEnd) }
            isOpen = false
        }
    }

    /// What one read gives.
    func available() -> String {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = read(readEnd, &buffer, buffer.count)
        return String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
    }

    /// Everything up to a line's end, which is dropped, or to the end of the file.
    func readLine() -> String {
        var text = ""
        while !text.hasSuffix("\n") {
            let more = available()
            if more.isEmpty { return text }
            text += more
        }
        return String(text.dropLast())
    }

    /// Everything up to the end of the file.
    func readAll() -> String {
        var text = ""
        while case let more = available(), !more.isEmpty { text += more }
        return text
    }
}
