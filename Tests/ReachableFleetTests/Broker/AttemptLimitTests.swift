#if MQTT
import Glibc
import TestSupport
import Testing

@testable import ReachableFleet

/// Members of one process at a broker that accepts connections and answers none.
@Suite(.timeLimit(.minutes(5)), .serialized, .blocking) struct AttemptLimitTests {
    private static let limit = 16

    @Test func sixteenConnectAtATime() throws {
        let server = try SilentServer()
        let start = ContinuousClock.now
        // An attempt takes 10 s at most.
        func isFull() -> Bool { server.accept(within: 200) == nil || ContinuousClock.now - start > .seconds(9) }
        let transport = MosquittoTransport(try FleetBroker("mqtt://127.0.0.1:\(server.port)"))
        let links = (0..<20).map { number in
            transport.link(FleetConnection(clientID: "c\(number)", will: nil, keepAlive: .seconds(20))) { _ in }
        }
        defer { for link in links { link.close() } }
        for link in links { link.open() }
        var connections = try (0..<Self.limit).map { _ in try #require(server.accept(within: 60_000)) }
        defer { for connection in connections { close(connection) } }
        #expect(isFull())
        // An attempt that ends makes room for another one.
        close(connections.removeFirst())
        connections.append(try #require(server.accept(within: 60_000)))
        #expect(isFull())
        // Three wait, the last ones. They are closed first, and need no room then.
        for link in links.reversed() { link.close() }
        let last = transport.link(FleetConnection(clientID: "last", will: nil, keepAlive: .seconds(20))) { _ in }
        last.open()
        defer { last.close() }
        connections.append(try #require(server.accept(within: 60_000)))
        #expect(isFull())
    }
}

/// A server on a free port of the loopback device that reads and writes nothing.
final class SilentServer: Sendable {
    let port: UInt16
    private let descriptor: Int32

    init() throws { (descriptor, port) = try #require(Self.listen(at: 0)) }

    deinit { close(descriptor) }

    /// True if a port is free.
    static func canListen(at port: UInt16) -> Bool {
        guard let (descriptor, _) = listen(at: port) else { return false }
        close(descriptor)
        return true
    }

    private static func listen(at port: UInt16) -> (descriptor: Int32, port: UInt16)? {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        (address.sin_family, address.sin_addr.s_addr) = (sa_family_t(AF_INET), UInt32(0x7f00_0001).bigEndian)
        address.sin_port = port.bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(descriptor, address, size) == 0 && Glibc.listen(descriptor, 64) == 0
                    && getsockname(descriptor, address, &size) == 0
            }
        }
        guard isListening else {
            close(descriptor)
            return nil
        }
        return (descriptor, UInt16(bigEndian: address.sin_port))
    }

    /// Returns the next connection; `nil` if none comes within some milliseconds.
    func accept(within milliseconds: Int32) -> Int32? {
        var event = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&event, 1, milliseconds) == 1 ? Glibc.accept(descriptor, nil, nil) : nil
    }
}
#endif
