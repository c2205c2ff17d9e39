import Reachability
import Testing

/// IPv6, and both families together.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct FamilyTests {
    @Test func ipv6NeedsFinishedAddressDetection() async throws {
        let network = try await CabledNetwork()
        try await network.near.ip("link set cable0 up")
        // It lasts until the sockets have been probed, however busy the machine is.
        try await network.near.sysctl("net.ipv6.conf.cable0.dad_transmits", "100")
        try await network.watching { watcher in
            try await watcher.expect(.unsatisfied, .addressTentative) {
                try await network.near.ip("addr add 2001:db8::10/64 dev cable0\nroute add default via 2001:db8::1 dev cable0")
            }
            // The kernel reads the interval before each probe (addrconf_dad_work, net/ipv6/addrconf.c).
            let ready = try await watcher.expect(.satisfied, delay: .seconds(5)) {
                try await network.near.sysctl("net.ipv6.neigh.cable0.retrans_time_ms", "10")
            }
            #expect(ready?.cause.kind == .addressAdded && ready?.current.ipv6.source == IPAddress("2001:db8::10"))
        }
    }

    @Test func familiesComeAndGoIndependently() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        try await network.watching { watcher in
            let gained = try await watcher.expect(kinds: .familyGained) { try await network.addIPv6() }
            #expect(gained.current.supportsIPv4 && gained.current.supportsIPv6 && gained.epoch == 1)
            let lost = try await watcher.expect(kinds: .familyLost) { try await network.near.ip("route del default") }
            #expect(!lost.current.supportsIPv4 && lost.current.supportsIPv6 && lost.epoch == 1)
            try await watcher.expect(.unsatisfied, .noRoute) { try await network.near.ip("route del ::/0") }
        }
    }

    /// A change over IPv6 beside IPv4 that works is no news, and the next line has it.
    @Test func reasonOfTheOtherFamilyIsCurrent() async throws {
        let network = try await CabledNetwork.online()
        try await network.watching { watcher in
            let changes: [(String, OfflineReason)] = [
                ("addr add 2001:db8::10/64 dev cable0 nodad", .noRoute),
                ("route add unreachable default", .unreachable), ("route del unreachable default", .noRoute),
                ("route add prohibit default", .prohibited), ("route del prohibit default", .noRoute),
                ("rule add blackhole priority 50", .blackhole), ("rule del blackhole priority 50", .noRoute),
                ("addr del 2001:db8::10/64 dev cable0", .noAddress),
            ]
            for (number, (change, reason)) in changes.enumerated() {
                try await Child.run(["ip", "-6", "-n", network.near.name] + change.split(separator: " ").map(String.init))
                try await network.near.ip("route replace default via 192.0.2.\(20 + number) dev cable0 metric 100")
                let line = try await watcher.next()
                #expect(line.kinds == .gatewayChanged && line.current.ipv6.reason == reason, "\(change)")
                #expect(watcher.monitor.path.ipv6.reason == reason, "\(change)")
            }
        }
    }

    @Test func disablingIPv6IsNoticed() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv6()
        try await network.watching { watcher in
            try await watcher.expect(.unsatisfied, .noAddress) {
                try await network.near.sysctl("net.ipv6.conf.cable0.disable_ipv6", "1")
            }
        }
    }

    @Test func ipv4LeavesThroughIPv6NextHop() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv6()
        try await network.near.ip("route del ::/0\naddr add 192.0.2.10/32 dev cable0")
        try await network.watching { watcher in
            let found = try await watcher.expect(.satisfied) {
                try await network.near.ip("route add 0.0.0.0/0 via inet6 2001:db8:0::1 dev cable0")
            }
            #expect(
                found?.current.ipv4.gateway == IPAddress("2001:db8::1")
                    && found?.current.gateways.map(\.description) == ["2001:db8::1"])
            try await watcher.expect(.unsatisfied, .noRoute) { try await network.near.ip("route del 0.0.0.0/0") }
        }
    }

    @Test func addressScopeUsesItsOwnRoute() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        try await network.near.ip("route del default")
        let neighbour = try #require(IPAddress("192.0.2.77"))
        try await network.watching(.address(neighbour)) { watcher in
            #expect(watcher.path.status == .satisfied && watcher.path.gateways.isEmpty && watcher.path.ipv4.prefixLength == 24)
            try await watcher.expect(.unsatisfied, .unreachable) {
                try await network.near.ip("route add unreachable 192.0.2.77/32")
            }
            try await watcher.expect(.satisfied) { try await network.near.ip("route del unreachable 192.0.2.77/32") }
        }
    }
}
