import Foundation
import Glibc
import Reachability

/// Links, addresses and routes from `ip`, and the results of connect(2) on real sockets; independent of the code under test.
struct KernelView: Sendable {
    /// The route of a socket's packets.
    struct Way: Hashable, Sendable {
        var device: String
        var gateway: String?
        /// The address that connect(2) selected, if any.
        var source: String?
        /// `true` for an address of the machine itself.
        var isLocal = false
        /// `true` without a route: for a bound socket the kernel assumes that the destination is on the link.
        var isGuess = false
    }

    enum Answer: Hashable, Sendable {
        /// The socket was connected, or lacks only a source.
        case way(Way)
        case refusal(errno: Int32)
    }

    struct Link: Decodable, Hashable, Sendable {
        struct Address: Decodable, Hashable, Sendable {
            var family: String
            var local: String?
            var tentative: Bool?
            var optimistic: Bool?
            var dadfailed: Bool?

            /// `true` unless duplicate address detection forbids its use.
            var isReady: Bool { dadfailed != true && (tentative != true || optimistic == true) }
        }

        var ifindex: Int?
        var ifname: String?
        var flags: [String]?
        var operstate: String?
        var altnames: [String]?
        var addresses: [Address]?

        /// `true` between a change of the carrier and the kernel's event (linkwatch_do_dev, net/core/link_watch.c).
        ///
        /// The flag changes at once, the state with the event; a device without carrier events stays `UNKNOWN`.
        var hasUnannouncedCarrier: Bool {
            let hasCarrier = flags?.contains("LOWER_UP") == true
            return hasCarrier ? ["DOWN", "LOWERLAYERDOWN"].contains(operstate) : operstate == "UP"
        }

        func has(name: String) -> Bool { ifname == name || altnames?.contains(name) == true }

        enum CodingKeys: String, CodingKey {
            case ifindex, ifname, flags, operstate, altnames
            case addresses = "addr_info"
        }
    }

    private struct Route: Decodable {
        struct Via: Decodable { var host: String }
        struct Hop: Decodable { var dev: String? }
        var dev: String?
        var gateway: String?
        var via: Via?
        var type: String?
        var prefsrc: String?
        var nexthops: [Hop]?
        var nhid: Int?
    }

    /// A nexthop object: one next hop, or a group of others.
    private struct NexthopObject: Decodable {
        struct Member: Decodable { var id: Int }
        var id: Int
        var dev: String?
        var group: [Member]?
    }

    /// Unexpected output of `ip`.
    struct Unreadable: Error, CustomStringConvertible {
        var description: String
    }

    var links: [Link]
    /// For each target of a multipath route the sockets that are bound to its next hops.
    private(set) var legs: [SocketTarget: [SocketTarget]] = [:]
    private var objects: [NexthopObject]
    /// The answers to each target: several if the kernel's answers varied.
    var answers: [SocketTarget: Set<Answer>]
    /// The results of connect(2).
    private(set) var connections: [SocketTarget: SocketTarget.Connection]

    /// Reads the kernel's state, optionally on one processor.
    static func taken(of targets: [SocketTarget], in namespace: Namespace, processor: Int? = nil) async throws -> KernelView {
        let connections = try await SocketTarget.connect(targets, in: namespace, processor: processor ?? -1)
        let lines = zip(targets, connections).flatMap(Self.lines)
        let prefix = processor.map { "taskset -c \($0) " } ?? ""
        let script = """
            errors=$({ \(prefix)ip -j -force -batch - 2>&1 >&3 <<'END'
            address show
            nexthop show
            \(lines.joined(separator: "\n"))
            END
            } ) 3>&1
            echo "errors:"
            echo "$errors"

            """
        let output = try await Child.run(["ip", "netns", "exec", namespace.name, "sh"], input: script).output
        let view = try KernelView(targets, connections, output)
        let bound = Array(Set(view.legs.values.joined()))
        return bound.isEmpty ? view : view.merged(with: try await .taken(of: bound, in: namespace, processor: processor))
    }

