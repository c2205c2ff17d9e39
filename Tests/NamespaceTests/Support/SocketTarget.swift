import CSandbox
import Glibc
import Reachability
import TestSupport

/// A socket to one address with the options of a scope.
struct SocketTarget: Hashable, Sendable {
    var destination: String
    var mark: UInt32?
    var uid: UInt32?
    var interface: String?
    var isDatagram = false
    var port: UInt16?

    init(_ destination: String, as scope: Scope = .internet) {
        self.destination = destination
        (mark, uid, interface, port) = (scope.mark, scope.uid, scope.interface, scope.port)
        isDatagram = scope.transport == .udp
    }

    var isIPv6: Bool { destination.contains(":") }
    /// `true` for a link-local or multicast destination.
    var hasLinkScope: Bool {
        let text = destination.lowercased()
        return text.hasPrefix("fe80:") || text.hasPrefix("ff") || text.hasPrefix("169.254.")
            || (224...239).contains(text.split(separator: ".").first.flatMap { Int($0) } ?? 0)
    }

    /// The result of connect(2) on a real, non-blocking socket.
    enum Connection: Hashable, Sendable {
        /// Accepted, with this source address.
        case accepted(source: String)
        case refused(errno: Int32)
    }

    /// Connects a socket for each target in a network namespace.
    ///
    /// Sends no packet.
    static func connect(
        _ targets: [SocketTarget], in namespace: Namespace, processor: Int = -1
    ) async throws -> [Connection] {
        let path = namespace.path
        let (result, probes) = await withCheckedContinuation { continuation in
            detachThread {
                var probes = targets.map(\.probe)
                let result = csandbox_connect(path, Int32(processor), &probes, probes.count)
                continuation.resume(returning: (result, probes))
            }
        }
        guard result == 0 else { throw Child.Failure(description: "no sockets: \(String(cString: strerror(-result)))") }
        return try zip(targets, probes).map { target, probe in
            // The interface to bind to may be missing.
            if probe.failure == -ENODEV { return .refused(errno: ENODEV) }
            guard probe.failure == 0 else {
                throw Child.Failure(description: "\(target): no socket: \(String(cString: strerror(-probe.failure)))")
            }
            return probe.refusal == 0 ? .accepted(source: Self.text(probe)) : .refused(errno: probe.refusal)
        }
    }

    private var probe: csandbox_probe {
        var probe = csandbox_probe()
        probe.family = UInt8(isIPv6 ? AF_INET6 : AF_INET)
        probe.is_datagram = isDatagram
        (probe.has_mark, probe.mark) = (mark != nil, mark ?? 0)
        (probe.has_uid, probe.uid) = (uid != nil, uid ?? 0)
        probe.port = port ?? 0
        _ = withUnsafeMutableBytes(of: &probe.destination) { inet_pton(Int32(probe.family), destination, $0.baseAddress) }
        withUnsafeMutableBytes(of: &probe.interface) { $0.copyBytes(from: (interface ?? "").utf8.prefix(15)) }
        return probe
    }

    private static func text(_ probe: csandbox_probe) -> String {
        var buffer = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        _ = withUnsafeBytes(of: probe.source) {
            inet_ntop(Int32(probe.family), $0.baseAddress, &buffer, socklen_t(buffer.count))
        }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
