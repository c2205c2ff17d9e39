import CNetlink
import Glibc
import TestSupport
import Testing

/// `true` if this process may create network namespaces.
///
/// Always true in CI, where tests fail without the permission.
private let mayMakeNamespaces = geteuid() == 0 || getenv("CI") != nil

/// A new network namespace, removed at the end.
private final class Namespace {
    let name: String
    var path: String { "/run/netns/\(name)" }

    init(_ purpose: String) throws {
        name = "cnetlink-\(getpid())-\(purpose)"
        try Namespace.ip("netns", "add", name)
        try ip("link", "set", "lo", "up")
    }

    deinit { try? Namespace.ip("netns", "del", name) }

    func ip(_ arguments: String...) throws { try ip(arguments) }

    func ip(_ arguments: [String]) throws { try Namespace.run(["ip", "-n", name] + arguments) }

    private static func ip(_ arguments: String...) throws { try run(["ip"] + arguments) }

    private static func run(_ arguments: [String]) throws {
        let status = awaitEnd(of: try spawn(arguments))
        guard status == 0 else { throw Failure(errno: status, operation: arguments.joined(separator: " ")) }
    }
}

private func inode(_ path: String) -> UInt? {
    var status = stat()
    return stat(path, &status) == 0 ? UInt(status.st_ino) : nil
}

private func blockedSignals() -> [Int32] {
    var signals = sigset_t()
    pthread_sigmask(SIG_BLOCK, nil, &signals)
    return (1...64).filter { sigismember(&signals, $0) == 1 }
}

