import Glibc
import Reachability
import TestSupport
import Testing

/// Attacks from other processes on the machine.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct HostileTests {
    @Test func spoofedFramesAreDroppedAndCounted() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        let index = try #require(try await network.index(of: "cable0"))
        try await network.watching { watcher in
            try await watcher.expectSilence(pulling: network) {
                let port = try #require(try await network.eventPorts().first)
                let health = watcher.monitor.healthUpdates
                try await Spoofing.send(linkRemoval: index, to: port, in: network.near.path)
                for await health in health where health.spoofed > 0 { break }
            }
            #expect(watcher.monitor.health.spoofed == 1)
        }
    }

    @Test(arguments: [
        ("\\033[31mred", "\u{1b}[31mred"), ("a\\377b", "a\\xffb"), ("\\303\\244\\303", "ä\\xc3"), ("-rf", "-rf"),
        ("$(id)", "$(id)"),
        ("\\342\\200\\256evil", "\u{202e}evil"), ("a\\134b", "a\\x5cb"), ("\"quoted\"", "\"quoted\""),
    ])
    func hostileInterfaceNamesAreLossless(octal: String, name: String) async throws {
        let network = try await CabledNetwork()
        try await Child.run([
            "sh", "-c",
            """
            set -e
            n="$(printf -- '\(octal)')"
            ip -n \(network.near.name) link set dev cable0 name "$n"
            ip -n \(network.near.name) link set dev "$n" up
            ip -n \(network.near.name) addr add 192.0.2.10/24 dev "$n"
            ip -n \(network.near.name) route add default via 192.0.2.1 dev "$n"
            """,
        ])
        try await network.watching { watcher in
            #expect(watcher.path.status == .satisfied && watcher.path.interface?.name == name)
            var bound = Scope.internet
            bound.interface = name
            let path = try watcher.monitor.path(to: bound)
            #expect(path.ipv4.interface?.name == name)
        }
    }
}

extension CabledNetwork {
    func index(of interface: String) async throws -> UInt32? {
        let text = try await near.run("cat", "/sys/class/net/\(interface)/ifindex")
        return UInt32(text.filter(\.isNumber))
    }

    /// The ports of the machine's event sockets: those with groups in /proc/net/netlink.
    func eventPorts() async throws -> [UInt32] {
        try await near.run("cat", "/proc/net/netlink").split(separator: "\n").dropFirst().compactMap { line in
            let fields = line.split(separator: " ")
            guard fields.count > 3, fields[1] == "0", UInt32(fields[3], radix: 16) != 0 else { return nil }
            return UInt32(fields[2]).flatMap { $0 == 0 ? nil : $0 }
        }
    }
}

/// Frames from another sender than the kernel, which only root may send.
private enum Spoofing {
    static func send(linkRemoval index: UInt32, to port: UInt32, in namespace: String) async throws {
        // nlmsghdr: length 32, RTM_DELLINK (17), no flags, sequence, port; ifinfomsg: family, type, index, flags, change.
        let message: [UInt32] = [32, 17, 0, 0, 0, index, 0, 0xffff_ffff]
        // sockaddr_nl: AF_NETLINK (16), padding, port, no groups.
        let address: [UInt32] = [16, port, 0]
        let result: Int32 = await withCheckedContinuation { continuation in
            detachThread {
                do {
                    try enterNetworkNamespace(namespace)
                } catch {
                    return continuation.resume(returning: (error as? ReachabilityError)?.errno ?? -1)
                }
                let descriptor = socket(16, Int32(SOCK_RAW.rawValue), 0)
                let sent = address.withUnsafeBytes { address in
                    address.withMemoryRebound(to: sockaddr.self) {
                        sendto(descriptor, message, message.count * 4, 0, $0.baseAddress, socklen_t(address.count))
                    }
                }
                let error = sent == message.count * 4 ? 0 : errno
                close(descriptor)
                continuation.resume(returning: error)
            }
        }
        guard result == 0 else { throw Child.Failure(description: "spoofing failed: \(String(cString: strerror(result)))") }
    }
}
