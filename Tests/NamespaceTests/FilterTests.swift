import Glibc
import Reachability
import Testing

/// The filter on the real kernel: it drops irrelevant messages and passes all others.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)), .serialized)
struct FilterTests {
    @Test func unrelatedRoutesCauseNoWakeUp() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        let tap = KernelTap(KernelNetwork(networkNamespace: network.near.path))
        try await network.watching(on: tap) { watcher in
            let before = tap.routes
            try await network.near.ip(
                (0..<100_000).map { "route add 10.\($0 >> 10).\($0 >> 2 & 255).\(($0 & 3) << 6)/26 via 192.0.2.1" }
                    .joined(separator: "\n"))
            try await network.near.ip("route flush root 10.0.0.0/8")
            #expect(tap.routes == before)
            try await watcher.expect(.unsatisfied, .noRoute) { try await network.near.ip("route del default") }
            #expect(tap.routes == before + 1)
            let health = watcher.monitor.health
            #expect(health.losses == 0 && health.drops == 0 && health.reopens == 0)
        }
    }

    @Test func unfilteredSocketReceivesAllRoutes() async throws {
        let network = try await CabledNetwork()
        // A cable's own IPv6 address brings routes of its own when its detection ends.
        try await network.near.sysctl("net.ipv6.conf.all.disable_ipv6", "1")
        try await network.addIPv4()
        let tap = KernelTap(KernelNetwork(networkNamespace: network.near.path, usesFilter: false))
        try await network.watching(on: tap) { watcher in
            let before = tap.routes
            try await network.near.ip("route add 10.1.0.0/16 via 192.0.2.1\nroute del 10.1.0.0/16")
            try await watcher.expect(.unsatisfied, .noRoute) { try await network.near.ip("route del default") }
            #expect(tap.routes == before + 3)
        }
    }

    @Test func decidingRoutesPassFilter() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        try await network.addIPv6()
        let near = network.near
        try await network.watching { watcher in
            try await watcher.expect(kinds: .familyLost) { try await near.ip("route del ::/0") }
            try await watcher.expect(.unsatisfied, .noRoute) { try await near.ip("route del default") }
            // The halves of a VPN's split default.
            try await near.ip("route add 0.0.0.0/1 via 192.0.2.1")
            try await watcher.expect(.satisfied) { try await near.ip("route add 128.0.0.0/1 via 192.0.2.1") }
            try await near.ip("route add ::/1 via 2001:db8::1\nroute add 8000::/1 via 2001:db8::1")
            try await watcher.expect(kinds: .familyGained) {}
            try await watcher.expect(kinds: .familyLost) { try await near.ip("route add unreachable 2001:400::/22") }
            try await watcher.expect(.unsatisfied, .unreachable) { try await near.ip("route add unreachable 192.0.0.0/5") }
        }
    }

    @Test(arguments: [("10.200.3.4", "10.200.0.0/16", "10.200.3.5/32"), ("2001:db8:7::4", "2001:db8:7::/48", "2001:db8:7::5/128")])
    func routesToWatchedAddressPassFilter(address: String, block: String, neighbour: String) async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        try await network.addIPv6()
        let near = network.near
        let host = Scope.address(try #require(IPAddress(address)))
        let tap = KernelTap(KernelNetwork(networkNamespace: near.path))
        try await network.watching(host, on: tap) { watcher in
            let before = tap.routes
            try await near.ip("route add unreachable \(neighbour)")
            try await watcher.expect(.unsatisfied, .unreachable) { try await near.ip("route add unreachable \(block)") }
            try await watcher.expect(.unsatisfied, .prohibited) { try await near.ip("route add prohibit \(address)") }
            try await watcher.expect(.unsatisfied, .unreachable) { try await near.ip("route del prohibit \(address)") }
            try await watcher.expect(.satisfied) { try await near.ip("route del unreachable \(block)") }
            #expect(tap.routes == before + 4)
        }
    }

    @Test func laterWatchedAddressPassesFilter() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        let near = network.near
        try await network.watching { watcher in
            var others: [Watcher] = []
            // In the end more than the filter can distinguish.
            for number in 1...40 {
                let host = Scope.address(try #require(IPAddress("10.200.3.\(number)")))
                let later = Watcher(watcher.monitor, host, near)
                try await later.start()
                #expect(later.path.isSatisfied)
                others.append(later)
                try await later.expect(.unsatisfied, .blackhole) { try await near.ip("route add blackhole 10.200.3.\(number)") }
            }
        }
    }
}
