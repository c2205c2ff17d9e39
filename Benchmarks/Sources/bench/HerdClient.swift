import CBench
import Glibc
import Synchronization

/// Asks the server: connects, writes a line and reads one, without a thread for each.
///
/// One thread waits for all connections (epoll(7)).
final class HerdClient: Sendable {
    /// The time limit of an answer, in nanoseconds.
    static let timeout: Int64 = 2_000_000_000

    typealias Answer = CheckedContinuation<Void, any Error>

    private struct Connection {
        var descriptor: Int32
        var start: Int64
        var answer: Answer
        var hasAsked = false
    }

    private struct Connections {
        /// By their numbers, which are never used again, as descriptors are.
        var byNumber: [UInt64: Connection] = [:]
        var next: UInt64 = 1
        /// The first that may not have ended.
        ///
        /// All wait for as long: no later one has waited too long if this one has not.
        var oldest: UInt64 = 1
        var isClosed = false
    }

    private let poll: Int32
    private let address: sockaddr_in
    private let connections = Mutex(Connections())

    init(_ server: String, port: UInt16) throws {
        poll = try BenchError.check(bench_poll_open(), "epoll_create1")
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        inet_pton(AF_INET, server, &address.sin_addr)
        self.address = address
        var thread = pthread_t()
        // The thread keeps the client until `close()`.
        let created = pthread_create(
            &thread, nil,
            { client in
                if let client { Unmanaged<HerdClient>.fromOpaque(client).takeRetainedValue().work() }
                return nil
            }, Unmanaged.passRetained(self).toOpaque())
        try BenchError.check(-created, "pthread_create")
        pthread_detach(thread)
    }

    deinit { Glibc.close(poll) }

    /// Ends the thread.
    func close() { connections.withLock { $0.isClosed = true } }

    /// Asks, and waits for the answer.
    ///
    /// - Throws: `HerdFailure`.
    func ask() async throws { try await withCheckedThrowingContinuation { start($0) } }

    private func start(_ answer: Answer) {
        let start = bench_now()
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return answer.resume(throwing: HerdFailure(errno: errno, start: start)) }
        // Closed with a reset: nothing lingers that would use up the ports.
        var linger = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout.size(ofValue: linger)))
        let isUnderway = withUnsafePointer(to: address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0 || errno == EINPROGRESS
            }
        }
        guard isUnderway else {
            let failure = HerdFailure(errno: errno, start: start)
            Glibc.close(descriptor)
            return answer.resume(throwing: failure)
        }
        let number = connections.withLock { connections in
            defer { connections.next += 1 }
            connections.byNumber[connections.next] = Connection(descriptor: descriptor, start: start, answer: answer)
            return connections.next
        }
        bench_poll_watch(poll, descriptor, number, true)
    }

    // MARK: - The thread

    private func work() {
        var numbers = [UInt64](repeating: 0, count: Int(BENCH_POLL_MOST))
        while !connections.withLock({ $0.isClosed }) {
            let count = bench_poll_wait(poll, &numbers, 10)
            for number in numbers.prefix(max(0, Int(count))) { proceed(number) }
            while let number = nextLate() { finish(number, ETIMEDOUT) }
        }
    }

    /// A connection that has waited for too long.
    private func nextLate() -> UInt64? {
        let now = bench_now()
        return connections.withLock { connections in
            while connections.oldest < connections.next {
                guard let connection = connections.byNumber[connections.oldest] else {
                    connections.oldest += 1
                    continue
                }
                return connection.start + Self.timeout <= now ? connections.oldest : nil
            }
            return nil
        }
    }

    private func proceed(_ number: UInt64) {
        guard let connection = connections.withLock({ $0.byNumber[number] }) else { return }
        guard connection.hasAsked else { return ask(connection, number) }
        var line = [UInt8](repeating: 0, count: 16)
        let count = recv(connection.descriptor, &line, line.count, 0)
        if count < 0, errno == EAGAIN { return }
        finish(number, count > 0 ? nil : count == 0 ? ECONNRESET : errno)
    }

    private func ask(_ connection: Connection, _ number: UInt64) {
        var (error, size) = (Int32(0), socklen_t(MemoryLayout<Int32>.size))
        getsockopt(connection.descriptor, SOL_SOCKET, SO_ERROR, &error, &size)
        guard error == 0 else { return finish(number, error) }
        guard send(connection.descriptor, "?\n", 2, Int32(MSG_NOSIGNAL)) == 2 else { return finish(number, errno) }
        connections.withLock { $0.byNumber[number]?.hasAsked = true }
        bench_poll_watch(poll, connection.descriptor, number, false)
    }

    private func finish(_ number: UInt64, _ error: Int32?) {
        guard let connection = connections.withLock({ $0.byNumber.removeValue(forKey: number) }) else { return }
        Glibc.close(connection.descriptor)
        if let error {
            connection.answer.resume(throwing: HerdFailure(errno: error, start: connection.start))
        } else {
            connection.answer.resume()
        }
    }
}