@Suite(.enabled(if: mayMakeNamespaces), .timeLimit(.minutes(10))) struct NamespaceTests {
    @Test(arguments: [
        ("unreachable", "240.0.0.1/32", "240.0.0.1", EHOSTUNREACH), ("prohibit", "240.0.0.2/32", "240.0.0.2", EACCES),
        ("blackhole", "240.0.0.3/32", "240.0.0.3", EINVAL), ("throw", "240.0.0.4/32", "240.0.0.4", ENETUNREACH),
        ("unreachable", "2001:db8::1/128", "2001:db8::1", EHOSTUNREACH), ("prohibit", "2001:db8::2/128", "2001:db8::2", EACCES),
        ("blackhole", "2001:db8::3/128", "2001:db8::3", EINVAL), ("throw", "2001:db8::4/128", "2001:db8::4", ENETUNREACH),
    ])
    func refusalsKeepErrno(kind: String, prefix: String, destination: String, expected: Int32) throws {
        let namespace = try Namespace("\(kind)\(destination.contains(":") ? 6 : 4)")
        try namespace.ip("route", "add", kind, prefix)
        for isStrict in [true, false] {
            let socket = try Socket(namespace: namespace.path)
            if isStrict { try #require(cnl_set_strict(socket.handle) == 0) }
            let answer = try socket.route(to: cnl_address(destination))
            #expect(answer.kind == CNL_ERROR)
            #expect(answer.error == expected)
        }
    }

    @Test(arguments: ["192.0.2.1", "2001:db8::1"]) func missingRouteIsNetworkUnreachable(destination: String) throws {
        let namespace = try Namespace("none\(destination.contains(":") ? 6 : 4)")
        let socket = try Socket(namespace: namespace.path)
        let answer = try socket.route(to: cnl_address(destination))
        #expect(answer.kind == CNL_ERROR && answer.error == ENETUNREACH)
    }

    @Test func lookupReturnsDecidingRoute() throws {
        let namespace = try Namespace("lookup")
        try namespace.ip("link", "add", "cable0", "type", "veth", "peer", "name", "far0")
        try namespace.ip("link", "set", "cable0", "up")
        try namespace.ip("link", "set", "far0", "up")
        try namespace.ip("addr", "add", "192.0.2.10/24", "dev", "cable0")
        try namespace.ip("addr", "add", "2001:db8::10/64", "dev", "cable0", "nodad")
        let viaIPv6 = ["-4", "route", "add", "default", "via", "inet6", "2001:db8::1", "dev", "cable0"]
        try namespace.ip(viaIPv6 + ["metric", "77", "table", "100"])
        try namespace.ip("rule", "add", "to", "198.51.100.0/24", "table", "100")
        try namespace.ip("-6", "route", "add", "default", "via", "2001:db8::1", "dev", "cable0", "metric", "88")
        let socket = try Socket(namespace: namespace.path)
        try #require(cnl_set_strict(socket.handle) == 0)
        let plain = try socket.route(to: cnl_address("198.51.100.1"))
        #expect(plain.kind == CNL_ROUTE)
        #expect(plain.route.type == 1 && plain.route.table == 100 && plain.route.interface != 0)
        #expect(plain.route.gateway.octets == cnl_address("2001:db8::1").octets)
        #expect(plain.route.source.octets == [192, 0, 2, 10])
        let match = try socket.route(to: cnl_address("198.51.100.1"), matching: true)
        #expect(match.route.destination_length == 0 && match.route.metric == 77 && match.route.table == 100)
        let wide = try socket.route(to: cnl_address("2001:db8:1::1"))
        #expect(wide.route.gateway.octets == cnl_address("2001:db8::1").octets && wide.route.table == 254)
        #expect(wide.route.source.octets == cnl_address("2001:db8::10").octets)
        let wideMatch = try socket.route(to: cnl_address("2001:db8:1::1"), matching: true)
        #expect(wideMatch.route.destination_length == 0 && wideMatch.route.metric == 88)
    }

    @Test func namespaceSocketHearsOnlyItsNamespace() throws {
        let namespace = try Namespace("events")
        let socket = try Socket(namespace: namespace.path)
        try #require(cnl_join(socket.handle, 1) == 0)
        try namespace.ip("link", "add", "cable0", "type", "veth", "peer", "name", "far0")
        var queue = cnl_queue()
        #expect(cnl_read_queue(socket.handle, &queue) == 0 && queue.bytes > 0 && queue.drops == 0)
        let message = try #require(try socket.receive().first)
        #expect(message.kind == CNL_LINK)
        #expect(["cable0", "far0"].contains { Array($0.utf8) == message.link.nameBytes })
    }

    @Test func overrunDiffersFromEmptyQueue() throws {
        let namespace = try Namespace("overrun")
        let socket = try Socket(namespace: namespace.path)
        try #require(cnl_set_nonblocking(socket.handle) == 0 && cnl_join(socket.handle, 7) == 0)
        var granted: UInt32 = 0
        try #require(cnl_set_receive_buffer(socket.handle, 1, &granted) == 0)
        for index in 1...20 { try namespace.ip("route", "add", "unreachable", "240.0.0.\(index)/32") }
        var errors: [Int32] = []
        while errors.last != EAGAIN {
            do throws(Failure) { _ = try socket.receive() } catch { errors.append(error.errno) }
        }
        #expect(errors == [ENOBUFS, EAGAIN])
        var queue = cnl_queue()
        #expect(cnl_read_queue(socket.handle, &queue) == 0)
        #expect(queue.drops > 0 && queue.bytes == 0)
    }

    @Test func socketOfAnotherNamespaceIsNotTakenOver() throws {
        let (one, other) = (try Namespace("one"), try Namespace("other"))
        let socket = try Socket(namespace: one.path)
        var operation: UnsafePointer<CChar>?
        #expect(cnl_check_socket(cnl_descriptor(socket.handle), one.path, &operation) == 0)
        #expect(cnl_check_socket(cnl_descriptor(socket.handle), other.path, &operation) == -EXDEV)
        #expect(cnl_check_socket(cnl_descriptor(socket.handle), nil, &operation) == -EXDEV)
    }

    @Test func callingThreadKeepsItsNamespace() throws {
        let namespace = try Namespace("home")
        let before = try #require(inode("/proc/thread-self/ns/net"))
        let signalsBefore = blockedSignals()
        let socket = try Socket(namespace: namespace.path)
        #expect(inode("/proc/thread-self/ns/net") == before)
        #expect(inode(namespace.path) != before)
        #expect(cnl_descriptor(socket.handle) >= 0)
        #expect(blockedSignals() == signalsBefore)
    }

    @Test(arguments: [
        ("/run/netns/no-such-namespace", ENOENT, "open"), ("", ENOENT, "open"), ("/etc/passwd", EINVAL, "setns"),
        ("/proc/self/ns/mnt", EINVAL, "setns"), ("/etc", EINVAL, "setns"),
    ])
    func invalidNamespaceNamesFailedCall(path: String, expected: Int32, operation: String) {
        #expect(throws: Failure(errno: expected, operation: operation)) {
            _ = try Socket(namespace: path)
        }
        #expect(cnl_enter_namespace(path) == -expected)
    }
}
