import Foundation
import Glibc
import TestSupport
import Testing

/// A folder that replaces iproute2's.
extension TemporaryFolder {
    /// Runs `explain` with this folder mounted over iproute2's, in a mount namespace.
    fileprivate func explain(_ network: CabledNetwork, _ arguments: String...) async throws -> (code: Int32, output: String) {
        let script = """
            for folder in /etc/iproute2 /usr/share/iproute2 /usr/lib/iproute2; do
                [ ! -d "$folder" ] || mount --bind "$0" "$folder" || exit 99
            done
            exec "$@"
            """
        return try await Child.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, path, WatchCommand.path, "explain"]
                + ["--netns", network.near.name] + arguments,
            allowFailure: true)
    }
}

/// `explain` on the real kernel.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct ExplainTests {
    private func network() async throws -> CabledNetwork {
        let network = try await CabledNetwork.online()
        try await network.near.ip(
            """
            route del default
            route add default via 192.0.2.1 dev cable0 table 66 proto dhcp metric 100
            rule add lookup 66
            """)
        return network
    }

    @Test func routesHaveTheNamesOfTheFiles() async throws {
        let (network, names) = (try await network(), try TemporaryFolder())
        try names.write("66 vpn # of the office\n", to: "rt_tables.d/vpn.conf")
        try names.write("16 lease\n", to: "rt_protos")
        let text = try await names.explain(network, "--to", "198.41.0.4")
        #expect(text.code == 0)
        #expect(text.output.contains("table vpn, metric 100, protocol lease, scope global, matched default: usable"))
        let json = try await names.explain(network, "--to", "198.41.0.4", "--format", "json")
        #expect(json.output.contains(#""table":66,"tableName":"vpn","metric":100,"protocol":"lease","scope":"global","#))
    }

    @Test func numbersNeedNoFiles() async throws {
        let (network, names) = (try await network(), try TemporaryFolder())
        let text = try await names.explain(network, "--to", "198.41.0.4")
        #expect(text.code == 0 && text.output.contains("table 66, metric 100, protocol dhcp, scope global"))
    }

    @Test func hostileFilesAreEscaped() async throws {
        let (network, names) = (try await network(), try TemporaryFolder())
        var bytes: [UInt8] = Array("66 \u{1b}]0;title\u{7}\u{202e}\n".utf8) + [0x31, 0x36, 0x20, 0xff, 0x0a]
        bytes += (0..<2_000_000).map { _ in UInt8.random(in: 0...255) }
        try names.write(bytes, to: "rt_tables")
        try names.write(bytes, to: "rt_protos")
        let text = try await names.explain(network, "--to", "198.41.0.4")
        #expect(text.code == 0)
        #expect(text.output.contains(#"table \x1b]0;title\x07\u{202e}, metric 100, protocol \xff, scope global"#))
        #expect(text.output.unicodeScalars.allSatisfy { $0 == "\n" || (0x20...0x7e).contains($0.value) })
    }

    // MARK: - Advice

    /// Returns the last lines of `explain`: the missing layer, and the next step.
    private func advice(_ network: CabledNetwork) async throws -> (missing: String, next: String) {
        let text = try await Child.run([WatchCommand.path, "explain", "--netns", network.near.name], allowFailure: true).output
        let lines = text.split(separator: "\n").suffix(2).map { line in
            line.drop { $0 != " " }.drop { $0 == " " }.description
        }
        return try (#require(lines.first), #require(lines.last))
    }

    @Test func adviceForADeadRouteWorks() async throws {
        let network = try await CabledNetwork.online()
        try await network.addIPv6()
        try await network.addIPv4(1, metric: 600)
        try await network.addIPv6(1, metric: 600)
        try await network.pull()
        let advice = try await advice(network)
        #expect(advice.missing == "carrier on cable0, whose route precedes the working one through cable1")
        #expect(advice.next.hasPrefix("sysctl net.ipv4.") && advice.next.contains(" net.ipv6."))
        try await Child.run(["ip", "netns", "exec", network.near.name] + advice.next.split(separator: " ").map(String.init))
        for destination in ["198.41.0.4", "2001:7fd::1"] {
            // The kernel marks the routes of a dead link up to a second after its carrier was lost (net/core/link_watch.c).
            let wait = [WatchCommand.path, "wait", "--netns", network.near.name, "--to", destination, "--timeout", "20s"]
            #expect(try await Child.run(wait, allowFailure: true).code == 0, "\(destination)")
        }
    }

    @Test func ruleForBoundSocketsMakesNoSpare() async throws {
        let network = try await CabledNetwork.online()
        try await network.addIPv4(1, metric: 600)
        try await network.near.ip(
            """
            route del default dev cable1
            route add default via 198.51.100.1 dev cable1 table 200
            rule add oif cable1 lookup 200
            """)
        try await network.pull()
        #expect(try await advice(network).next == "ip -details link show dev cable0")
    }

    @Test func suppressedTableIsSearchedByRules() async throws {
        let network = try await CabledNetwork.online()
        try await network.near.ip(
            """
            link set cable0 group 7
            rule del lookup main
            rule add lookup main suppress_ifgroup 7 priority 900
            """)
        let advice = try await advice(network)
        #expect(advice.missing == "a route that the rules select, such as a default route")
        #expect(advice.next == "ip -4 route show table all; ip -4 rule show")
    }

    @Test func ipv6IsOffWithASmallMTU() async throws {
        let network = try await CabledNetwork()
        try await network.near.ip("link set cable0 mtu 1200 up")
        let advice = try await advice(network)
        #expect(
            advice.missing
                == "an address on cable0: it has none of IPv4, and IPv6 is off (disable_ipv6 is set, or the MTU is below 1280)")
    }

    @Test func adviceForAPartialPathWorks() async throws {
        let network = try await CabledNetwork()
        try await network.addMultipath()
        // The first one that stands for the internet.
        let port = try await network.port(to: "198.41.0.4")
        try await network.pull(port)
        // The kernel announces the carrier up to a second later (net/core/link_watch.c).
        let clock = ContinuousClock()
        let start = clock.now
        var status = ""
        while !status.contains("fail: "), clock.now - start < .seconds(2) * Machine.slowness {
            status = try await Child.run([WatchCommand.path, "status", "--netns", network.near.name]).output
        }
        let lines = status.split(separator: "\n")
        #expect(lines.count == 3 && lines[0].hasSuffix(", some IPv4 connections fail: no carrier"), "\(status)")
        #expect(lines[1] == "  missing: carrier on cable\(port): a part of the IPv4 connections goes there")
        let advice = try await advice(network)
        #expect(advice.next == "sysctl net.ipv4.conf.all.ignore_routes_with_linkdown=1")
        try await Child.run(["ip", "netns", "exec", network.near.name] + advice.next.split(separator: " ").map(String.init))
        // A sysctl alone moves no share: the next change of a next hop does.
        try await network.near.ip(
            "route del default\nroute add default nexthop via 192.0.2.1 dev cable0 nexthop via 198.51.100.1 dev cable1")
        let mended = try await Child.run([WatchCommand.path, "status", "--netns", network.near.name]).output
        let block = CabledNetwork.block(1 - port)
        #expect(mended == "internet: satisfied via cable\(1 - port), gateway \(block).1, source \(block).10, IPv4")
    }

    // MARK: - Caveats

    private func caveats(_ network: CabledNetwork, _ arguments: String...) async throws -> [String] {
        let command = [WatchCommand.path, "explain", "--netns", network.near.name] + arguments
        let text = try await Child.run(command, allowFailure: true).output
        return text.split(separator: "\n").map(String.init).filter { $0.hasPrefix("not checked: ") }
    }

    @Test func policyThatStopsConnectIsNamed() async throws {
        let network = try await CabledNetwork.online()
        #expect(try await caveats(network).isEmpty)
        try await network.near.run(
            "ip", "xfrm", "policy", "add", "src", "192.0.2.0/24", "dst", "1.0.0.0/8", "dir", "out", "action", "block")
        try await network.near.run(
            "ip", "xfrm", "policy", "add", "src", "0.0.0.0/0", "dst", "0.0.0.0/0", "dir", "in", "action", "block")
        let blocked = "not checked: an IPsec policy blocks packets from 192.0.2.0/24 to 1.0.0.0/8: connect(2) fails with EPERM"
        #expect(try await caveats(network) == [blocked])
        // The lookup passes, and connect(2) does not.
        let connect =
            "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); sys.exit(s.connect_ex((sys.argv[1], 9)))"
        var errors: [Int32] = []
        for address in ["1.1.1.1", "198.41.0.4"] {
            let command = ["ip", "netns", "exec", network.near.name, "python3", "-c", connect, address]
            errors.append(try await Child.run(command, allowFailure: true).code)
        }
        #expect(errors == [EPERM, 0])
        // Without the privilege the kernel does not tell, and nothing is said.
        let plain = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", WatchCommand.path, "explain"]
        let text = try await Child.run(["ip", "netns", "exec", network.near.name] + plain, allowFailure: true).output
        #expect(text.contains("IPv4: satisfied") && !text.contains("not checked"))
    }

    @Test func gatewayThatDoesNotAnswerIsNamed() async throws {
        let network = try await CabledNetwork.online()
        #expect(try await caveats(network).isEmpty, "nothing was sent to it yet")
        try await network.near.sysctl("net.ipv4.neigh.cable0.retrans_time_ms", "10")
        let send = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('198.41.0.4', 9)); s.send(b'')"
        try await network.near.run("python3", "-c", send)
        #expect(try await caveats(network) == ["not checked: gateway 192.0.2.1 does not answer on cable0"])
        let json = try await Child.run([WatchCommand.path, "explain", "--netns", network.near.name, "--format", "json"]).output
        let member = #""notChecked":[{"kind":"silentNeighbour","detail":"gateway 192.0.2.1 does not answer on cable0"}]"#
        #expect(json.contains(member), "\(json)")
    }

    @Test func silentGatewayOfSeveralHasASetting() async throws {
        let network = try await CabledNetwork()
        try await network.addMultipath()
        let port = try await network.port(to: "198.41.0.4")
        let (gateway, other) = ("\(CabledNetwork.block(port)).1", "\(CabledNetwork.block(1 - port)).1")
        try await network.far.ip("addr add \(other)/24 dev remote\(1 - port)")
        try await network.near.ip("neigh replace \(gateway) dev cable\(port) nud failed")
        let advice = try await advice(network)
        #expect(advice.missing == "an answer of gateway \(gateway) on cable\(port): a part of the IPv4 connections goes there")
        #expect(advice.next == "sysctl net.ipv4.fib_multipath_use_neigh=1")
    }

    @Test func modemThatIsGoneLeavesNoInterfaceToMend() async throws {
        let network = try await CabledNetwork.online()
        try await network.near.ip("link del cable0")
        let advice = try await advice(network)
        #expect(advice.missing == "an interface that leads there: cable1 is shut down")
        #expect(advice.next == "ip link show; ip -4 route show table all")
    }
}
