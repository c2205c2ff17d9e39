import Glibc
import Reachability
import Synchronization
import TestSupport

/// A name server that finds one IPv4 address for every name, and is silent until a test lets it answer.
final class NameServer: Sendable {
    private let descriptor: Int32
    private let address: [UInt8]
    private let isAnswering = Atomic(false)
    private let isOpen = Mutex(true)
    /// An element for each query.
    let queries: AsyncStream<Void>
    private let received: AsyncStream<Void>.Continuation

    private init(_ descriptor: Int32, finding address: String) {
        self.descriptor = descriptor
        (queries, received) = AsyncStream.makeStream()
        var found = in_addr()
        inet_pton(AF_INET, address, &found)
        self.address = withUnsafeBytes(of: found.s_addr) { Array($0) }
    }

    /// Starts a name server.
    ///
    /// - Parameters:
    ///   - own: The address at which it listens.
    ///   - namespace: The namespace that has this address.
    ///   - found: The address that every name has.
    static func start(at own: String, in namespace: Namespace, finding found: String) async throws -> NameServer {
        let path = namespace.path
        return try await withCheckedThrowingContinuation { continuation in
            // The thread stays in the namespace that it enters, and ends there.
            detachThread {
                let server: NameServer
                do {
                    try enterNetworkNamespace(path)
                    server = NameServer(try open(own), finding: found)
                } catch {
                    return continuation.resume(throwing: error)
                }
                continuation.resume(returning: server)
                server.run()
            }
        }
    }

    /// Answers from now on.
    func begin() { isAnswering.store(true, ordering: .releasing) }

    /// Ends the thread.
    func stop() {
        // Under the lock, under which the thread closes the descriptor: its number is soon another descriptor's.
        isOpen.withLock { isOpen in
            // Fails, since the socket has no peer, and still wakes the reader (inet_shutdown, net/ipv4/af_inet.c).
            if isOpen { shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
    }

    private static func open(_ address: String) throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var name = sockaddr_in()
        name.sin_family = sa_family_t(AF_INET)
        name.sin_port = UInt16(53).bigEndian
        inet_pton(AF_INET, address, &name.sin_addr)
        let isBound = withUnsafePointer(to: &name) { name in
            name.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard isBound else {
            defer { close(descriptor) }
            throw Child.Failure(description: "no name server at \(address): \(String(cString: strerror(errno)))")
        }
        return descriptor
    }

    private func run() {
        var query = [UInt8](repeating: 0, count: 512)
        var client = sockaddr_storage()
        while true {
            var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
            let count = withUnsafeMutablePointer(to: &client) { client in
                client.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    recvfrom(descriptor, &query, query.count, 0, $0, &size)
                }
            }
            if count < 0, errno == EINTR { continue }
            // What ends the reader is no datagram, and has no sender.
            guard count > 0 else { break }
            received.yield()
            guard isAnswering.load(ordering: .acquiring), let answer = answer(to: query[..<count]) else { continue }
            withUnsafePointer(to: &client) { client in
                _ = client.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    sendto(descriptor, answer, answer.count, 0, $0, size)
                }
            }
        }
        received.finish()
        isOpen.withLock {
            $0 = false
            close(descriptor)
        }
    }

    /// Answers a query by RFC 1035, section 4.1: an A record, or no record for a question of another type.
    private func answer(to query: ArraySlice<UInt8>) -> [UInt8]? {
        // The header has 12 bytes; the question is a name, which ends in an empty label, a type and a class.
        guard query.count > 12, let end = query[12...].firstIndex(of: 0), end + 4 < query.endIndex else { return nil }
        let isAddress = query[end + 1] == 0 && query[end + 2] == 1
        let header = query[..<2] + [0x85, 0x80, 0, 1, 0, isAddress ? 1 : 0, 0, 0, 0, 0]
        // The name of the question, by a pointer; A, IN, 0 s to live, and 4 bytes.
        let record: [UInt8] = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4] + address
        return header + query[12...(end + 4)] + (isAddress ? record : [])
    }
}