    /// Returns the `ip` lines about one socket: its route, its route with the source, and the table entries of both.
    private static func lines(_ target: SocketTarget, _ connection: SocketTarget.Connection) -> [String] {
        // connect(2) takes `::` for `::1` (tcp_v6_connect, net/ipv6/tcp_ipv6.c).
        let destination = target.destination == "::" ? "::1" : target.destination
        var options = " ipproto \(target.isDatagram ? "udp" : "tcp")"
        if let interface = target.interface { options += " oif \(interface)" }
        if let mark = target.mark { options += " mark \(mark)" }
        if let uid = target.uid { options += " uid \(uid)" }
        if let port = target.port { options += " dport \(port)" }
        var from = ""
        if case .accepted(let source) = connection, source != "0.0.0.0", source != "::" { from = " from \(source)" }
        return ["", "fibmatch "].flatMap { kind in ["", from].map { "route get \(kind)\(destination)\($0)\(options)" } }
    }

    /// Parses the output: the answers in their order, then errors with their line numbers.
    private init(_ targets: [SocketTarget], _ connections: [SocketTarget.Connection], _ output: String) throws {
        let parts = output.split(separator: "errors:\n", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2 else { throw Unreadable(description: output) }
        var documents = parts[0].split(separator: "\n").map { Data($0.utf8) }[...]
        let refusals = try Self.refusals(parts[1])
        guard let first = documents.popFirst() else { throw Unreadable(description: output) }
        links = try JSONDecoder().decode([Link].self, from: first).filter { $0.ifname != nil }
        guard let second = documents.popFirst() else { throw Unreadable(description: output) }
        objects = try JSONDecoder().decode([NexthopObject].self, from: second)
        answers = [:]
        self.connections = Dictionary(zip(targets, connections)) { first, _ in first }
        var line = 2
        func next() throws -> Result<Route, Refusal> {
            line += 1
            if let errno = refusals[line] { return .failure(Refusal(errno: errno)) }
            guard let document = documents.popFirst(), let route = try JSONDecoder().decode([Route].self, from: document).first
            else {
                throw Unreadable(description: "line \(line): \(output)")
            }
            return .success(route)
        }
        for (target, connection) in zip(targets, connections) {
            let (plain, confirmed, plainEntry, entry) = (try next(), try next(), try next(), try next())
            answers[target] = [answer(target, connection, plain, confirmed, entry)]
            // Of a group of next hop objects the kernel takes one by a hash, whatever the socket is bound to (fib6_select_path(),
            // net/ipv6/route.c).
            if target.isIPv6, target.interface != nil, case .accepted(let source) = connection, case .success(let route) = plain,
                case .success(let found) = plainEntry, found.nhid != nil, let device = route.dev
            {
                answers[target]?.insert(.way(Way(device: device, gateway: route.gateway, source: source)))
            }
            // The kernel chooses a next hop before it has a source: what a rule does with that source concerns one share only.
            let devices = target.interface == nil ? devices(of: plainEntry).union(devices(of: entry)).sorted() : []
            if devices.count > 1 {
                legs[target] = devices.map { device in
                    var bound = target
                    bound.interface = device
                    return bound
                }
            }
            // Either of a bound IPv6 socket's two lookups may be the reason: with a source `ip` is less strict.
            if target.isIPv6, target.interface != nil, case .refused = connection, case .failure(let refusal) = plain {
                answers[target]?.insert(.refusal(errno: refusal.errno))
            }
        }
    }

    /// Returns the interfaces of a table entry's next hops; without `nexthop_compat_mode` it names only their object.
    private func devices(of entry: Result<Route, Refusal>) -> Set<String> {
        guard case .success(let route) = entry else { return [] }
        let members = objects.first { $0.id == route.nhid }?.group?.map(\.id) ?? []
        return Set((route.nexthops ?? []).compactMap(\.dev) + objects.filter { members.contains($0.id) }.compactMap(\.dev))
    }

    private struct Refusal: Error { var errno: Int32 }

    private func answer(
        _ target: SocketTarget, _ connection: SocketTarget.Connection, _ plain: Result<Route, Refusal>,
        _ confirmed: Result<Route, Refusal>, _ entry: Result<Route, Refusal>
    ) -> Answer {
        switch connection {
        case .refused(EADDRNOTAVAIL):
            // Without any source the route holds the reason.
            switch plain {
            case .success(let route): return .way(way(target, route, source: nil))
            case .failure(let refusal): return .refusal(errno: refusal.errno)
            }
        case .refused(ENETUNREACH) where !target.isIPv6 && lacksSource(plain):
            return .way(way(target, try? plain.get(), source: nil))
        case .refused(let errno):
            // Without a global address the socket's second lookup has an unusable source.
            if target.isIPv6, !hasGlobalIPv6, case .failure(let refusal) = plain { return .refusal(errno: refusal.errno) }
            return .refusal(errno: errno)
        case .accepted(let source):
            // IPv4 looks up again with the source; IPv6 does so only if it found nothing without (ip6_dst_lookup_tail).
            let decisive = target.isIPv6 ? (try? plain.get()) ?? (try? confirmed.get()) : try? confirmed.get()
            var way = way(target, decisive, source: source)
            if !target.isIPv6, target.interface != nil, !way.isLocal, case .failure = entry { way.isGuess = true }
            return .way(way)
        }
    }

    /// `true` for a route whose source no interface holds: it was local by another route, and is refused without that.
    private func lacksSource(_ plain: Result<Route, Refusal>) -> Bool {
        guard case .success(let route) = plain, let source = route.prefsrc else { return false }
        return !links.contains { ($0.addresses ?? []).contains { $0.local == source } }
    }

    /// `true` if an interface holds a usable IPv6 source for the internet.
    private var hasGlobalIPv6: Bool {
        for address in links.flatMap({ $0.addresses ?? [] }) where address.family == "inet6" && address.isReady {
            let text = address.local ?? ""
            if text != "::1" && !text.hasPrefix("fe80:") { return true }
        }
        return false
    }

    private func way(_ target: SocketTarget, _ route: Route?, source: String?) -> Way {
        let isLocal = ["local", "anycast"].contains(route?.type)
        // `ip` prefers the interface, a socket insists on it (ip6_route_output_flags, net/ipv6/route.c).
        if let bound = target.interface, !isLocal, !links.contains(where: { $0.ifname == route?.dev && $0.has(name: bound) }) {
            return Way(device: links.first { $0.has(name: bound) }?.ifname ?? bound, source: source)
        }
        let holder = links.first { ($0.addresses ?? []).contains { $0.local == source } }?.ifname
        return Way(
            device: route?.dev ?? holder ?? "-", gateway: route?.gateway ?? route?.via?.host, source: source, isLocal: isLocal)
    }

    private static func refusals(_ text: Substring) throws -> [Int: Int32] {
        var refusals: [Int: Int32] = [:]
        var errno: Int32 = 0
        for line in text.split(separator: "\n") {
            if line.hasPrefix("RTNETLINK answers: ") {
                let words = line.dropFirst("RTNETLINK answers: ".count)
                errno = (1..<134).first { String(cString: strerror($0)) == words } ?? 0
            } else if line.hasPrefix("Cannot find device") {
                errno = ENODEV
            } else if line.hasPrefix("Command failed -:"), let number = Int(line.dropFirst("Command failed -:".count)) {
                refusals[number] = errno
            }
        }
        return refusals
    }

    /// Returns the view with the answers of another one added.
    func merged(with other: KernelView) -> KernelView {
        var merged = self
        merged.answers.merge(other.answers) { $0.union($1) }
        merged.connections.merge(other.connections) { first, _ in first }
        merged.legs.merge(other.legs) { Array(Set($0).union($1)) }
        return merged
    }
}
