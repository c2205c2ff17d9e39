#if MQTT
import Glibc
import Reachability

/// A request to the server of `Scripts/herd`: a connection, a line, and a line as the answer.
enum HerdRequest {
    /// The address of the server, of IPv4.
    struct Server: Sendable {
        var host: String
        var port: UInt16

        init?(_ text: String) {
            let parts = text.split(separator: ":").map(String.init)
            var address = in_addr()
            guard parts.count == 2, inet_pton(AF_INET, parts[0], &address) == 1, let port = UInt16(parts[1]) else { return nil }
            (host, self.port) = (parts[0], port)
        }
    }

    /// The server is overloaded.
    struct Refusal: Error, CustomStringConvertible {
        var description: String { "refused" }
    }

    /// The number of the system's error.
    struct Failure: Error, CustomStringConvertible {
        var number: Int32
        var description: String { String(cString: strerror(number)) }
    }

    /// Sends a line and waits for the answer, on a thread of its own.
    static func send(_ line: String, to server: Server, within limit: Duration) async throws {
        let answer: Result<String, Failure> = await withCheckedContinuation { continuation in
            let error = SystemThread.start {
                continuation.resume(returning: exchange(line, server, ContinuousClock.now + limit))
            }
            if error != 0 { continuation.resume(returning: .failure(Failure(number: error))) }
        }
        guard try answer.get() == "ok\n" else { throw Refusal() }
    }

    private static func exchange(_ line: String, _ server: Server, _ end: ContinuousClock.Instant) -> Result<String, Failure> {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        guard descriptor >= 0 else { return .failure(Failure(number: errno)) }
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = server.port.bigEndian
        inet_pton(AF_INET, server.host, &address.sin_addr)
        let status = withUnsafePointer(to: address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard status == 0 || errno == EINPROGRESS else { return .failure(Failure(number: errno)) }
        guard wait(for: POLLOUT, of: descriptor, until: end) else { return .failure(Failure(number: ETIMEDOUT)) }
        var (number, size) = (Int32(0), socklen_t(MemoryLayout<Int32>.size))
        getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &number, &size)
        guard number == 0 else { return .failure(Failure(number: number)) }
        let bytes = Array((line + "\n").utf8)
        guard Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count else {
            return .failure(Failure(number: errno))
        }
        guard wait(for: POLLIN, of: descriptor, until: end) else { return .failure(Failure(number: ETIMEDOUT)) }
        var answer = [UInt8](repeating: 0, count: 64)
        let count = recv(descriptor, &answer, answer.count, 0)
        guard count > 0 else { return .failure(Failure(number: count == 0 ? ECONNRESET : errno)) }
        return .success(String(decoding: answer.prefix(count), as: UTF8.self))
    }

    /// Waits for an event of a socket; returns false at a time.
    private static func wait(for events: Int32, of descriptor: Int32, until end: ContinuousClock.Instant) -> Bool {
        var entry = pollfd(fd: descriptor, events: Int16(events), revents: 0)
        while true {
            let left = (end - .now) / .milliseconds(1)
            guard left > 0 else { return false }
            let count = poll(&entry, 1, Int32(left.rounded(.up)))
            if count > 0 { return true }
            guard count == 0 || errno == EINTR else { return false }
        }
    }
}
#endif
