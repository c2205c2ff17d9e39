import Glibc
import Reachability
import Testing

/// IPv6 sockets that are bound to an interface, where routes are for some sources only.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct BoundSocketTests {
    /// Two cables with one prefix; the first one's default route is the better one.
    private func network() async throws -> CabledNetwork {
        let network = try await CabledNetwork()
        try await network.near.ip(
            """
            link set cable0 up
            link set cable1 up
            addr add 2001:db8:1::10/64 dev cable0 nodad
            addr add 2001:db8:1::11/64 dev cable1 nodad
            route add ::/0 from 2001:db8:1::/64 via fe80::1 dev cable0 metric 50
            """)
        return network
    }

    private func bound(to name: String) -> Scope {
        var scope = Scope.internet
        scope.interface = name
        return scope
    }

    /// A lookup with a source finds the first cable's route; a bound socket does not connect.
    @Test func aRouteThroughAnotherInterfaceDoesNotSatisfy() async throws {
        let network = try await network()
        let monitor = ReachabilityMonitor(KernelNetwork(networkNamespace: network.near.path))
        #expect(try monitor.path(to: bound(to: "cable0")).ipv6.isSatisfied)
        #expect(try monitor.path(to: bound(to: "cable1")).offlineReason == .noRoute)
    }

    /// A lookup with a source finds the first cable's route, although the socket connects through the second one.
    @Test func aWorseRouteThroughItsInterfaceSatisfies() async throws {
        let network = try await network()
        try await network.near.ip("route add ::/0 from 2001:db8:1::/64 via fe80::2 dev cable1 metric 60")
        let monitor = ReachabilityMonitor(KernelNetwork(networkNamespace: network.near.path))
        for name in ["cable0", "cable1"] {
            let path = try monitor.path(to: bound(to: name))
            #expect(path.ipv6.isSatisfied && path.interface?.name == name && path.ipv6.source != nil)
        }
    }

    @Test func anIPv4SourceThatIsGoneIsRefused() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        let kernel = KernelNetwork(networkNamespace: network.near.path)
        let gone = RouteQuery(to: try #require(IPAddress("1.1.1.1")), source: .address(try #require(IPAddress("192.0.2.99"))))
        let verdict = try #require(kernel.routes(to: [gone]).first).get()
        #expect(verdict.mayLackSource)
    }
}
